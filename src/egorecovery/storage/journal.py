"""An append-only file of checksummed JSON lines. A completed append survives a kill; an incomplete one is never read.

In a chained journal each line carries the hash of all bytes before it. A line that is lost, doubled or moved is
therefore detected. A truncated end breaks no chain, so a small file beside the journal, the anchor, holds the number of
acknowledged lines and their hash. The anchor is written after the lines. A kill in between leaves a journal ahead of
its anchor, which is not damage; the next append updates the anchor.
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
    """One JSON object per line. Any number of processes may append and read at once."""

    def __init__(
        self, path: Path, check: Callable[[Record], object] = lambda record: None, *, chained: bool = True
    ) -> None:
        """`check` raises for an intact line that is not a record of this journal. Unchained journals can be merged."""
        self.path, self._check, self._chained = path, check, chained
        self._reading = threading.RLock()
        self._forget()

    @property
    def anchor_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.anchor")

    def records(self) -> list[Record]:
        """All acknowledged lines, oldest first. A damaged or missing line raises an error that names it."""
        with self._reading:
            return self._checked_records()

    def _checked_records(self) -> list[Record]:
        anchor = self._anchor()  # read before the lines: it may lag behind them but must not be ahead
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
        # A tail that lacks only its newline is not an incomplete append: it may have been acknowledged.
        if tail and (_is_whole(tail) or _is_whole(tail[:-1])):
            ahead = self._copied()
            ahead._take(tail + b"\n")
            ahead._require_all(anchor)
            return ahead._records
        self._require_all(anchor)
        return list(self._records)

    def append(self, record: Mapping[str, Any]) -> None:
        self.append_all([record])

    def append_all(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Appends several lines with one `fsync`."""
        with self._exclusive() as descriptor:
            self._write(descriptor, records)

    def append_after(self, decide: Callable[[list[Record]], Mapping[str, Any]]) -> Record:
        """Appends the record that `decide` returns for the records so far. No other append comes in between."""
        return self.append_all_after(lambda records: [decide(records)])[0]

    def append_all_after(self, decide: Callable[[list[Record]], Sequence[Mapping[str, Any]]]) -> list[Record]:
        """The same for several lines, all or none."""
        with self._exclusive() as descriptor:
            fresh = [dict(record) for record in decide(self.records())]
            self._write(descriptor, fresh)
            return fresh

    def problems(self) -> list[str]:
        """Problems of this file, for `verify`."""
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
        """The number of unchained lines at the start, which an older version wrote, as of the last read."""
        return len(self._records) - self._links if self._chained else 0

    def _forget(self) -> None:
        self._read = b""  # complete lines that are checked, so that a long journal is not hashed at each append
        self._records: list[Record] = []  # of these lines
        self._hash = hashlib.sha256()  # of these lines
        self._heads = [NOTHING]  # the hash after each line
        self._links = 0  # lines with a chain

    def _copied(self) -> "Journal":
        copy = Journal(self.path, self._check, chained=self._chained)
        copy._read, copy._records, copy._links = self._read, list(self._records), self._links
        copy._hash, copy._heads = self._hash.copy(), list(self._heads)
        return copy

    def _take(self, line: bytes) -> None:
        """Checks the next line and keeps its record."""
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
        """A lock held for one append. The kernel releases it if the process dies."""
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
        """Writes the lines after the existing ones, then the anchor."""
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
        """The offset of the next line, which overwrites an incomplete append; and whether a newline must come first."""
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
