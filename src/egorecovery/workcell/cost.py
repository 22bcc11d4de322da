"""Simulated operator times of attempts, for the throughput audit."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from numpy.random import Generator

from egorecovery.episodes import Source

EPOCH = datetime(2026, 1, 5, 9, tzinfo=UTC)
SLOT_S = 600.0  # calendar time for one episode and its failed attempts


@dataclass(frozen=True, kw_only=True)
class Handling:
    """Seconds of work around a demonstration. Assumptions that fit the paper's rates, not measurements."""

    staging_s: float
    reset_s: float
    spread: float = 0.25  # of both, relative


HANDLING = {
    Source.ROBOT_SUCCESS: Handling(staging_s=22.0, reset_s=28.0),
    Source.ROBOT_RECOVERY: Handling(staging_s=38.0, reset_s=28.0),
    Source.HUMAN_SUCCESS: Handling(staging_s=1.5, reset_s=1.5),
    Source.HUMAN_RECOVERY: Handling(staging_s=2.0, reset_s=1.5),
}


@dataclass(frozen=True)
class Clock:
    """The simulated time and cost of an attempt."""

    started_at: str
    stopped_at: str
    staging_s: float
    reset_s: float


def clock(source: Source, index: int, attempt: int, duration_s: float, rng: Generator) -> Clock:
    """The start of an attempt. Each has its own slot of the calendar, so that no two overlap."""
    handling = HANDLING[source]
    started = EPOCH + timedelta(seconds=index * SLOT_S + attempt * SLOT_S / 20)
    stopped = started + timedelta(seconds=duration_s)
    vary = rng.uniform(1 - handling.spread, 1 + handling.spread, 2)
    return Clock(
        started_at=started.isoformat(timespec="milliseconds"),
        stopped_at=stopped.isoformat(timespec="milliseconds"),
        staging_s=round(handling.staging_s * float(vary[0]), 2),
        reset_s=round(handling.reset_s * float(vary[1]), 2),
    )
