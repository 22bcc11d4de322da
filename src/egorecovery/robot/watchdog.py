"""Detects control cycles that hang, which they cannot do themselves, and stops the robot from another thread."""

import threading
from collections.abc import Callable

from egorecovery.robot.clock import Clock


class Heartbeat:
    """The time of the last sign of life. One number, replaced atomically."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._last_s: float | None = None

    def beat(self, now_s: float) -> None:
        self._last_s = now_s

    def silent_s(self, now_s: float) -> float | None:
        """How long it has been silent, if that exceeds the limit. None before the first beat."""
        if self._last_s is None or now_s - self._last_s <= self.limit_s:
            return None
        return now_s - self._last_s


class Watchdog:
    """A thread that calls `on_silence` once per silence, with the seconds it has lasted."""

    def __init__(self, heartbeat: Heartbeat, clock: Clock, on_silence: Callable[[float], None]) -> None:
        self._heartbeat, self._clock, self._on_silence = heartbeat, clock, on_silence
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        reported = False
        while not self._over.wait(self._heartbeat.limit_s / 4):
            silent_s = self._heartbeat.silent_s(self._clock.now_s())
            if silent_s is not None and not reported:
                self._on_silence(silent_s)
            reported = silent_s is not None
