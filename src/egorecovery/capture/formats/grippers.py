"""Scales gripper readings to openings from 0 (closed) to 1 (open)."""

# N samples

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from egorecovery.episodes.vocabulary import EFFECTORS, STATE_DIM
from egorecovery.errors import RecordingError

COLUMNS = np.arange(1, EFFECTORS + 1) * (STATE_DIM // EFFECTORS) - 1  # of a joint vector
STREAMS = ("state", "action")  # measured at the finger and commanded by the leader's handle; often on two scales
SMALLEST_SPAN = 1e-3  # smallest difference between open and closed readings


@dataclass(frozen=True, kw_only=True)
class GripperRange:
    """Readings of one stream for a closed and an open gripper."""

    closed: float
    open: float
    given: bool = False  # by the user, not taken from the data set

    def opening_01(self, readings: Float[ndarray, "N 2"]) -> Float[ndarray, "N 2"]:
        return np.clip((readings - self.closed) / (self.open - self.closed), 0.0, 1.0)

    def __str__(self) -> str:
        return f"{self.closed:.4g} (closed) to {self.open:.4g} (open)"


GripperRanges = Mapping[str, GripperRange]


def parse_ranges(texts: Iterable[str]) -> dict[str, GripperRange]:
    """Parses `state=CLOSED,OPEN action=CLOSED,OPEN`. CLOSED is the larger number if readings fall on opening."""
    ranges = {}
    for text in texts:
        name, _, numbers = text.partition("=")
        try:
            closed, opened = (float(number) for number in numbers.split(","))
        except ValueError:
            raise RecordingError(f"gripper range {text!r}: write state=CLOSED,OPEN or action=CLOSED,OPEN") from None
        if name not in STREAMS or not np.isfinite([closed, opened]).all() or abs(opened - closed) < SMALLEST_SPAN:
            raise RecordingError(
                f"gripper range {text!r}: name one of {', '.join(STREAMS)} and two different readings, "
                f"as in state=0.02,0.058"
            )
        ranges[name] = GripperRange(closed=closed, open=opened, given=True)
    return ranges


def ranges_of(
    lowest: Mapping[str, float], highest: Mapping[str, float], given: GripperRanges
) -> dict[str, GripperRange]:
    """Lowest and highest reading of both grippers in the data set. They are combined, as one may never move."""
    ranges = dict(given)
    for name in STREAMS:
        if name in ranges:
            continue
        if not highest[name] - lowest[name] >= SMALLEST_SPAN:
            raise RecordingError(
                f"{name}: no gripper ever moves (all readings are near {lowest[name]:.4g}), so open and "
                f"closed cannot be distinguished; say what it reads with --gripper-range {name}=CLOSED,OPEN"
            )
        ranges[name] = GripperRange(closed=lowest[name], open=highest[name])
    return ranges


def normalised(joints: Float[ndarray, "N 14"], span: GripperRange) -> Float[ndarray, "N 14"]:
    """The same joint vectors with grippers from 0 to 1."""
    joints = np.array(joints, np.float64)
    joints[:, COLUMNS] = span.opening_01(joints[:, COLUMNS])
    return joints
