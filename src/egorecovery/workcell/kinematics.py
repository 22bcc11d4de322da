"""Kinematics, limits and home position of the workcell's arms."""

from functools import cache

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.episodes import Side
from egorecovery.kinematics.arm import Arm, Solution, Solver, ToolPose
from egorecovery.kinematics.arms import Arms
from egorecovery.kinematics.bindings import mujoco
from egorecovery.workcell.arena import BASE_IN_WORKSPACE_M
from egorecovery.workcell.arm import ARM_JOINTS, JOINTS, add_arm, add_materials

LOWER_RAD = np.array([joint.lower_rad for joint in JOINTS])
UPPER_RAD = np.array([joint.upper_rad for joint in JOINTS])
POINTING_DOWN = Rotation.from_matrix([[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]])


# Fingers down, tools at x -0.13, y +-0.14, z 0.15 m, grippers open: in the lower corners of the head view.
_HOME_LEFT = (-0.5743, -0.1160, 0.6185, 0.0, 1.0684, -0.5743, 1.0)
_MIRROR = np.array([-1, 1, 1, -1, 1, -1, 1])  # the right arm is the left one mirrored at y = 0
HOME = np.concatenate([_HOME_LEFT, _MIRROR * _HOME_LEFT])
HOME.setflags(write=False)


def pointing_down(yaw_rad: float = 0.0, tilt_rad: float = 0.0, roll_rad: float = 0.0) -> Rotation:
    """The rotation of a tool with fingers down, opening along y at yaw 0.

    Yaw rotates about the vertical. Tilt raises the fingertips forward (pi/2: a horizontal grasp along the yaw). Roll
    tilts the opening axis.
    """
    return Rotation.from_euler("ZYX", [yaw_rad, -tilt_rad, roll_rad]) * POINTING_DOWN


class ArmKinematics(Arm):
    """A single arm of the workcell."""

    def __init__(self, side: Side) -> None:
        spec = mujoco.MjSpec()
        spec.compiler.degree = False
        add_materials(spec)
        add_arm(spec, side, BASE_IN_WORKSPACE_M[side])
        joints = [f"{side}/joint{number}" for number in range(1, ARM_JOINTS + 1)]
        super().__init__(spec.compile(), joints, f"{side}/tool")
        self.side = side

    def find(self, target: ToolPose, how: Solver | None = None) -> Solution:
        """The best IK solution from a few fixed starts."""
        return self.search(target, search_starts(self.side), how)


@cache
def workcell_arms() -> Arms:
    """Both arms of the workcell, one pair per process."""
    return Arms(ArmKinematics(Side.LEFT), ArmKinematics(Side.RIGHT))


def effector_poses(joints: Float[ndarray, "*T D"]) -> tuple[Float[ndarray, "*T 2 3"], Float[ndarray, "*T 2 3 3"]]:
    """Positions (`effector_m`) and rotation matrices of both tools for proprioception or action vectors."""
    return workcell_arms().effector_poses(joints)


def home_rad(side: Side) -> Float[ndarray, "6"]:
    """The arm's six joints at home."""
    return HOME.reshape(2, ARM_JOINTS + 1)[side.effector, :ARM_JOINTS].copy()


def search_starts(side: Side) -> list[Float[ndarray, "6"]]:
    """Start angles: home, and home with a turned wrist, because tilted hands are often on another wrist branch."""
    wrist_turns_rad = ((0, 0, 0), (0, 0, 1.4), (0, 0, -1.4), (1.5, 0, 0), (-1.5, 0, 0), (0, -1.5, 0))
    return [np.append(home_rad(side)[:3], home_rad(side)[3:] + turn_rad) for turn_rad in wrist_turns_rad]
