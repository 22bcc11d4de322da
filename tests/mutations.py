"""Ways in which a file comes to be another than was written, and checksums put right again, as a stranger would.

One source of choices behind all of them: hypothesis in the suite, a coverage-guided fuzzer or a plain random number
generator by hand.
"""

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from egorecovery.storage.checksummed_json import CHECKSUM, file_sha256, with_checksum
from egorecovery.storage.journal import CHAIN
from egorecovery.storage.manifest import MANIFEST


class Chooser(Protocol):
    def whole(self, most: int) -> int:
        """From 0 to `most`, both included."""
        ...

    def some_bytes(self, most: int) -> bytes: ...


class RandomChooser:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def whole(self, most: int) -> int:
        return self._rng.randint(0, most)

    def some_bytes(self, most: int) -> bytes:
        return self._rng.randbytes(self._rng.randint(0, most))


TOKENS = (b"{", b"[" * 200, b"]", b'"', b"\\ud800", b"\x00", b"\xff", b"1e999", b"NaN", b"-1", b"9" * 400, b"\n", b",")
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 10**400, 1e308, -0.5, 5e-324),
    *("", "../../x", "/etc/passwd", "\x1b[31m", "a\x00b", "x" * 3000, "NaN", "<script>"),
    *([], {}, [None], [[]], [0] * 40, {"": 0}, [[[[[[]]]]]]),
)


def mutated(payload: bytes, choose: Chooser, is_json: bool) -> bytes:
    """Other bytes; of JSON in most cases other JSON."""
    if is_json and choose.whole(3):
        try:
            return other_json(payload, choose)
        except (ValueError, RecursionError):
            pass
    spoiled = bytearray(payload)
    for _ in range(1 + choose.whole(2)):
        at = choose.whole(max(len(spoiled) - 1, 0))
        until = min(len(spoiled), at + choose.whole(16))
        kind = choose.whole(5)
        if kind == 0 and spoiled:
            spoiled[at] ^= 1 + choose.whole(254)
        elif kind == 1:
            del spoiled[at:]
        elif kind == 2:
            spoiled[at:until] = TOKENS[choose.whole(len(TOKENS) - 1)]
        elif kind == 3:
            spoiled[at:until] = bytes(until - at)
        elif kind == 4:
            spoiled[at:at] = spoiled[at : at + choose.whole(64)]
        else:
            spoiled[at:until] = choose.some_bytes(16)
    return bytes(spoiled)


def other_json(payload: bytes, choose: Chooser) -> bytes:
    """One value in it is another, is gone, or is there twice; of lines, in one of them."""
    lines = payload.splitlines() if payload.count(b"\n") > 1 and payload.startswith(b"{") else [payload]
    try:
        records = [json.loads(line) for line in lines]
    except ValueError:
        lines, records = [payload], [json.loads(payload)]
    which = choose.whole(len(records) - 1)
    if len(records) > 1 and not choose.whole(5):
        records.insert(choose.whole(len(records) - 1), records.pop(which))
    else:
        records[which] = _other(records[which], choose)
    return b"".join(json.dumps(record).encode("utf-8", "surrogatepass") + b"\n" for record in records)


def _other(record: Any, choose: Chooser) -> Any:
    places = list(_places(record))
    if not places or not choose.whole(20):
        return VALUES[choose.whole(len(VALUES) - 1)]
    parent, key = places[choose.whole(len(places) - 1)]
    kind = choose.whole(7)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, dict):
        parent[str(VALUES[choose.whole(len(VALUES) - 1)])[:200]] = parent[key]
    elif kind == 2:
        other, name = places[choose.whole(len(places) - 1)]
        parent[key] = json.loads(json.dumps(other.get(name) if isinstance(other, dict) else other[name % len(other)]))
    elif kind == 3 and isinstance(parent[key], (int, float)):
        parent[key] = parent[key] * (choose.whole(4) - 2) + choose.whole(3)
    else:
        parent[key] = VALUES[choose.whole(len(VALUES) - 1)]
    return record


def _places(record: Any):
    for key, value in record.items() if isinstance(record, dict) else enumerate(record) if _is_list(record) else ():
        yield record, key
        yield from _places(value)


def _is_list(record: object) -> bool:
    return isinstance(record, list)


def resealed(root: Path) -> None:
    """Every checksum, chain and anchor below a folder says what is there now, as far as that can be said."""
    files = sorted((path for path in root.rglob("*") if path.is_file()), key=lambda path: -len(path.parts))
    for path in files:
        if path.suffix == ".jsonl":
            _reseal_lines(path)
    cards = ("checkpoint.json", "cell.json", MANIFEST)
    sealed = [path for path in files if path.suffix == ".json"]
    for path in sorted(sealed, key=lambda path: (-len(path.parts), path.name in cards, path.name == MANIFEST)):
        _reseal_card(path)


def _reseal_card(path: Path) -> None:
    try:
        record = json.loads(path.read_bytes())
        if not isinstance(record, dict) or (CHECKSUM not in record and path.name != MANIFEST):
            return
        record.pop(CHECKSUM, None)
        if isinstance(record.get("files"), dict):
            for name in [name for name in record["files"] if (path.parent / name).is_file()]:
                record["files"][name] = file_sha256(path.parent / name)
        arrays = path.with_suffix(".safetensors")
        if "arrays" in record and arrays.is_file():
            record["arrays"] = file_sha256(arrays)
        path.write_bytes(with_checksum(record))
    except (ValueError, OSError, RecursionError):  # what cannot be sealed stays as it is
        return


def _reseal_lines(path: Path) -> None:
    anchor = path.with_name(f"{path.name}.anchor")
    running, lines = hashlib.sha256(), []
    try:
        for line in path.read_bytes().splitlines():
            record = json.loads(line)
            if isinstance(record, dict) and CHECKSUM in record:
                record.pop(CHECKSUM)
                if anchor.is_file():
                    record[CHAIN] = running.hexdigest()
                line = with_checksum(record)[:-1]
            lines.append(line + b"\n")
            running.update(lines[-1])
    except (ValueError, RecursionError):
        return
    path.write_bytes(b"".join(lines))
    if anchor.is_file():
        anchor.write_bytes(with_checksum({"lines": len(lines), "hash": running.hexdigest()}))


def snapshot(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def restore(root: Path, before: dict[Path, bytes]) -> None:
    """What was there before, and nothing else."""
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            continue
        if path not in before:
            path.unlink()
    for path, payload in before.items():
        if not path.is_file() or path.read_bytes() != payload:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(payload)


def each_step(*steps: Callable[[], object]) -> None:
    """All of them, whichever are refused; what is not a refusal escapes."""
    from egorecovery.errors import EgoRecoveryError

    for step in steps:
        try:
            step()
        except EgoRecoveryError:
            continue
