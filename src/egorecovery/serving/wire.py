"""The openpi protocol's messages: msgpack with numpy arrays inside. Received bytes are checked before use.

An array is sent as the map {b"__ndarray__": True, b"data": bytes, b"dtype": "<f4", b"shape": [2, 3]}, a numpy scalar as
{b"__npgeneric__": True, b"data": 1.5, b"dtype": "<f8"}. `decode` raises only `WireError`. It allocates no more than a
small multiple of the message's length, whatever the message claims.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np

from egorecovery.errors import WireError

Message = dict[str | bytes, Any]
Scalar = bool | int | float

_ARRAY, _SCALAR = b"__ndarray__", b"__npgeneric__"
_ARRAY_KEYS = {_ARRAY, b"data", b"dtype", b"shape"}
_SCALAR_KEYS = {_SCALAR, b"data", b"dtype"}
_DTYPE = re.compile(r"\|b1|\|[iu]1|[<>][iu][248]|[<>]f[248]")  # booleans, integers and floats; never objects
_MOST_DIMENSIONS = 8


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a message. The defaults fit four colour pictures of 640 x 480 and their state."""

    bytes: int = 8 * 2**20
    depth: int = 8  # of maps and lists inside each other; an observation has four
    items: int = 4096  # values and keys in all; an observation has about fifty
    text_bytes: int = 64 * 2**10  # of one text


DEFAULT_LIMITS = Limits()


def encode(message: object) -> bytes:
    """The encoded message. It may hold maps, lists, texts, numbers, arrays and numpy scalars."""
    try:
        return msgpack.Packer(default=_packed).pack(message)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise WireError(f"this message cannot be sent: {error}") from error


def decode(message: bytes, limits: Limits = DEFAULT_LIMITS) -> Any:
    """The decoded message. Arrays are read-only."""
    check_structure(message, limits)
    try:
        return msgpack.unpackb(
            message, object_pairs_hook=_map, strict_map_key=False, max_str_len=limits.text_bytes, max_ext_len=0
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise WireError(f"the message is not of this protocol: {type(error).__name__}") from None


def check_structure(message: bytes | bytearray, limits: Limits) -> None:
    """Refuses a message beyond the limits. It reads headers only, so checking allocates nothing."""
    size = len(message)
    if size > limits.bytes:
        raise WireError(f"the message has {size} bytes; at most {limits.bytes} are read")
    at, items = 0, 0
    to_come = [1]  # values left in each open map or list; the message itself is one value
    while to_come:
        if not to_come[-1]:
            to_come.pop()
            continue
        to_come[-1] -= 1
        items += 1
        if items > limits.items:
            raise WireError(f"the message holds more than {limits.items} values")
        if at >= size:
            raise WireError("the message ends in the middle of a value")
        payload, entries, at = _header(message, at)
        at += payload
        if at > size:
            raise WireError("the message ends in the middle of a value")
        if entries is None:
            continue
        if entries > size - at:
            raise WireError(f"a map or list claims {entries} values, more than the message has bytes")
        if len(to_come) > limits.depth:
            raise WireError(f"maps and lists are nested deeper than {limits.depth}")
        to_come.append(entries)
    if at != size:
        raise WireError(f"the message continues after its value ({size - at} bytes)")


# Types whose length follows the first byte: width of the length, and what it counts.
_COUNTED = {
    **{0xC4: (1, "payload"), 0xC5: (2, "payload"), 0xC6: (4, "payload")},  # bytes
    **{0xD9: (1, "payload"), 0xDA: (2, "payload"), 0xDB: (4, "payload")},  # texts
    **{0xDC: (2, "list"), 0xDD: (4, "list"), 0xDE: (2, "map"), 0xDF: (4, "map")},
}
# Numbers, None and booleans: bytes that follow the first.
_FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8} | {0xCC + i: 2 ** (i % 4) for i in range(8)}


