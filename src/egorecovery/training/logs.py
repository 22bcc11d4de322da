"""What a run writes while it runs: one JSON object a line, and the same for TensorBoard."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypedDict, runtime_checkable

from egorecovery.errors import StoreDamaged
from egorecovery.storage.atomic_io import make_folder, write_file
from egorecovery.storage.containment import JOURNAL_BYTES, exists, inside, open_for_append, read_bytes
from egorecovery.storage.lock import WriterLock
from egorecovery.storage.typed_json import from_json


@runtime_checkable
class LogView(Protocol):
    """Shows numbers somewhere else as they are logged."""

    def begin(self, run: Path, done: int) -> None: ...
    def write(self, step: int, values: Mapping[str, float]) -> None: ...
    def close(self) -> None: ...


class RunLog:
    """`log.jsonl` is the record; TensorBoard's files are a view of it and may be missing."""

    def __init__(self, run: Path, done: int = 0, views: Sequence["LogView"] = ()) -> None:
        """A run that resumes after `done` steps drops what was logged of later ones: it will log them again."""
        self._views = views
        self.path = inside(run, "log.jsonl")
        for view in views:  # first: what refuses leaves the log as it was, and of a new run nothing
            view.begin(run, done)
        cut_log(self.path, done)
        self._stream = os.fdopen(open_for_append(self.path), "a", buffering=1)
        self._board = _board(inside(run, "tensorboard"), done)

    def write(self, step: int, kind: str, values: dict[str, Any]) -> None:
        self._stream.write(json.dumps({"step": step, "kind": kind, **values}) + "\n")
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, (int, float)):
                    self._board.add_scalar(f"{kind}/{name}", value, step)
        numbers = {f"{kind}/{name}": value for name, value in values.items() if isinstance(value, (int, float))}
        for view in self._views:
            view.write(step, numbers)

    def close(self) -> None:
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        if self._board is not None:
            self._board.close()
        for view in self._views:
            view.close()


def run_lock(run: Path) -> WriterLock:
    """One training at a time in a run's folder, which is made if there is none."""
    make_folder(run)
    return WriterLock(inside(run, "writer.lock"))


def read_log(path: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """Whole lines only: a run that was killed may leave a half one."""
    payload = read_bytes(path, JOURNAL_BYTES) if exists(path) else b""
    rows = []
    for number, line in enumerate(payload.split(b"\n")[:-1], start=1):
        if line.strip():
            rows.append(_row(line, f"{path} line {number}"))
    return [row for row in rows if kind is None or row["kind"] == kind]


class LogRow(TypedDict):
    """What every line has, beside its numbers."""

    step: int
    kind: str


def _row(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)  # NaN is a value here: a loss may be
    except (ValueError, RecursionError) as error:
        raise StoreDamaged(f"{where} is not JSON ({error}); remove the line, or restore the file from a copy") from None
    return from_json(LogRow, row, f"{where}: ", StoreDamaged, "remove the line, or restore the file from a copy")


def cut_log(path: Path, after_step: int) -> None:
    kept = [json.dumps(row) + "\n" for row in read_log(path) if row["step"] <= after_step]
    if exists(path):
        write_file(path, "".join(kept).encode())


def _board(folder: Path, done: int) -> Any:
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=done + 1)
