"""What a run writes while it runs: one JSON object a line, and the same for TensorBoard."""

import json
import os
from pathlib import Path
from typing import Any

from egorecovery.storage.atomic_io import write_file


class RunLog:
    """`log.jsonl` is the record; TensorBoard's files are a view of it and may be missing."""

    def __init__(self, run: Path, done: int = 0) -> None:
        """A run that goes on after `done` steps forgets what was logged of later ones: it will say them again."""
        self.path = run / "log.jsonl"
        cut_log(self.path, done)
        self._stream = self.path.open("a", buffering=1)
        self._board = _board(run / "tensorboard", done)

    def write(self, step: int, kind: str, values: dict[str, Any]) -> None:
        self._stream.write(json.dumps({"step": step, "kind": kind, **values}) + "\n")
        if self._board is not None:
            for name, value in values.items():
                if isinstance(value, (int, float)):
                    self._board.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        if self._board is not None:
            self._board.close()


def read_log(path: Path, kind: str | None = None) -> list[dict[str, Any]]:
    """Whole lines only: a run that was killed may leave a half one."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith("\n") and line.strip()]
    return [row for row in rows if kind is None or row["kind"] == kind]


def cut_log(path: Path, after_step: int) -> None:
    kept = [json.dumps(row) + "\n" for row in read_log(path) if row["step"] <= after_step]
    if path.exists():
        write_file(path, "".join(kept).encode())


def _board(folder: Path, done: int) -> Any:
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=done + 1)
