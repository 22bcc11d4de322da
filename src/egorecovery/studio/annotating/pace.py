"""Annotated clips per hour, from the times of saved annotations."""

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

PAUSE_S = 120.0  # a longer gap between two saves counts as a break


def clips_per_hour(saved_at: Sequence[str]) -> float | None:
    """Clips per hour from one annotator's save times (ISO 8601, sorted); None before two saves without a break."""
    times = [datetime.fromisoformat(text) for text in saved_at if text]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    worked = [gap for gap in gaps if 0 <= gap <= PAUSE_S]
    spent_s = sum(worked)
    return len(worked) / spent_s * 3600 if spent_s > 0 else None
