"""A first guess at t_rec for the annotator to confirm or move: the pause between correcting and carrying on."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.signal import find_peaks

from egorecovery.episodes import RATE_HZ
from egorecovery.motion import motion_energy

MIN_SHARE = 0.1  # of the path on either side: a valley nearer to an end separates nothing
MIN_BURST = 0.1  # of the top speed: ripples shallower than this are tremor, not pauses
NEARLY_AS_CLEAR = 0.8


@dataclass(frozen=True)
class Candidate:
    """A proposed boundary and how clearly the motion shows it (0: a fallback, 1: a full stop between two bursts)."""

    frame: int
    clarity: float


def candidate_boundary(effector_m: Float[ndarray, "T A 3"], rate_hz: float = RATE_HZ) -> Candidate:
    """The first clear pause: the earliest valley of the smoothed speed that is nearly as deep as the deepest.

    The correction comes first in a clip, and ordinary execution has pauses of its own. Without any valley the
    clip holds the correction only, and the candidate is where motion ends.
    """
    speed = np.sqrt(motion_energy(effector_m, rate_hz))
    travelled = np.cumsum(speed)
    if not (np.isfinite(travelled[-1]) and travelled[-1] > 0):
        return Candidate(len(speed) - 1, 0.0)
    share = travelled / travelled[-1]
    valleys, found = find_peaks(-speed, prominence=MIN_BURST * speed.max())
    inside = (share[valleys] > MIN_SHARE) & (share[valleys] < 1 - MIN_SHARE)
    valleys, prominence = valleys[inside], found["prominences"][inside]
    if not len(valleys):
        return Candidate(int(np.searchsorted(share, 0.99)), 0.0)
    clarity = prominence / (prominence + speed[valleys])  # 1 where motion stops, against the lower shoulder
    first = int(np.argmax(clarity >= NEARLY_AS_CLEAR * clarity.max()))
    return Candidate(int(valleys[first]), float(clarity[first]))
