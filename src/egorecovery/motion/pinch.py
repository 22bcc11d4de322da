"""The pinch frame of a hand: where thumb and index tip meet, how they are turned. A gripper's tool frame, for hands."""

# N samples

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.motion.aperture import KeypointOrder

NEAREST_TIPS_M = 0.01  # below this the axis between two tracked fingertips is mostly tracking noise


@dataclass(frozen=True, kw_only=True, eq=False)
class PinchTrack:
    """One hand, sample by sample. Columns of the rotation: x, y the opening axis, z the approach axis."""

    position_m: Float[ndarray, "N 3"]  # midpoint of thumb and index tip
    quaternions: Float[ndarray, "N 4"]  # x y z w
    axis_known: Bool[ndarray, " N"]  # False where the tips are too close to tell their axis


def pinch_track(keypoints_m: Float[ndarray, "N 21 3"], order: KeypointOrder, right_hand: bool) -> PinchTrack:
    """From 21 tracked keypoints.

    The opening axis points to the side on which a right hand has its thumb, for both hands: so it agrees with a
    gripper's. The approach axis leads from the wrist to the pinch, at a right angle to the opening axis.
    """
    thumb_m, index_m = keypoints_m[:, order.thumb_tip], keypoints_m[:, order.index_tip]
    midpoint_m = (thumb_m + index_m) / 2
    between_m = thumb_m - index_m if right_hand else index_m - thumb_m
    width_m = np.linalg.norm(between_m, axis=1)
    reach_m = midpoint_m - keypoints_m[:, 0]
    usable = np.isfinite(width_m) & np.isfinite(reach_m).all(axis=1)
    known = usable & (width_m >= NEAREST_TIPS_M)
    opening = np.where(known[:, None], between_m, [0.0, 1.0, 0.0])
    opening = opening / np.linalg.norm(opening, axis=1, keepdims=True)
    approach = reach_m - opening * np.sum(reach_m * opening, axis=1, keepdims=True)
    length_m = np.linalg.norm(np.where(usable[:, None], approach, 0.0), axis=1)
    known &= length_m >= NEAREST_TIPS_M
    safe = known[:, None]
    y = np.where(safe, opening, [0.0, 1.0, 0.0])
    z = np.where(safe, approach / np.where(safe, length_m[:, None], 1.0), [0.0, 0.0, -1.0])
    matrices = np.stack([np.cross(y, z), y, z], axis=-1)
    return PinchTrack(position_m=midpoint_m, quaternions=Rotation.from_matrix(matrices).as_quat(), axis_known=known)
