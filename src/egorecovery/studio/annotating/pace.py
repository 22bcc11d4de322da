"""Clips an hour, from the times at which annotations were saved."""

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

PAUSE_S = 120.0  # a longer gap between two saves is a break, not annotation


def clips_per_hour(saved_at: Sequence[str]) -> float | None:
    """Of one annotator's saves in order, ISO 8601; None before there are two in one sitting."""
    times = [datetime.fromisoformat(text) for text in saved_at if text]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    worked = [gap for gap in gaps if 0 <= gap <= PAUSE_S]
    spent_s = sum(worked)
    return len(worked) / spent_s * 3600 if spent_s > 0 else None
