"""The orientation of a hand from its keypoints, with one convention for all trackers."""

# N samples

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from egorecovery.motion import KeypointOrder

SHORTEST_M = 0.005  # an axis between nearer points is noise
KNUCKLES = {  # index, middle and little finger
    KeypointOrder.OPENPOSE: (5, 9, 17),
    KeypointOrder.MANO: (1, 4, 7),
}


def palm_rotation(
    keypoints_m: Float[ndarray, "N 21 3"], order: KeypointOrder, right_hand: bool
) -> Float[ndarray, "N 3 3"]:
    """Rotations with columns x towards the fingers, y to the left of a flat hand, z out of its back; or NaN."""
    index, middle, little = (keypoints_m[:, knuckle] for knuckle in KNUCKLES[order])
    fingers = middle - keypoints_m[:, 0]
    across = index - little if right_hand else little - index
    with np.errstate(all="ignore"):
        forward_m = np.linalg.norm(fingers, axis=1, keepdims=True)
        x = fingers / forward_m
        sideways = across - x * np.sum(x * across, axis=1, keepdims=True)
        across_m = np.linalg.norm(sideways, axis=1, keepdims=True)
        y = sideways / across_m
        known = (forward_m > SHORTEST_M) & (across_m > SHORTEST_M)
    return np.where(known[:, :, None], np.stack([x, y, np.cross(x, y)], axis=-1), np.nan)
