"""Positions predicted twice: in the workspace, and counted from where the hand is now. Each is exact where it counts.

A position in the workspace is wrong by much the same few millimetres wherever it is; one that is counted from the
hand is wrong by a share of the way to go. Far from the hand the first is better, near it the second. They are weighed
by their inverse variances: 1 for the first, and floor^2 + (way / near)^2 for the second, where `near` is about the
way at which both are equally good. The floor keeps a hand that rests from drifting: without it nothing would lead
back to where it should be.
"""

# B observations, H horizon, A action dimensions, O outputs (A, then the N anchored ones again), E effectors, X xyz

import numpy as np
from jaxtyping import Bool, Float32
from numpy import ndarray

from egorecovery.episodes.vocabulary import EFFECTORS
from egorecovery.kinematics.action_space import anchored_dims
from egorecovery.policy.config import PolicyConfig

FLOOR = 0.4  # deviation of a way of nothing, in units of a position's: a resting arm's 3 mm against 8 mm


def output_dims(dims_A: Bool[ndarray, " A"], config: PolicyConfig) -> Bool[ndarray, " O"]:
    """Which outputs stand for some dimensions of an action."""
    if config.near_m is None:
        return dims_A
    return np.concatenate([dims_A, dims_A[anchored_dims(config.action_space)]])


def blended(
    output_BHO: Float32[ndarray, "B H O"],
    here_BA: Float32[ndarray, "B A"],
    spread_A: Float32[ndarray, " A"],
    config: PolicyConfig,
) -> Float32[ndarray, "B H A"]:
    """Normalised actions, from `Statistics.anchor` of the state and the spread of actions.

    Where the state is not known (NaN) the position in the workspace is all there is.
    """
    if config.near_m is None:
        return output_BHO
    anchored_A = anchored_dims(config.action_space)
    far_BHA, way_BHN = output_BHO[..., : config.action_dim], output_BHO[..., config.action_dim :]
    here_B1N = here_BA[:, None, anchored_A]
    way_m_BHEX = (way_BHN * spread_A[anchored_A]).reshape(*way_BHN.shape[:-1], EFFECTORS, -1)
    way_2_BHE1 = np.square(way_m_BHEX / np.float32(config.near_m)).sum(axis=-1, keepdims=True)
    share_BHE1 = 1 / (1 + np.float32(FLOOR**2) + way_2_BHE1)
    share_BHN = np.broadcast_to(share_BHE1, way_m_BHEX.shape).reshape(way_BHN.shape)
    share_BHN = np.where(np.isnan(here_B1N), np.float32(0), share_BHN)
    blended_BHA = far_BHA.copy()
    blended_BHA[..., anchored_A] += share_BHN * (np.nan_to_num(here_B1N) + way_BHN - far_BHA[..., anchored_A])
    return blended_BHA
