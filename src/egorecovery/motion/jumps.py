"""Finds the frames in which a tracker lost the hand, and bridges them from the frames it can be trusted in."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.errors import MotionError
from egorecovery.motion.resampling import resample_linear, resample_rotations

HEADING_STEPS = 3.0  # a motion is extrapolated no further: beyond, a hand may be anywhere
FARTHEST_RUNS = 200  # how many runs back a chain may reach: keeps flickering tracks of many minutes affordable


@dataclass(frozen=True, kw_only=True)
class JumpLimits:
    """Farther than this from one frame to the next is the tracker's jump, not the hand's (appendix, filtering)."""

    position_m: float = 0.03
    rotation_rad: float = np.deg2rad(20.0)


def trusted_frames(
    times_s: Float[ndarray, " T"],
    position_m: Float[ndarray, "T 3"],
    quaternions: Float[ndarray, "T 4"],
    usable: Bool[ndarray, " T"],
    limits: JumpLimits | None = None,
) -> Bool[ndarray, " T"]:
    """The largest set of frames that one hand could have visited without jumping.

    The track is cut into runs at every jump and every unusable frame; of all chains of runs whose ends can be
    reached from one another, the one with most frames is trusted. A spike, and equally an excursion of many frames
    to a wrong place, is then left out whole, where comparing neighbours would keep all but its first frame. A frame
    is no jump when it is near the last one, or near where the hand was heading: a brisk reach exceeds 30 mm a frame
    at its middle, and cutting it there would cost half of the episode.
    """
    usable = usable & np.isfinite(position_m).all(axis=1)
    trusted = np.zeros(len(usable), bool)
    if not usable.any():
        return trusted
    track = _Track(times_s, position_m, quaternions, limits or JumpLimits())
    runs = _runs(track, np.flatnonzero(usable))
    first, last = (np.array([run[end] for run in runs]) for end in (0, -1))
    length = np.array([len(run) for run in runs])
    best, previous = length.copy(), np.full(len(runs), -1)
    for run in range(1, len(runs)):
        earlier = np.arange(max(0, run - FARTHEST_RUNS), run)
        reached = track.reachable(
            last[earlier],
            np.full(len(earlier), first[run]),
            left_moving=length[earlier] > 1,
            came_moving=np.full(len(earlier), length[run] > 1),
        )
        chained = np.where(reached, best[earlier], -1)
        if chained.max() > 0:
            previous[run] = earlier[int(np.argmax(chained))]
            best[run] = length[run] + chained.max()
    run = int(np.argmax(best))
    while run >= 0:
        trusted[runs[run]] = True
        run = previous[run]
    return trusted


def _runs(track: "_Track", frames: ndarray) -> list[ndarray]:
    """Stretches of neighbouring frames without a jump."""
    start, stop = frames[:-1], frames[1:]
    neighbours = stop - start == 1
    unknown = np.zeros(len(start), bool)
    near = track.reachable(start, stop, left_moving=unknown, came_moving=unknown)
    ahead = track.reachable(start, stop, left_moving=start > 0, came_moving=unknown)
    joined = unknown.copy()
    for link in range(len(start)):  # a heading counts only within a run, hence one after the other
        joined[link] = neighbours[link] and (near[link] or (ahead[link] and link > 0 and joined[link - 1]))
    return np.split(frames, np.flatnonzero(~joined) + 1)


class _Track:
    """A track and the question whether its hand can get from one frame to another."""

    def __init__(self, times_s: ndarray, position_m: ndarray, quaternions: ndarray, limits: JumpLimits) -> None:
        self._position_m, self._quaternions, self._limits = position_m, quaternions, limits
        # In units of the tracker's own frame: rows that it left out are time all the same.
        self._clock = times_s / np.median(np.diff(times_s)) if len(times_s) > 1 else times_s

    def reachable(
        self, start: ndarray, stop: ndarray, left_moving: ndarray, came_moving: ndarray
    ) -> Bool[ndarray, " pairs"]:
        """Within the limits of the start, or of where the hand was heading. Limits grow with time.

        `left_moving` and `came_moving` say where the motion just before the start and just after the stop is known.
        """
        if not len(start):
            return np.zeros(0, bool)
        steps = np.maximum(self._clock[stop] - self._clock[start], 1.0)
        ahead = np.where(left_moving & came_moving, steps, np.minimum(steps, HEADING_STEPS))
        known = left_moving.astype(float) + came_moving
        share = ahead / np.maximum(known, 1)  # the mean of both motions where both are known
        before, after = np.maximum(start - 1, 0), np.minimum(stop + 1, len(self._clock) - 1)
        left, came = share * left_moving, share * came_moving
        moved_m = self._moved_m(before, start, stop, after, left[:, None], came[:, None])
        turned_rad = self._turned_rad(before, start, stop, after, left[:, None], came[:, None])
        return (moved_m <= self._limits.position_m * steps) & (turned_rad <= self._limits.rotation_rad * steps)

    def _moved_m(
        self, before: ndarray, start: ndarray, stop: ndarray, after: ndarray, left: ndarray, came: ndarray
    ) -> Float[ndarray, " pairs"]:
        was_m, now_m, then_m, later_m = (np.nan_to_num(self._position_m[i]) for i in (before, start, stop, after))
        travelled_m = then_m - now_m
        off_course_m = travelled_m - left * (now_m - was_m) - came * (later_m - then_m)
        return np.minimum(np.linalg.norm(travelled_m, axis=1), np.linalg.norm(off_course_m, axis=1))

    def _turned_rad(
        self, before: ndarray, start: ndarray, stop: ndarray, after: ndarray, left: ndarray, came: ndarray
    ) -> Float[ndarray, " pairs"]:
        # Between orientations, not between their Euler angles: those jump by pi at gimbal lock.
        was, now, then, later = (Rotation.from_quat(self._quaternions[i]) for i in (before, start, stop, after))
        turn = then * now.inv()
        expected_rad = left * (now * was.inv()).as_rotvec() + came * (later * then.inv()).as_rotvec()
        return np.minimum(turn.magnitude(), (turn * Rotation.from_rotvec(expected_rad).inv()).magnitude())


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


def supported(
    known_s: Float[ndarray, " N"], grid_s: Float[ndarray, " T"], longest_bridge_s: float
) -> Bool[ndarray, " T"]:
    """Grid times that rest on evidence: known samples on both sides, no farther apart than a bridge may be.

    Measured in time, so that samples that were never recorded count as much as those that cannot be trusted.
    """
    if not len(known_s):
        return np.zeros(len(grid_s), bool)
    after = np.searchsorted(known_s, grid_s - 1e-9)
    before = np.searchsorted(known_s, grid_s + 1e-9, side="right") - 1
    inside = (before >= 0) & (after < len(known_s))
    gap_s = known_s[np.minimum(after, len(known_s) - 1)] - known_s[np.maximum(before, 0)]
    return inside & (gap_s <= longest_bridge_s)
