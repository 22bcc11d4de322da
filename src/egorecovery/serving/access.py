"""Rules on who may connect: a request's Host, Origin and API key."""

import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from websockets.datastructures import Headers

from egorecovery.errors import ServingError

SHORTEST_KEY = 16
# openpi's client connects to 0.0.0.0 by default and sends that as its Host header.
ALWAYS_ALLOWED = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - compared, not bound to


@dataclass(frozen=True)
class Refusal:
    """The answer to a refused request."""

    status: HTTPStatus
    reason: str  # a word for logs and metrics
    text: str


@dataclass(frozen=True, kw_only=True)
class AccessRules:
    """Checks made before a connection becomes a WebSocket."""

    api_key: str | None = None
    hosts: frozenset[str] = frozenset()  # Host names that are allowed besides this machine's own address

    def refusal(self, headers: Headers, local: str, needs_key: bool = True) -> Refusal | None:
        """Why a request is refused, or None. `local` is the address it arrived at."""
        hosts = headers.get_all("Host")
        if len(hosts) != 1 or (named := host_name(hosts[0])) is None:
            return Refusal(HTTPStatus.BAD_REQUEST, "host", "the request must have one Host header")
        if named not in ALWAYS_ALLOWED | self.hosts | {local}:
            text = f"host '{named:.80}' is not allowed; start the server with --allow-host {named:.80}"
            return Refusal(HTTPStatus.FORBIDDEN, "host", text)
        # Robots send no Origin. Browsers do, and a page of another site must not reach the robot through one.
        if any(_authority(origin) != hosts[0].lower() for origin in headers.get_all("Origin")):
            return Refusal(HTTPStatus.FORBIDDEN, "origin", "web pages of other origins may not connect")
        if self.api_key is not None and needs_key and not self._knows_key(headers.get_all("Authorization")):
            return Refusal(HTTPStatus.UNAUTHORIZED, "key", "send the API key as 'Authorization: Api-Key KEY'")
        return None

    def _knows_key(self, headers: Sequence[str]) -> bool:
        scheme, _, key = headers[0].partition(" ") if len(headers) == 1 else ("", "", "")
        assert self.api_key is not None
        same = hmac.compare_digest(key.strip().encode(), self.api_key.encode())
        return same and scheme.lower() == "api-key"


def host_name(header: str) -> str | None:
    """The name in a Host header, without port and brackets; None if it is malformed."""
    try:
        split = urlsplit(f"//{header}")
        _ = split.port  # raises if it is not a number
    except ValueError:
        return None
    plain = split.hostname and not (split.username or split.path or split.query or split.fragment)
    return split.hostname if plain else None


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_api_key(path: Path) -> str:
    """The API key in a file of one line."""
    try:
        key = path.read_text("utf-8").strip()
    except OSError as error:
        raise ServingError(f"{path}: the API key cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ServingError(f"{path}: the API key must be text") from None
    if not key.isascii() or not key.isprintable() or " " in key or len(key) < SHORTEST_KEY:
        raise ServingError(
            f"{path}: an API key is one line of at least {SHORTEST_KEY} letters and digits; make one with: "
            f"python -c 'import secrets; print(secrets.token_urlsafe(32))' > {path}"
        )
    return key


def require_key_off_loopback(host: str, api_key: str | None) -> None:
    if api_key is None and not is_loopback(host):
        raise ServingError(
            f"--host {host} lets other machines reach this server: give --api-key-file FILE as well, or leave the host "
            "at 127.0.0.1 and connect through an SSH tunnel"
        )
