"""Robot demonstrations encoded as human ones: they look and move like the robot and are recorded as hands.

Human data differ from robot data in appearance, motion, tracking error and action space. This data differs in action
space only, so comparing it with human data shows the effect of the other three.
"""

from dataclasses import replace

import numpy as np
from numpy.random import Generator
from scipy.spatial.transform import Rotation

from egorecovery.capture import HandTracks, RobotLog
from egorecovery.episodes import Side
from egorecovery.workcell.arm import ARM_JOINTS, OPENING_M
from egorecovery.workcell.demonstration import Attempt, RobotDemonstrator
from egorecovery.workcell.hand import ORDER, hand_keypoints_m, wrist_pose
from egorecovery.workcell.human_hands import Manner
from egorecovery.workcell.kinematics import ToolPose, effector_poses
from egorecovery.workcell.starts import Start


class RobotAsHuman(RobotDemonstrator):
    """A teleoperator at the robot, whose recordings are encoded as human ones."""

    def attempt(self, start: Start, rng: Generator) -> Attempt:
        done = super().attempt(start, rng)
        if not isinstance(done.motion, RobotLog):
            return done
        return replace(done, motion=as_hands(done.motion), target_objects_m=None)


def as_hands(log: RobotLog) -> HandTracks:
    """Hands at the measured tool poses, tracked without error."""
    tools_m, axes = effector_poses(log.state)
    openings = log.state.reshape(-1, 2, ARM_JOINTS + 1)[:, :, ARM_JOINTS]
    keypoints_m, rotations = np.empty((len(log.state), 2, 21, 3)), np.empty((len(log.state), 2, 3, 3))
    for side in Side:
        hand = side.effector
        for tick, opening in enumerate(openings[:, hand]):
            tool = ToolPose(tools_m[tick, hand], Rotation.from_matrix(axes[tick, hand]))
            wrist_m, rotations[tick, hand] = wrist_pose(side, tool, Manner().pitch_rad)
            points_m = hand_keypoints_m(side, float(opening) * OPENING_M)
            keypoints_m[tick, hand] = wrist_m + points_m @ rotations[tick, hand].T
    return HandTracks(
        timestamps_s=log.timestamps_s,
        keypoints_m=keypoints_m,
        wrist_rotation=rotations,
        confidence=np.ones((len(log.state), 2)),
        order=ORDER,
    )
