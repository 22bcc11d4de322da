"""What a policy server is started with."""

from dataclasses import dataclass, field

from egorecovery.errors import ServingError
from egorecovery.serving.access import AccessRules, require_key_off_loopback
from egorecovery.serving.wire import DEFAULT_LIMITS, Limits


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Address, access rules and limits per client."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    access: AccessRules = field(default_factory=AccessRules)
    camera_names: dict[str, str] = field(default_factory=dict)  # on the wire, to the policy's
    limits: Limits = DEFAULT_LIMITS
    clients: int = 32  # connected at once
    batch: int = 1  # observations in one inference at most
    send_timeout_s: float = 5.0  # for a client to take a reply
    handshake_timeout_s: float = 5.0
    ping_s: float = 10.0  # between two pings, and to answer one

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise ServingError(f"--port must lie in 0..65535, got {self.port}")
        for name in ("clients", "batch", "send_timeout_s", "handshake_timeout_s", "ping_s"):
            if not getattr(self, name) > 0:
                raise ServingError(f"{name} must be positive, got {getattr(self, name)}")
        require_key_off_loopback(self.host, self.access.api_key)
