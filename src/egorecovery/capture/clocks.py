"""Maps device clocks to this machine's monotonic clock, and that clock to calendar time."""

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from egorecovery.errors import CaptureError

PLAUSIBLE_S = 10.0  # a timestamp this close to one of this machine's clocks comes from it
REMEMBERED = 300  # pictures, about ten seconds; two crystals drift by half a millisecond in that time


class SessionClock:
    """Monotonic seconds and their calendar time. Setting the system clock meanwhile changes nothing."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        calendar: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._monotonic = monotonic
        self._ahead_s = 0.0
        self._anchor_s, self._anchor = monotonic(), calendar()

    def now_s(self) -> float:
        return self._monotonic() + self._ahead_s

    def skip_to(self, moment_s: float) -> None:
        """Moves the session's time forward, as a replay at full speed does."""
        self._ahead_s += max(0.0, moment_s - self.now_s())

    def calendar(self, moment_s: float) -> str:
        return (self._anchor + timedelta(seconds=moment_s - self._anchor_s)).isoformat(timespec="milliseconds")


class DeviceClock:
    """Maps capture times of one device. The device's clock is identified by its first picture."""

    def __init__(
        self,
        name: str,
        monotonic: Callable[[], float] = time.monotonic,
        realtime: Callable[[], float] = time.time,
    ) -> None:
        self._name = name
        self._monotonic, self._realtime = monotonic, realtime
        self._domain = ""
        self._offset_s = 0.0
        self._offsets_s: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def domain(self) -> str:
        """`monotonic`, `realtime` or `own`, once known."""
        return self._domain

    def monotonic_s(self, stamped_s: float) -> float:
        """The capture time of a picture that has just arrived.

        A device with its own clock is mapped by the smallest recent delay between sensor and program, which gives the
        best estimate of the offset. Such times are late by that delay.
        """
        now_s, realtime_s = self._monotonic(), self._realtime()
        if not self._domain:
            self._domain = _domain(stamped_s, now_s, realtime_s)
            self._offset_s = now_s - realtime_s if self._domain == "realtime" else 0.0
        if self._domain == "own":
            self._offsets_s.append(now_s - stamped_s)
            self._offset_s = min(self._offsets_s)
        captured_s = stamped_s + self._offset_s
        if abs(captured_s - now_s) > PLAUSIBLE_S:
            raise CaptureError(
                f"{self._name}: its clock jumped by {captured_s - now_s:+.1f} s; reconnect the camera, "
                f"and keep the system clock from being set while recording"
            )
        return captured_s


def _domain(stamped_s: float, now_s: float, realtime_s: float) -> str:
    if abs(stamped_s - now_s) < PLAUSIBLE_S:
        return "monotonic"
    return "realtime" if abs(stamped_s - realtime_s) < PLAUSIBLE_S else "own"
