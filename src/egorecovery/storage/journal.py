"""An append-only file of sealed JSON lines. An append that returned survives a kill; a torn one never shows.

In a chained journal each line carries the hash of all bytes before it, so that no line can be lost, doubled or moved
unseen. A truncated tail breaks no chain; for that there is the anchor, a small file beside the journal that says how
many lines were acknowledged and what they hash to. The anchor is written after the lines: a kill in between leaves a
journal that is ahead of its anchor, which is no damage, and the next append brings the anchor up to date.
"""

import fcntl
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

from egorecovery.errors import EgoRecoveryError, StoreDamaged
from egorecovery.storage.atomic_io import explaining_full_disk, sync_directory, write_file
from egorecovery.storage.checksummed_json import parse_checksummed, read_checksummed, with_checksum
from egorecovery.storage.containment import JOURNAL_BYTES, exists, open_for_append, read_bytes
from egorecovery.storage.typed_json import between, from_json

Record = dict[str, Any]
CHAIN = "before"  # of a line: SHA-256 of everything in the file before it
NOTHING = hashlib.sha256().hexdigest()


class Anchor(TypedDict):
    lines: Annotated[int, between(0, 10**12)]
    hash: str


class Journal:
    """One JSON object a line. Any number of processes may append and read at once."""

    def __init__(
        self, path: Path, check: Callable[[Record], object] = lambda record: None, *, chained: bool = True
    ) -> None:
        """`check` raises where a line is intact but not a record of this journal. Unchained, lines may be merged."""
        self.path, self._check, self._chained = path, check, chained
        self._reading = threading.RLock()
        self._forget()

    @property
    def anchor_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.anchor")

    def records(self) -> list[Record]:
        """All acknowledged lines, oldest first; a damaged or missing one is an error that names it."""
        with self._reading:
            return self._checked_records()

    def _checked_records(self) -> list[Record]:
        anchor = self._anchor()  # before the lines: it may lag behind them, and must not be ahead
        payload = self._payload()
        if not payload.startswith(self._read):
            self._forget()
        *lines, tail = payload[len(self._read) :].split(b"\n")
        try:
            for line in lines:
                self._take(line + b"\n")
        except StoreDamaged:
            self._forget()
            raise
        self._read = payload[: len(payload) - len(tail)]
        # A tail that is a whole line but for its newline is no torn append: it may have been acknowledged.
        if tail and (_is_whole(tail) or _is_whole(tail[:-1])):
            found = self._copied()
            found._take(tail + b"\n")
            found._require_all(anchor)
            return found._records
        self._require_all(anchor)
        return list(self._records)

    def append(self, record: Mapping[str, Any]) -> None:
        self.append_all([record])

    def append_all(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Many lines for the price of one `fsync`."""
        with self._exclusive() as descriptor:
            self._write(descriptor, records)

    def append_after(self, decide: Callable[[list[Record]], Mapping[str, Any]]) -> Record:
        """Appends what `decide` makes of the records so far, with no other append in between."""
        return self.append_all_after(lambda records: [decide(records)])[0]

    def append_all_after(self, decide: Callable[[list[Record]], Sequence[Mapping[str, Any]]]) -> list[Record]:
        """The same for many lines; all or none of them."""
        with self._exclusive() as descriptor:
            fresh = [dict(record) for record in decide(self.records())]
            self._write(descriptor, fresh)
            return fresh

    def problems(self) -> list[str]:
        """What `verify` should say of this file."""
        try:
            self.records()
        except (StoreDamaged, OSError) as error:
            return [str(error)]
        if not self._payload().endswith(b"\n") and self._payload():
            return [
                f"{self.path} ends in the middle of a line: an append was killed before it was acknowledged (the next "
                f"append clears it), or the file was cut short"
            ]
        if self._links > 1 and not exists(self.anchor_path):  # one: a kill before the first anchor
            return [f"{self.anchor_path} is missing: lines that were cut off the journal's end would go unnoticed"]
        return []

    @property
    def old_lines(self) -> int:
        """Lines at the beginning that an older version wrote, without a chain. Of what was read last."""
        return len(self._records) - self._links if self._chained else 0

    def _forget(self) -> None:
        self._read = b""  # whole lines that have been checked already ...
        self._records: list[Record] = []  # ... and what they say: a long journal is not hashed anew at each append
        self._hash = hashlib.sha256()  # of them
        self._heads = [NOTHING]  # after so many lines
        self._links = 0  # lines with a chain

    def _copied(self) -> "Journal":
        found = Journal(self.path, self._check, chained=self._chained)
        found._read, found._records, found._links = self._read, list(self._records), self._links
        found._hash, found._heads = self._hash.copy(), list(self._heads)
        return found

    def _take(self, line: bytes) -> None:
        """Checks the next line, and remembers it."""
        number = len(self._records) + 1
        where = f"{self.path} line {number}"
        record = parse_checksummed(line, where)
        if self._chained:
            claimed = record.pop(CHAIN, None)
            if claimed != (self._heads[-1] if self._links or claimed is not None else None):
                raise StoreDamaged(
                    f"{where} does not follow the lines before it: lines were lost, doubled or moved; restore the file "
                    "from a copy"
                )
            self._links += claimed is not None
        try:
            self._check(record)
        except (EgoRecoveryError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise StoreDamaged(f"{where} is not a record of this file ({error}); restore it from a copy") from None
        self._records.append(record)
        self._hash.update(line)
        self._heads.append(self._hash.hexdigest())

    def _anchor(self) -> Anchor | None:
        if not (self._chained and exists(self.anchor_path)):
            return None
        return from_json(Anchor, read_checksummed(self.anchor_path), f"{self.anchor_path}: ", StoreDamaged, "remove it")

    def _require_all(self, anchor: Anchor | None) -> None:
        if anchor is None:
            return
        lines = anchor["lines"]
        if len(self._records) < lines:
            raise StoreDamaged(
                f"{self.path} has {len(self._records)} lines, {lines} were acknowledged: the end is lost; restore the "
                f"file from a copy, or remove {self.anchor_path.name} to go on with what is left"
            )
        if self._heads[lines] != anchor["hash"]:
            raise StoreDamaged(
                f"{self.path} is not the file whose {lines} lines {self.anchor_path.name} speaks of; restore both from "
                "a copy"
            )

    def _payload(self) -> bytes:
        return read_bytes(self.path, JOURNAL_BYTES) if exists(self.path) else b""

    @contextmanager
    def _exclusive(self) -> Iterator[int]:
        """Held for one append; the kernel lets go of it when the holder dies."""
        with explaining_full_disk(self.path):
            descriptor = open_for_append(self.path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_size == 0:
                sync_directory(self.path.parent)
            yield descriptor
        finally:
            os.close(descriptor)

    def _write(self, descriptor: int, records: Sequence[Mapping[str, Any]]) -> None:
        end, unfinished = self._end_of_whole_lines(descriptor)
        os.ftruncate(descriptor, end)
        head = b"\n" if unfinished else b""
        payload, anchor = self._chain(head, records) if self._chained else (b"".join(map(with_checksum, records)), None)
        lines = memoryview(head + payload)
        try:
            with explaining_full_disk(self.path):
                while lines:
                    lines = lines[os.write(descriptor, lines) :]
                os.fsync(descriptor)
            if anchor is not None:
                write_file(self.anchor_path, anchor)
        except BaseException:
            os.ftruncate(descriptor, end)
            raise

    def _chain(self, head: bytes, records: Sequence[Mapping[str, Any]]) -> tuple[bytes, bytes]:
        """The lines as they follow those that are there, and the anchor after them."""
        there = self.records()
        if there and not self._links:
            print(
                f"{self.path} is of an older version: from now on its {len(there)} lines are bound together, and a "
                "lost one is noticed",
                file=sys.stderr,
            )
        running = hashlib.sha256(self._payload() + head) if head else self._hash.copy()
        lines = []
        for record in records:
            lines.append(with_checksum({**record, CHAIN: running.hexdigest()}))
            running.update(lines[-1])
        anchor = {"lines": len(there) + len(lines), "hash": running.hexdigest()}
        return b"".join(lines), with_checksum(anchor)

    def _end_of_whole_lines(self, descriptor: int) -> tuple[int, bool]:
        """Where the next line goes, over the tail of a killed append; and whether a newline must come first."""
        size = os.fstat(descriptor).st_size
        if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
            return size, False
        payload = self._payload()
        last = payload.rfind(b"\n") + 1
        return (size, True) if _is_whole(payload[last:]) else (last, False)


def _is_whole(line: bytes) -> bool:
    try:
        parse_checksummed(line + b"\n", "")
    except StoreDamaged:
        return False
    return True
