"""Access to a local app: allowed host names, and the token in its printed address."""

import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field

from egorecovery.errors import StudioError

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
MIN_TOKEN = 16  # characters of a user's token; generated ones have 43


def random_token() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, kw_only=True)
class Access:
    """Requirements of a request. The port is not part of the host name, because a forwarded port may differ."""

    token: str = field(default_factory=random_token, repr=False)
    host_names: tuple[str, ...] = LOOPBACK_NAMES

    def knows_host(self, host: str) -> bool:
        """Whether a Host header, with or without a port, is allowed."""
        name, colon, port = host.rpartition(":")
        if not colon or not port.isdigit():
            name = host
        return name.lower() in self.host_names

    def admits(self, token: str | None) -> bool:
        return token is not None and hmac.compare_digest(token.encode(), self.token.encode())


def access_for(host: str, token: str | None = None) -> Access:
    """Access to an app bound to `host`. An address that others can reach needs a token from the user."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise StudioError(
            f"--host {host!r} is not an address of this machine; give one, such as 127.0.0.1 or 192.168.1.5"
        ) from None
    if address.is_unspecified:
        raise StudioError(f"--host {host} would listen everywhere; name the one address to listen on")
    if token is not None and len(token) < MIN_TOKEN:
        raise StudioError(f"the token has {len(token)} characters, at least {MIN_TOKEN} are needed")
    name = f"[{host}]" if address.version == 6 else host
    if address.is_loopback:
        return Access(token=token or random_token(), host_names=(*LOOPBACK_NAMES, name))
    if token is None:
        raise StudioError(
            f"--host {host} can be reached by others, and no token was given: write one ({MIN_TOKEN} characters or "
            f"more) to a file that only you can read and pass --token-file, or leave --host out and forward the port "
            f"with ssh -L"
        )
    return Access(token=token, host_names=(name,))
