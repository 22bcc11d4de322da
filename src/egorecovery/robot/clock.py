"""Clocks that are passed to everything that needs time: real or simulated."""

import time
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    def now_s(self) -> float: ...
    def sleep_until(self, moment_s: float) -> None: ...


class MonotonicClock:
    """Real time. It never jumps, even if the machine's date is changed."""

    def now_s(self) -> float:
        return time.monotonic()

    def sleep_until(self, moment_s: float) -> None:
        time.sleep(max(0.0, moment_s - time.monotonic()))


class SteppedClock:
    """Simulated time. It advances only when someone sleeps on it."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now_s(self) -> float:
        return self._now_s

    def sleep_until(self, moment_s: float) -> None:
        self._now_s = max(self._now_s, moment_s)
