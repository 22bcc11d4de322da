"""The end of the time that a run was given."""

import time
from dataclasses import dataclass


class OutOfTime(Exception):
    """Not an error: the time that was given is used up; what was reached is kept."""


@dataclass(frozen=True, kw_only=True)
class Deadline:
    at_s: float | None = None  # of the monotonic clock; None: there is none

    @classmethod
    def in_minutes(cls, minutes: float | None) -> "Deadline":
        return cls(at_s=None if minutes is None else time.monotonic() + 60 * minutes)

    @property
    def passed(self) -> bool:
        return self.at_s is not None and time.monotonic() >= self.at_s

    def require_time(self) -> None:
        if self.passed:
            raise OutOfTime
