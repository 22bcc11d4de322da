"""Finds the frames in which a tracker lost the hand, and bridges them from the frames it can be trusted in."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.errors import MotionError
from egorecovery.motion.resampling import resample_linear, resample_rotations


@dataclass(frozen=True, kw_only=True)
class JumpLimits:
    """Faster than this from one frame to the next is the tracker's jump, not the hand's (appendix, filtering)."""

    position_m: float = 0.03
    rotation_rad: float = np.deg2rad(20.0)


def trusted_frames(
    position_m: Float[ndarray, "T 3"],
    quaternions: Float[ndarray, "T 4"],
    usable: Bool[ndarray, " T"],
    limits: JumpLimits | None = None,
) -> Bool[ndarray, " T"]:
    """The largest set of frames that one hand could have visited without jumping.

    The track is cut into runs at every jump and every unusable frame; of all chains of runs whose ends can be
    reached from one another at the limit speed, the one with most frames is trusted. A spike, and equally an
    excursion of many frames to a wrong place, is then left out whole, where comparing neighbours would keep all
    but its first frame.
    """
    limits = limits or JumpLimits()
    usable = usable & np.isfinite(position_m).all(axis=1)
    frames = np.flatnonzero(usable)
    trusted = np.zeros(len(usable), bool)
    if not len(frames):
        return trusted
    reachable = _reachable(position_m, quaternions, frames[:-1], frames[1:], limits)
    breaks = np.flatnonzero(~(reachable & (np.diff(frames) == 1))) + 1
    runs = np.split(frames, breaks)
    first = np.array([run[0] for run in runs])
    last = np.array([run[-1] for run in runs])
    length = last - first + 1

    best, previous = length.copy(), np.full(len(runs), -1)
    for run in range(1, len(runs)):
        before = _reachable(position_m, quaternions, last[:run], np.full(run, first[run]), limits)
        chained = np.where(before, best[:run], -1)
        if chained.max() > 0:
            previous[run] = int(np.argmax(chained))
            best[run] = length[run] + chained.max()
    run = int(np.argmax(best))
    while run >= 0:
        trusted[runs[run]] = True
        run = previous[run]
    return trusted


def _reachable(
    position_m: ndarray, quaternions: ndarray, start: ndarray, stop: ndarray, limits: JumpLimits
) -> Bool[ndarray, " pairs"]:
    """Whether the hand can get from one frame to the other; the limit grows with the frames between."""
    if not len(start):
        return np.zeros(0, bool)
    frames = stop - start
    moved_m = np.linalg.norm(position_m[stop] - position_m[start], axis=1)
    # The angle between two orientations, not between their Euler angles: those jump by pi at gimbal lock.
    turned_rad = (Rotation.from_quat(quaternions[stop]) * Rotation.from_quat(quaternions[start]).inv()).magnitude()
    return (moved_m <= limits.position_m * frames) & (turned_rad <= limits.rotation_rad * frames)


def bridge(
    times_s: Float[ndarray, " T"], values: Float[ndarray, "T C"], trusted: Bool[ndarray, " T"]
) -> Float[ndarray, "T C"]:
    """Linear interpolation across untrusted frames; the ends hold the nearest trusted value."""
    _require_any(trusted)
    return resample_linear(times_s[trusted], values[trusted], times_s)


def bridge_rotations(
    times_s: Float[ndarray, " T"], quaternions: Float[ndarray, "T 4"], trusted: Bool[ndarray, " T"]
) -> Float[ndarray, "T 4"]:
    """Shortest-arc interpolation across untrusted frames; the ends hold the nearest trusted orientation."""
    _require_any(trusted)
    return resample_rotations(times_s[trusted], quaternions[trusted], times_s)


def _require_any(trusted: ndarray) -> None:
    if not trusted.any():
        raise MotionError("no frame of the track can be trusted: every one is missing or marked unusable")


def guessed_longer_than(
    times_s: Float[ndarray, " T"], trusted: Bool[ndarray, " T"], limit_s: float
) -> Bool[ndarray, " T"]:
    """Frames in stretches bridged over more than `limit_s`, and all before the first or after the last trusted one."""
    known = np.flatnonzero(trusted)
    if not len(known):
        return np.ones(len(trusted), bool)
    frame = np.arange(len(trusted))
    before = np.searchsorted(known, frame, side="right") - 1
    after = np.searchsorted(known, frame, side="left")
    outside = (before < 0) | (after >= len(known))
    gap_s = times_s[known[np.minimum(after, len(known) - 1)]] - times_s[known[np.maximum(before, 0)]]
    return ~trusted & (outside | (gap_s > limit_s))
