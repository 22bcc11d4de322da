"""Quality of streams: rate, losses, and skew between streams."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WINDOW_S = 2.0  # for displayed rates
GAP_PERIODS = 1.5  # a longer gap between two items counts as missing items
SKEW_PERIODS = 2.0  # streams are compared at moments that all of them cover within this many periods


@dataclass(frozen=True, kw_only=True)
class StreamFacts:
    """State of one stream, for the operator."""

    rate_hz: float  # measured
    wanted_hz: float
    items: int
    missing: int  # by gaps between capture times: never delivered
    overflowed: int  # delivered, but the disk was too slow
    last_s: float | None  # capture time of the newest
    bytes_per_s: float

    @property
    def dropped(self) -> int:
        return self.missing + self.overflowed


class StreamMeter:
    """Counts items of one stream. One thread writes, another reads without a lock; a torn reading does no harm."""

    def __init__(self, wanted_hz: float) -> None:
        self.wanted_hz = wanted_hz
        self.items = self.missing = self.overflowed = 0
        self._recent: deque[tuple[float, int]] = deque(maxlen=int(WINDOW_S * max(wanted_hz, 1) * 2) + 2)
        self._last_s: float | None = None

    def add(self, captured_s: float, size: int, *, follows: bool = True) -> None:
        """`follows` is False after a jump that is not a loss, such as a restarted replay."""
        self.items += 1
        if self._last_s is not None and captured_s < self._last_s:
            self._recent.clear()
        if self._last_s is not None and follows:
            self.missing += missing_between(self._last_s, captured_s, self.wanted_hz)
        self._last_s = captured_s
        self._recent.append((captured_s, size))

    def restart(self) -> None:
        """The device was opened again."""
        self._last_s = None
        self._recent.clear()

    def recent_s(self) -> list[float]:
        return [captured_s for captured_s, _ in list(self._recent)]

    def facts(self) -> StreamFacts:
        recent = list(self._recent)
        span_s = recent[-1][0] - recent[0][0] if len(recent) > 1 else 0.0
        return StreamFacts(
            rate_hz=(len(recent) - 1) / span_s if span_s > 0 else 0.0,
            wanted_hz=self.wanted_hz,
            items=self.items,
            missing=self.missing,
            overflowed=self.overflowed,
            last_s=self._last_s,
            bytes_per_s=sum(size for _, size in recent[1:]) / span_s if span_s > 0 else 0.0,
        )


def missing_between(before_s: float, after_s: float, rate_hz: float) -> int:
    """The number of items missing between two."""
    periods = (after_s - before_s) * rate_hz
    return max(0, round(periods) - 1) if periods > GAP_PERIODS else 0


def skew_s(recent_s: Mapping[str, Sequence[float]], rates_hz: Mapping[str, float]) -> float | None:
    """The skew between items that belong to the same frame of an episode.

    It is the spread of the items nearest to the newest moment that all streams have reached. None if a stream has no
    item near that moment.
    """
    if len(recent_s) < 2 or not all(len(times) for times in recent_s.values()):
        return None
    moment_s = min(max(times) for times in recent_s.values())
    nearest = {name: min(times, key=lambda time_s: abs(time_s - moment_s)) for name, times in recent_s.items()}
    if any(abs(time_s - moment_s) > SKEW_PERIODS / rates_hz[name] for name, time_s in nearest.items()):
        return None
    return max(nearest.values()) - min(nearest.values())
