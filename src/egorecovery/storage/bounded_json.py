"""JSON from untrusted sources: bounded size, depth and numbers, unique keys, no NaN."""

import json
import math
import re
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

from egorecovery.errors import EgoRecoveryError, StoreDamaged, UnsafeFile
from egorecovery.storage.containment import RECORD_BYTES, read_bytes, read_named

MAX_DEPTH = 64
MAX_DIGITS = 1000  # of a whole number; the caller that converts it to a float names the field that is too large
_SURROGATES = re.compile(rb"\\u[dD][89a-fA-F]")
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class BadJson(ValueError):
    """Text that is not valid JSON within the limits of this module. The message says why."""


def parse_json(payload: bytes) -> Any:
    """The value. Every defect raises `BadJson`."""
    _require_shallow(payload)
    try:
        value = _DECODER.decode(payload.removeprefix(BOM_UTF8).decode())
        if _SURROGATES.search(payload):  # half a surrogate pair, which cannot be encoded again
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except BadJson:
        raise
    except (ValueError, RecursionError) as error:
        raise BadJson(f"not JSON ({error})") from None


def read_json(
    path: Path, kind: type[EgoRecoveryError] = StoreDamaged, advice: str = "", largest: int = RECORD_BYTES
) -> dict[str, Any]:
    """A JSON object from a file. Defects raise `kind`; a missing file raises `FileNotFoundError`."""
    try:
        return _object_in(read_bytes(path, largest), path, kind, advice)
    except UnsafeFile as error:
        raise kind(str(error)) from None


def read_named_json(
    path: Path, kind: type[EgoRecoveryError], advice: str = "", largest: int = RECORD_BYTES
) -> dict[str, Any]:
    """A JSON object from a file that a user named, which may be a link. Every error is of this kind."""
    try:
        return _object_in(read_named(path, largest), path, kind, advice)
    except UnsafeFile as error:
        raise kind(str(error)) from None
    except FileNotFoundError:
        raise kind(f"{path} is missing" + (f"; {advice}" if advice else "")) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise kind(f"{path}: cannot be read: {reason}" + (f"; {advice}" if advice else "")) from None


def _object_in(payload: bytes, path: Path, kind: type[EgoRecoveryError], advice: str) -> dict[str, Any]:
    try:
        record = parse_json(payload)
        if not isinstance(record, dict):
            raise BadJson(f"expected an object, got {short_repr(record)}")
    except BadJson as error:
        raise kind(f"{path}: {error}" + (f"; {advice}" if advice else "")) from None
    return record


def _require_shallow(payload: bytes) -> None:
    if payload.count(b"{") + payload.count(b"[") <= MAX_DEPTH:
        return
    depth = 0
    for match in _BRACKETS.finditer(payload):
        byte = match.group()[:1]
        if byte in b"{[":
            depth += 1
            if depth > MAX_DEPTH:
                raise BadJson(f"JSON nested more than {MAX_DEPTH} deep, which is not read")
        elif byte != b'"':
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise BadJson(f"the key {short_repr(twice)} appears twice")
    return record


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise BadJson(f"JSON with a number of {len(digits)} digits, which is not read")
    return int(digits)


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise BadJson(f"{text[:20]} is too large for a number")
    return value


def _no_constant(name: str) -> float:
    raise BadJson(f"not JSON ({name} is not a number)")


def short_repr(value: object) -> str:
    words = repr(value)
    return words if len(words) <= 60 else f"{words[:57]}..."


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_whole, parse_float=_real, parse_constant=_no_constant)
