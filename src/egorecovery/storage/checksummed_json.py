"""JSON with a checksum: the last field is the SHA-256 of the rest."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from egorecovery.errors import StoreDamaged
from egorecovery.storage.bounded_json import parse_json
from egorecovery.storage.containment import RECORD_BYTES, open_file, read_bytes

CHECKSUM = "sha256"


def canonical(record: Mapping[str, Any]) -> bytes:
    """One byte string per value: sorted keys, no spaces, no NaN."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(record)).hexdigest()


def with_checksum(record: Mapping[str, Any]) -> bytes:
    """The record as one line that ends with its checksum."""
    assert CHECKSUM not in record, "the checksum is added here"
    return canonical({**record, CHECKSUM: digest(record)}) + b"\n"


def parse_checksummed(line: bytes, where: str) -> dict[str, Any]:
    """The record. Any byte changed since `with_checksum` raises `StoreDamaged`."""
    try:
        record = parse_json(line)
        intact = canonical(record) + b"\n" == line and record.pop(CHECKSUM) == digest(record)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        intact, record = False, {}
    if not intact:
        raise StoreDamaged(f"{where} is damaged: its bytes do not match their SHA-256; restore it from a copy")
    return record


def read_checksummed(path: Path, largest: int = RECORD_BYTES) -> dict[str, Any]:
    return parse_checksummed(read_bytes(path, largest), str(path))


def file_sha256(path: Path) -> str:
    with os.fdopen(open_file(path), "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
