"""Reads the messages of `orbbec_host.py`. Lengths are checked before anything is allocated."""

import struct
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from egorecovery.errors import CaptureError
from egorecovery.storage.bounded_json import BadJson, parse_json

MAGIC = b"EGO1"
PREFIX = struct.Struct("<4sII")
MOST_HEADER = 4096
MOST_PAYLOAD = 64 * 2**20  # a 4K picture with its depth map is a third of this


@runtime_checkable
class ByteReader(Protocol):
    """Blocks until all requested bytes have arrived or the stream has ended."""

    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True)
class Message:
    """A header and its payload."""

    header: dict[str, Any]
    payload: bytes


def read_message(stream: ByteReader, name: str) -> Message | None:
    """The next message; None at the end of the stream. An incomplete or malformed one is refused."""
    prefix = stream.read(PREFIX.size)
    if not prefix:
        return None
    if len(prefix) < PREFIX.size or not prefix.startswith(MAGIC):
        raise CaptureError(f"{name}: the camera process wrote something that is no message ({prefix[:12]!r})")
    _, header_bytes, payload_bytes = PREFIX.unpack(prefix)
    if header_bytes > MOST_HEADER or payload_bytes > MOST_PAYLOAD:
        raise CaptureError(
            f"{name}: the camera process announced a message of {header_bytes} + {payload_bytes} bytes, "
            f"at most {MOST_HEADER} + {MOST_PAYLOAD} are taken"
        )
    encoded, payload = stream.read(header_bytes), stream.read(payload_bytes)
    if len(encoded) < header_bytes or len(payload) < payload_bytes:
        raise CaptureError(f"{name}: the camera process ended in the middle of a message")
    try:
        header = parse_json(encoded)
    except BadJson as error:
        raise CaptureError(f"{name}: the camera process wrote a header that is no JSON ({error})") from error
    if not isinstance(header, dict):
        raise CaptureError(f"{name}: the camera process wrote a header that is no JSON object")
    return Message(header, payload)
