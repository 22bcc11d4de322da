"""A hand's opening as a gripper would say it (paper, Eq. 3 of the appendix on motion reconstruction)."""

from enum import StrEnum

import numpy as np
from jaxtyping import Float
from numpy import ndarray

CLOSED_M = 0.03  # thumb-index distance that counts as closed ...
OPEN_M = 0.08  # ... and as fully open


class KeypointOrder(StrEnum):
    """Two ways in which hand trackers number the same 21 points."""

    MANO = "mano"  # 16 joints (wrist, index, middle, little, ring, thumb), then 5 tips from thumb to little
    OPENPOSE = "openpose"  # wrist, then four points per finger from thumb to little; MediaPipe and HaMeR use it

    @property
    def thumb_tip(self) -> int:
        return 16 if self is KeypointOrder.MANO else 4

    @property
    def index_tip(self) -> int:
        return 17 if self is KeypointOrder.MANO else 8


def aperture_01(
    keypoints_m: Float[ndarray, "*batch 21 3"], order: KeypointOrder = KeypointOrder.OPENPOSE
) -> Float[ndarray, "*batch"]:
    """Thumb-to-index fingertip distance, 0.03..0.08 m mapped to 0..1 and clipped."""
    distance_m = np.linalg.norm(keypoints_m[..., order.thumb_tip, :] - keypoints_m[..., order.index_tip, :], axis=-1)
    return np.clip((distance_m - CLOSED_M) / (OPEN_M - CLOSED_M), 0.0, 1.0)