def _header(message: bytes | bytearray, at: int) -> tuple[int, int | None, int]:
    """The header at an offset: payload bytes, number of values inside (None for a scalar), offset of the payload."""
    first = message[at]
    if first < 0x80 or first >= 0xE0:
        return 0, None, at + 1
    if first < 0x90:
        return 0, 2 * (first & 0x0F), at + 1
    if first < 0xA0:
        return 0, first & 0x0F, at + 1
    if first < 0xC0:
        return first & 0x1F, None, at + 1
    if first in _FIXED:
        return _FIXED[first], None, at + 1
    if first not in _COUNTED:  # extension types, and the one byte that msgpack does not use
        raise WireError(f"the message holds a value of type 0x{first:02x}, which this protocol does not have")
    width, counts = _COUNTED[first]
    after = at + 1 + width
    if after > len(message):
        raise WireError("the message ends in the middle of a value")
    length = int.from_bytes(message[at + 1 : after])
    if counts == "payload":
        return length, None, after
    return 0, 2 * length if counts == "map" else length, after


def _map(pairs: list[tuple[Any, Any]]) -> Any:
    message: Message = {}
    for key, value in pairs:
        if not isinstance(key, str | bytes):
            raise WireError("a map has a key that is neither text nor bytes")
        if key in message:
            raise WireError(f"a map has the key {_shown(key)} twice")
        message[key] = value
    if _ARRAY in message:
        return _array(message)
    return _scalar(message) if _SCALAR in message else message


def _array(message: Message) -> np.ndarray:
    if set(message) != _ARRAY_KEYS or message[_ARRAY] is not True:
        raise WireError("an array must have exactly __ndarray__ = True, data, dtype and shape")
    dtype, shape, buffer = _dtype(message[b"dtype"]), message[b"shape"], message[b"data"]
    if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS:
        raise WireError(f"an array's shape must be a list of at most {_MOST_DIMENSIONS} lengths")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise WireError("an array's shape must be made of whole numbers from 0")
    claimed = math.prod(shape) * dtype.itemsize
    if not isinstance(buffer, bytes) or len(buffer) != claimed:
        has = f"{len(buffer)} bytes" if isinstance(buffer, bytes) else "no bytes"
        raise WireError(f"an array claims {claimed} bytes (shape {tuple(shape)} of {dtype}) and has {has}")
    return np.frombuffer(buffer, dtype).reshape(shape)


def _scalar(message: Message) -> np.generic:
    if set(message) != _SCALAR_KEYS or message[_SCALAR] is not True or not isinstance(message[b"data"], Scalar):
        raise WireError("a numpy scalar must have exactly __npgeneric__ = True, a number as data, and dtype")
    dtype = _dtype(message[b"dtype"])
    try:
        with np.errstate(over="ignore"):
            return dtype.type(message[b"data"])
    except (OverflowError, ValueError, TypeError):
        raise WireError(f"a numpy scalar does not fit its type {dtype}") from None


def _dtype(text: object) -> np.dtype:
    if not isinstance(text, str) or not _DTYPE.fullmatch(text):
        raise WireError(f"arrays must be of booleans, integers or floats, such as '<f4'; got dtype {_shown(text)}")
    return np.dtype(text)


def _packed(value: object) -> Message:
    """Encodes arrays and numpy scalars, which msgpack does not know."""
    if not isinstance(value, np.ndarray | np.generic):
        raise TypeError(f"{type(value).__name__} has no form in this protocol")
    if not _DTYPE.fullmatch(value.dtype.str):
        raise TypeError(f"arrays of {value.dtype} have no form in this protocol")
    if isinstance(value, np.generic):
        return {_SCALAR: True, b"data": value.item(), b"dtype": value.dtype.str}
    flat = np.ascontiguousarray(value).reshape(-1)
    return {_ARRAY: True, b"data": flat.view(np.uint8).data, b"dtype": value.dtype.str, b"shape": value.shape}


def _shown(value: object) -> str:
    """A received value, shortened for an error message."""
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."
