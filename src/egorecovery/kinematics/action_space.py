"""The two spaces in which a policy can act, and the layout of a vector in each."""

from typing import Literal

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from egorecovery.episodes.vocabulary import EFFECTORS, STATE_DIM
from egorecovery.kinematics.effector_space import ARM_DIM, EFFECTOR_DIM, OPENING, POSITION

# joint: six joint angles and a gripper per arm, as in the paper; a person's vector means something else there.
# effector: the point between the fingertips, its orientation and the opening; the same for robots and people.
ActionSpace = Literal["joint", "effector"]


def action_dim(space: ActionSpace) -> int:
    return STATE_DIM if space == "joint" else EFFECTOR_DIM


def gripper_dims(space: ActionSpace) -> Bool[ndarray, " A"]:
    """Indices of the openings of grippers or hands in a vector."""
    if space == "joint":
        per_arm = STATE_DIM // EFFECTORS
        return np.arange(STATE_DIM) % per_arm == per_arm - 1
    return np.arange(EFFECTOR_DIM) % ARM_DIM == OPENING


def anchored_dims(space: ActionSpace) -> Bool[ndarray, " A"]:
    """Indices that are relative to the current state in a relative action: joint angles, or positions."""
    if space == "joint":
        return ~gripper_dims(space)
    return np.tile(np.arange(ARM_DIM) < POSITION.stop, EFFECTORS)
