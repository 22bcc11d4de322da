"""Effector space: position, orientation and opening of the fingertips. Robots and people share it.

Ten numbers per arm, left arm first:

    0:3  position of the point between the fingertips, in the workspace frame, metres
    3:6  opening axis: unit vector along which the fingers open
    6:9  approach axis: unit vector that leaves the hand through the fingertips
    9    opening, 0 closed to 1 open

Axes are used instead of angles because they are unique and continuous: a small turn is a small change.
"""

# E effectors (left, right), X xyz

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from egorecovery.episodes.vocabulary import EFFECTOR_DIM, EFFECTORS

ARM_DIM = EFFECTOR_DIM // EFFECTORS
POSITION, OPENING_AXIS, APPROACH_AXIS, OPENING = slice(0, 3), slice(3, 6), slice(6, 9), 9
_SHORTEST = 1e-3  # an axis below this length has no direction
_DOWN, _LEFT = np.array([0.0, 0.0, -1.0]), np.array([0.0, 1.0, 0.0])


@dataclass(frozen=True, kw_only=True, eq=False)
class EffectorPoses:
    """Both effectors. Columns of a rotation: x, y the opening axis, z the approach axis."""

    position_m: Float[ndarray, "*T 2 3"]
    rotation: Float[ndarray, "*T 2 3 3"]
    opening_01: Float[ndarray, "*T 2"]


def pack(poses: EffectorPoses) -> Float[ndarray, "*T 20"]:
    parts = [
        poses.position_m,
        poses.rotation[..., :, 1],
        poses.rotation[..., :, 2],
        poses.opening_01[..., None],
    ]
    per_arm = np.concatenate(parts, axis=-1)
    return per_arm.reshape(*per_arm.shape[:-2], EFFECTOR_DIM)


def unpack(vectors: Float[ndarray, "*T 20"]) -> EffectorPoses:
    """The poses of vectors. Predicted axes are not exactly orthonormal, so the nearest orthonormal pair is taken."""
    per_arm = np.asarray(vectors, float).reshape(*np.shape(vectors)[:-1], EFFECTORS, ARM_DIM)
    return EffectorPoses(
        position_m=per_arm[..., POSITION],
        rotation=rotation_of_axes(per_arm[..., OPENING_AXIS], per_arm[..., APPROACH_AXIS]),
        opening_01=per_arm[..., OPENING],
    )


def rotation_of_axes(opening: Float[ndarray, "*T 3"], approach: Float[ndarray, "*T 3"]) -> Float[ndarray, "*T 3 3"]:
    """The rotation whose y and z columns are nearest to two given axes; neither axis is favoured."""
    opening = _unit(opening, _LEFT)
    approach = _unit(approach, _DOWN)
    # Two unit vectors: their sum and difference are orthogonal, and the nearest orthogonal pair lies 45 degrees
    # from the sum on either side.
    between = opening + approach
    across = opening - approach
    parallel = np.minimum(np.linalg.norm(between, axis=-1), np.linalg.norm(across, axis=-1)) < _SHORTEST
    opening = np.where(parallel[..., None], _perpendicular(approach), opening)
    between, across = _unit(opening + approach, _LEFT), _unit(opening - approach, _DOWN)
    y, z = (between + across) / np.sqrt(2), (between - across) / np.sqrt(2)
    return np.stack([np.cross(y, z), y, z], axis=-1)


def _unit(axes: Float[ndarray, "*T 3"], otherwise: Float[ndarray, "3"]) -> Float[ndarray, "*T 3"]:
    lengths = np.linalg.norm(axes, axis=-1, keepdims=True)
    return np.where(lengths < _SHORTEST, otherwise, axes / np.maximum(lengths, _SHORTEST))


def _perpendicular(axes: Float[ndarray, "*T 3"]) -> Float[ndarray, "*T 3"]:
    """A unit vector perpendicular to each axis, in the plane of the axis and its smallest coordinate."""
    least = np.eye(3)[np.argmin(np.abs(axes), axis=-1)]
    return _unit(least - axes * np.sum(axes * least, axis=-1, keepdims=True), _LEFT)
