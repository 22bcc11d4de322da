"""The event log: one JSON object per line for every chunk, clamp, refusal, fault and stop. Writing never blocks.

Each line has `event` and `time_s` (the robot's monotonic clock). The first also has the date. Numbers that JSON lacks
are written as the texts "nan", "inf" and "-inf".
"""

import json
import math
import queue
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from egorecovery.errors import RobotError
from egorecovery.storage.typed_json import to_json


@runtime_checkable
class Log(Protocol):
    """A sink for events."""

    def __call__(self, event: str, time_s: float, **details: Any) -> None: ...


def no_log(event: str, time_s: float, **details: Any) -> None:
    """A sink that drops all events."""


class EventLog:
    """A file that its own thread appends to, so that no control cycle waits for the disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise RobotError(f"--log {path}: cannot be written: {error.strerror}") from None
        self.problem: OSError | None = None  # a full disk: the robot keeps moving, the log is incomplete
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="event log", daemon=True)
        self._writer.start()

    def __call__(self, event: str, time_s: float, **details: Any) -> None:
        record = {"event": event, "time_s": round(time_s, 4), **details}
        self._lines.put(json.dumps(to_json(record, _written), allow_nan=False))

    def start(self, time_s: float, **details: Any) -> None:
        """Writes the first line of a session."""
        self("start", time_s, date=datetime.now(UTC).isoformat(timespec="seconds"), **details)

    def close(self) -> None:
        """Writes the remaining events and closes the file."""
        if self._writer.is_alive():
            self._lines.put(None)
            self._writer.join()
            try:
                self._file.close()
            except OSError as error:
                self.problem = self.problem or error

    @property
    def summary(self) -> str:
        """The file's path and, if any, its write error."""
        return f"log: {self.path}" + (f" is incomplete: {self.problem.strerror}" if self.problem else "")

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._file.write(line + "\n")
                if self._lines.empty():
                    self._file.flush()
            except OSError as error:
                self.problem = self.problem or error

    def __enter__(self) -> "EventLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _written(number: float) -> float | str:
    return round(number, 6) if math.isfinite(number) else str(number)
