"""Pure functions from raw tracks to clean motion on the 25 Hz grid and the phase grid."""

from egorecovery.motion.aperture import KeypointOrder, aperture_01
from egorecovery.motion.energy import motion_energy
from egorecovery.motion.jumps import JumpLimits, bridge, bridge_rotations, supported, trusted_frames
from egorecovery.motion.phase import PhaseGrid
from egorecovery.motion.pinch import PinchTrack, pinch_track
from egorecovery.motion.resampling import common_grid, nearest, resample_linear, resample_rotations
from egorecovery.motion.smoothing import Smoothing, smooth, smooth_rotations
from egorecovery.motion.track import Cleaning, CleanTrack, clean_track

__all__ = [
    "CleanTrack",
    "Cleaning",
    "JumpLimits",
    "KeypointOrder",
    "PhaseGrid",
    "PinchTrack",
    "Smoothing",
    "aperture_01",
    "bridge",
    "bridge_rotations",
    "clean_track",
    "common_grid",
    "motion_energy",
    "nearest",
    "pinch_track",
    "resample_linear",
    "resample_rotations",
    "smooth",
    "smooth_rotations",
    "supported",
    "trusted_frames",
]
