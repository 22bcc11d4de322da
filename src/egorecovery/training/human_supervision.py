"""What people's demonstrations teach the decoder they share with the robot: which numbers, on which scale, how fast."""

# T frames, A dimensions

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float32
from numpy import ndarray

from egorecovery.episodes import Source
from egorecovery.episodes.vocabulary import EFFECTORS
from egorecovery.intent import FrameLabels
from egorecovery.kinematics.action_space import ActionSpace, action_dim, gripper_dims
from egorecovery.kinematics.effector_space import APPROACH_AXIS, ARM_DIM, OPENING, OPENING_AXIS, POSITION

OPEN_01 = 0.5  # of a hand's aperture: thumb and index 55 mm apart


@dataclass(frozen=True, kw_only=True)
class HumanSupervision:
    """Which numbers of an effector target people supervise, beside positions; in joint space people have their own."""

    # A hand's opening has another scale than a gripper's, so each embodiment has its own normaliser. binary: open or
    # closed is all that is taken from a hand.
    opening: Literal["continuous", "binary", "none"] = "continuous"
    opening_axis: bool = False  # from one fingertip to the other
    approach_axis: bool = False  # a hand comes from the side, a gripper from above
    match_speed: bool = True  # people move faster: their chunks are stretched to the robot's pace

    def dims(self, space: ActionSpace) -> Bool[ndarray, " A"]:
        """The numbers of a target that people's data trains."""
        if space == "joint":
            return np.ones(action_dim(space), bool)
        arm = np.zeros(ARM_DIM, bool)
        arm[POSITION] = True
        arm[OPENING_AXIS] = self.opening_axis
        arm[APPROACH_AXIS] = self.approach_axis
        arm[OPENING] = self.opening != "none"
        return np.tile(arm, EFFECTORS)

    def shared_dims(self, space: ActionSpace) -> Bool[ndarray, " A"]:
        """Those that mean the same for both embodiments, and so have one normaliser."""
        return self.dims(space) & ~gripper_dims(space) if space == "effector" else np.zeros(action_dim(space), bool)

    def actions(self, action_TA: Float32[ndarray, "T A"], space: ActionSpace) -> Float32[ndarray, "T A"]:
        """People's actions as they are to be imitated."""
        if space == "joint" or self.opening != "binary":
            return action_TA
        return np.where(gripper_dims(space), (action_TA > OPEN_01).astype(np.float32), action_TA)


def speed_ratio(recorded: Iterable[tuple[Source, FrameLabels]]) -> float:
    """How many times longer the robot takes than a person for the same thing, measured on a training pool.

    By the mean length of a correction; by that of whole successes where one of them shows no correction.
    """
    lengths: dict[Source, list[int]] = {source: [] for source in Source}
    for source, labels in recorded:
        frames = int(labels.in_recovery.sum()) if source.is_recovery else len(labels.in_recovery)
        lengths[source].append(frames)
    for robot, human in (
        (Source.ROBOT_RECOVERY, Source.HUMAN_RECOVERY),
        (Source.ROBOT_SUCCESS, Source.HUMAN_SUCCESS),
    ):
        if _mean(lengths[robot]) and _mean(lengths[human]):
            return _mean(lengths[robot]) / _mean(lengths[human])
    return 1.0


def _mean(lengths: Sequence[int]) -> float:
    return float(np.mean(lengths)) if lengths else 0.0
