"""A raw hand track, cleaned and put on the 25 Hz grid: the whole of the appendix on filtering, in order."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.motion.jumps import JumpLimits, bridge, bridge_rotations, supported, trusted_frames
from egorecovery.motion.pinch import PinchTrack
from egorecovery.motion.resampling import resample_linear, resample_rotations
from egorecovery.motion.smoothing import Smoothing, smooth, smooth_rotations


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """Everything that shapes a track between the tracker and the store."""

    jumps: JumpLimits = field(default_factory=JumpLimits)
    smoothing: Smoothing = field(default_factory=Smoothing)
    max_bridge_s: float = 0.2  # a longer bridge is a guess: kept for continuity, masked from intent supervision


@dataclass(frozen=True, kw_only=True, eq=False)
class CleanTrack:
    """One hand on the grid."""

    wrist_m: Float[ndarray, "T 3"]
    quaternions: Float[ndarray, "T 4"]  # x y z w
    aperture_01: Float[ndarray, " T"]
    reliable: Bool[ndarray, " T"]
    pinch_m: Float[ndarray, "T 3"] | None = None  # between thumb and index tip, where they were tracked
    pinch_quaternions: Float[ndarray, "T 4"] | None = None

    def state(self) -> Float[ndarray, "T 7"]:
        """x y z, roll pitch yaw (about fixed axes, re-wrapped to +-pi), aperture."""
        angles_rad = Rotation.from_quat(self.quaternions).as_euler("xyz")
        return np.concatenate([self.wrist_m, angles_rad, self.aperture_01[:, None]], axis=1)


def clean_track(
    *,
    times_s: Float[ndarray, " N"],
    wrist_m: Float[ndarray, "N 3"],
    quaternions: Float[ndarray, "N 4"],
    aperture_01: Float[ndarray, " N"],
    pinch: PinchTrack | None,
    usable: Bool[ndarray, " N"],
    grid_s: Float[ndarray, " T"],
    how: Cleaning | None = None,
) -> CleanTrack:
    """Repair jumps, smooth, resample; says which grid frames rest on evidence."""
    how = how or Cleaning()
    trusted = trusted_frames(times_s, wrist_m, quaternions, usable & np.isfinite(aperture_01), how.jumps)
    channels = np.column_stack([wrist_m, aperture_01, *([pinch.position_m] if pinch else [])])
    smoothed = smooth(bridge(times_s, channels, trusted), how.smoothing)
    turned = smooth_rotations(bridge_rotations(times_s, quaternions, trusted), how.smoothing)
    turned_pinch = smooth_rotations(_pinch_turns(times_s, pinch, trusted), how.smoothing) if pinch else None
    on_grid = resample_linear(times_s, smoothed, grid_s)
    return CleanTrack(
        wrist_m=on_grid[:, :3],
        quaternions=resample_rotations(times_s, turned, grid_s),
        aperture_01=np.clip(on_grid[:, 3], 0.0, 1.0),
        reliable=supported(times_s[trusted], grid_s, how.max_bridge_s),
        pinch_m=on_grid[:, 4:7] if pinch else None,
        pinch_quaternions=None if turned_pinch is None else resample_rotations(times_s, turned_pinch, grid_s),
    )


def _pinch_turns(
    times_s: Float[ndarray, " N"], pinch: PinchTrack, trusted: Bool[ndarray, " N"]
) -> Float[ndarray, "N 4"]:
    """Bridged where the hand is lost or closed. A hand whose fingers never part has no axis: one is made up."""
    known = trusted & pinch.axis_known
    return bridge_rotations(times_s, pinch.quaternions, known if known.any() else trusted)
