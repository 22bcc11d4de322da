"""How a run is asked to stop, and what it says when it has."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SAVED_AND_STOPPED = 75  # exit code after SIGTERM or Ctrl-C: saved, run again with --resume


class Stopped(Exception):
    """Not an error: the run was asked to stop, saved and stopped; `--resume` continues it."""


@contextmanager
def signals_noted() -> Iterator[list[int]]:
    """SIGTERM and Ctrl-C are noted, not obeyed at once: the step ends, the run saves, then it stops."""
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:  # not the main thread: the caller's signals are its own
        yield noted
        return
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
