"""Both arms of a robot: joint vectors to effector vectors, and chunks of effector targets to joint targets."""

# T frames, H steps of a chunk, E effectors (left, right)

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.episodes import Side
from egorecovery.episodes.vocabulary import EFFECTORS, STATE_DIM
from egorecovery.errors import KinematicsError
from egorecovery.kinematics.arm import Arm, Solver
from egorecovery.kinematics.effector_space import EFFECTOR_DIM, EffectorPoses, pack, unpack

ARM_JOINTS = STATE_DIM // EFFECTORS - 1
# A chunk's targets are 40 ms apart: the last solution is a good start, and a few iterations suffice.
CHUNK_SOLVER = Solver(iterations=12, position_tolerance_m=1e-4, rotation_tolerance_rad=5e-4, error_limit_m=0.1)
REACHED_M, REACHED_RAD = 2e-3, 2e-2  # a target missed by more counts as unreachable


@dataclass(frozen=True, kw_only=True, eq=False)
class JointChunk:
    """Joint targets for a chunk of effector targets."""

    joints: Float[ndarray, "H 14"]
    unreachable: int  # of the 2 H targets: the nearest reachable pose is used instead
    worst_m: float  # the largest distance between a target and the pose that is used


class Arms:
    """Left and right arm with six joints and a gripper each. Not thread-safe."""

    def __init__(self, left: Arm, right: Arm) -> None:
        self._arms = {Side.LEFT: left, Side.RIGHT: right}

    def effector_poses(
        self, joints: Float[ndarray, "*T D"]
    ) -> tuple[Float[ndarray, "*T 2 3"], Float[ndarray, "*T 2 3 3"]]:
        """Positions and rotation matrices of both tools for proprioception or action vectors."""
        joints = np.asarray(joints, float)
        if joints.shape[-1:] != (STATE_DIM,):
            raise KinematicsError(
                f"joint vectors have {STATE_DIM} numbers (6 joints and a gripper per arm), got shape {joints.shape}"
            )
        flat = joints.reshape(-1, EFFECTORS, ARM_JOINTS + 1)
        position_m, matrix = np.empty((len(flat), EFFECTORS, 3)), np.empty((len(flat), EFFECTORS, 3, 3))
        for frame, both in enumerate(flat):
            for side, arm in self._arms.items():
                axes = arm.tool_axes(both[side.effector, :ARM_JOINTS])
                position_m[frame, side.effector], matrix[frame, side.effector] = axes
        shape = joints.shape[:-1]
        return position_m.reshape(*shape, EFFECTORS, 3), matrix.reshape(*shape, EFFECTORS, 3, 3)

    def effector_vectors(self, joints: Float[ndarray, "*T 14"]) -> Float[ndarray, "*T 20"]:
        """Effector-space vectors of joint vectors."""
        position_m, rotation = self.effector_poses(joints)
        openings = np.asarray(joints, float).reshape(*np.shape(joints)[:-1], EFFECTORS, ARM_JOINTS + 1)[..., -1]
        return pack(EffectorPoses(position_m=position_m, rotation=rotation, opening_01=openings))

    def joint_chunk(self, targets: Float[ndarray, "H 20"], start: Float[ndarray, "14"]) -> JointChunk:
        """Joint targets that follow effector targets, starting from the measured joints.

        Each step starts from the previous solution. A target out of reach is replaced by the nearest pose.
        """
        if np.shape(targets)[1:] != (EFFECTOR_DIM,):
            raise KinematicsError(f"effector targets have {EFFECTOR_DIM} numbers, got shape {np.shape(targets)}")
        poses = unpack(targets)
        joints = np.empty((len(targets), EFFECTORS, ARM_JOINTS + 1))
        joints[:, :, -1] = poses.opening_01
        unreachable, worst_m = 0, 0.0
        for side, arm in self._arms.items():
            hand = side.effector
            last_rad = np.asarray(start, float).reshape(EFFECTORS, -1)[hand, :ARM_JOINTS]
            quaternions = np.roll(Rotation.from_matrix(poses.rotation[:, hand]).as_quat(), 1, axis=1)
            for step, position_m in enumerate(poses.position_m[:, hand]):
                solution = arm.follow(position_m, quaternions[step], last_rad, CHUNK_SOLVER)
                joints[step, hand, :ARM_JOINTS] = last_rad = solution.joints_rad
                unreachable += not solution.reached(REACHED_M, REACHED_RAD)
                worst_m = max(worst_m, solution.position_error_m)
        return JointChunk(joints=joints.reshape(-1, STATE_DIM), unreachable=unreachable, worst_m=worst_m)
