"""An append-only file of sealed JSON lines. An append that returned survives a kill; a torn one never shows."""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from egorecovery.errors import StoreDamaged
from egorecovery.storage.atomic_io import explaining_full_disk, sync_directory
from egorecovery.storage.checksummed_json import parse_checksummed, with_checksum

Record = dict[str, Any]


class Journal:
    """One JSON object a line. Any number of processes may append and read at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = b""  # whole lines that have been checked already ...
        self._records: list[Record] = []  # ... and what they say: a long journal is not hashed anew at each append

    def records(self) -> list[Record]:
        """All acknowledged lines, oldest first; a damaged one is an error that names it."""
        payload = self._payload()
        if not payload.startswith(self._read):
            self._read, self._records = b"", []
        *lines, tail = payload[len(self._read) :].split(b"\n")
        fresh = [
            parse_checksummed(line + b"\n", f"{self.path} line {number}")
            for number, line in enumerate(lines, start=len(self._records) + 1)
        ]
        self._records += fresh
        self._read = payload[: len(payload) - len(tail)]
        # A tail that is a whole line but for its newline is no torn append: it may have been acknowledged.
        if tail and (_is_whole(tail) or _is_whole(tail[:-1])):
            return [*self._records, parse_checksummed(tail + b"\n", f"{self.path} line {len(self._records) + 1}")]
        return list(self._records)

    def append(self, record: Mapping[str, Any]) -> None:
        self.append_all([record])

    def append_all(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Many lines for the price of one `fsync`."""
        with self._exclusive() as descriptor:
            self._write(descriptor, records)

    def append_after(self, decide: Callable[[list[Record]], Mapping[str, Any]]) -> Record:
        """Appends what `decide` makes of the records so far, with no other append in between."""
        with self._exclusive() as descriptor:
            record = decide(self.records())
            self._write(descriptor, [record])
            return dict(record)

    def problems(self) -> list[str]:
        """What `verify` should say of this file."""
        try:
            self.records()
        except StoreDamaged as error:
            return [str(error)]
        if not self._payload().endswith(b"\n") and self._payload():
            return [
                f"{self.path} ends in the middle of a line: an append was killed before it was acknowledged (the next "
                f"append clears it), or the file was cut short"
            ]
        return []

    def _payload(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""

    @contextmanager
    def _exclusive(self) -> Iterator[int]:
        """Held for one append; the kernel lets go of it when the holder dies."""
        with explaining_full_disk(self.path):
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
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
        lines = memoryview((b"\n" if unfinished else b"") + b"".join(map(with_checksum, records)))
        try:
            with explaining_full_disk(self.path):
                while lines:
                    lines = lines[os.write(descriptor, lines) :]
                os.fsync(descriptor)
        except BaseException:
            os.ftruncate(descriptor, end)
            raise

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
