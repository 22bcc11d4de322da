"""Forward and inverse kinematics of the two tools, on a cell of arms alone.

The tool frame sits between the pads: z leaves the gripper, y is the way it opens.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.episodes import Side
from egorecovery.errors import RecipeError
from egorecovery.workcell.arm import ARM_JOINTS, JOINTS, add_arm, add_materials
from egorecovery.workcell.cell import BASE_IN_WORKSPACE_M
from egorecovery.workcell.physics import mujoco

LOWER_RAD = np.array([joint.lower_rad for joint in JOINTS])
UPPER_RAD = np.array([joint.upper_rad for joint in JOINTS])
POINTING_DOWN = Rotation.from_matrix([[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]])


# Fingers down, tools at x -0.13, y +-0.14, z 0.15 m, grippers open: in the lower corners of the head view.
_HOME_LEFT = (-0.5743, -0.1160, 0.6185, 0.0, 1.0684, -0.5743, 1.0)
_MIRROR = np.array([-1, 1, 1, -1, 1, -1, 1])  # the right arm is the left one seen in a mirror at y = 0
HOME = np.concatenate([_HOME_LEFT, _MIRROR * _HOME_LEFT])
HOME.setflags(write=False)


@dataclass(frozen=True, eq=False)
class ToolPose:
    """A tool in the workspace frame."""

    position_m: Float[ndarray, "3"]
    rotation: Rotation


@dataclass(frozen=True, kw_only=True)
class Solver:
    """Damped least squares."""

    damping: float = 1e-2  # lambda; 0.025 mm error at 0.1-0.2 ms a call (design, section 7)
    iterations: int = 40
    position_tolerance_m: float = 1e-5
    rotation_tolerance_rad: float = 1e-4
    rotation_weight_m: float = 0.2  # one radian counts as much as this many metres
    step_limit_rad: float = 0.3  # a joint moves no further per iteration, which keeps the elbow on its side


@dataclass(frozen=True, eq=False)
class Solution:
    """Joint angles within limits, and how far the tool is from where it should be."""

    joints_rad: Float[ndarray, "6"]
    position_error_m: float
    rotation_error_rad: float
    iterations: int

    def reached(self, within_m: float = 1e-3, within_rad: float = 1e-2) -> bool:
        return self.position_error_m <= within_m and self.rotation_error_rad <= within_rad


def pointing_down(yaw_rad: float = 0.0, tilt_rad: float = 0.0, roll_rad: float = 0.0) -> Rotation:
    """Fingers down, opening along y at yaw 0.

    Yaw turns about the vertical; tilt raises the fingertips forward (pi/2: a horizontal grasp that points along the
    yaw); roll leans the opening axis.
    """
    return Rotation.from_euler("ZYX", [yaw_rad, -tilt_rad, roll_rad]) * POINTING_DOWN


class ArmKinematics:
    """One arm by itself. Not thread-safe: each worker makes its own."""

    def __init__(self, side: Side) -> None:
        spec = mujoco.MjSpec()
        spec.compiler.degree = False
        add_materials(spec)
        add_arm(spec, side, BASE_IN_WORKSPACE_M[side])
        self.side = side
        self._model = spec.compile()
        self._data = mujoco.MjData(self._model)
        self._tool = self._model.site(f"{side}/tool").id
        self._jacobian = np.zeros((6, self._model.nv))

    def tool_pose(self, joints_rad: Float[ndarray, "6"]) -> ToolPose:
        position_m, matrix = self.tool_axes(joints_rad)
        return ToolPose(position_m, Rotation.from_matrix(matrix))

    def tool_axes(self, joints_rad: Float[ndarray, "6"]) -> tuple[Float[ndarray, "3"], Float[ndarray, "3 3"]]:
        """Position and axes (columns) of the tool."""
        self._place(joints_rad)
        return self._data.site_xpos[self._tool].copy(), self._data.site_xmat[self._tool].reshape(3, 3).copy()

    def solve(self, target: ToolPose, start_rad: Float[ndarray, "6"], how: Solver | None = None) -> Solution:
        """The nearest solution from a start: pass the previous one and a path stays on its branch."""
        how = how or Solver()
        joints_rad = np.clip(np.asarray(start_rad, float), LOWER_RAD, UPPER_RAD)
        wanted_quat = np.roll(target.rotation.as_quat(), 1)
        weight = np.repeat([1.0, how.rotation_weight_m], 3)
        error, iteration = self._error(joints_rad, target.position_m, wanted_quat), 0
        while iteration < how.iterations and not _within(error, how):
            iteration += 1
            jacobian = weight[:, None] * self._tool_jacobian()
            normal = jacobian @ jacobian.T + how.damping**2 * np.eye(6)
            step_rad = jacobian.T @ np.linalg.solve(normal, weight * error)
            step_rad *= min(1.0, how.step_limit_rad / np.abs(step_rad).max())
            joints_rad = np.clip(joints_rad + step_rad, LOWER_RAD, UPPER_RAD)
            error = self._error(joints_rad, target.position_m, wanted_quat)
        return Solution(joints_rad, float(np.linalg.norm(error[:3])), float(np.linalg.norm(error[3:])), iteration)

    def search(self, target: ToolPose, how: Solver | None = None) -> Solution:
        """The best solution from a few fixed starts: slower, for poses that are not near the last one."""
        best: Solution | None = None
        for start_rad in search_starts(self.side):
            found = self.solve(target, start_rad, how)
            if best is None or _miss(found) < _miss(best):
                best = found
            if best.reached():
                break
        assert best is not None
        return best

    def _place(self, joints_rad: Float[ndarray, "6"]) -> None:
        self._data.qpos[:ARM_JOINTS] = joints_rad
        mujoco.mj_kinematics(self._model, self._data)

    def _error(self, joints_rad: ndarray, wanted_m: ndarray, wanted_quat: ndarray) -> Float[ndarray, "6"]:
        """Position and rotation vector from the tool to the target, in the workspace frame."""
        self._place(joints_rad)
        error, quat, inverse, turn = np.empty(6), np.empty(4), np.empty(4), np.empty(4)
        error[:3] = wanted_m - self._data.site_xpos[self._tool]
        mujoco.mju_mat2Quat(quat, self._data.site_xmat[self._tool])
        mujoco.mju_negQuat(inverse, quat)
        mujoco.mju_mulQuat(turn, wanted_quat, inverse)
        mujoco.mju_quat2Vel(error[3:], turn, 1.0)
        return error

    def _tool_jacobian(self) -> Float[ndarray, "6 6"]:
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_jacSite(self._model, self._data, self._jacobian[:3], self._jacobian[3:], self._tool)
        return self._jacobian[:, :ARM_JOINTS]


def effector_poses(joints: Float[ndarray, "*T D"]) -> tuple[Float[ndarray, "*T 2 3"], Float[ndarray, "*T 2 3 3"]]:
    """Positions (`effector_m`) and rotation matrices of both tools for proprioception or action vectors."""
    joints = np.asarray(joints, float)
    if joints.shape[-1:] != (2 * (ARM_JOINTS + 1),):
        raise RecipeError(f"joint vectors have 14 numbers (6 joints and a gripper per arm), got shape {joints.shape}")
    arms = [_arm(side) for side in Side]
    flat = joints.reshape(-1, 2, ARM_JOINTS + 1)
    position_m, matrix = np.empty((len(flat), 2, 3)), np.empty((len(flat), 2, 3, 3))
    for frame, both in enumerate(flat):
        for effector, arm in enumerate(arms):
            position_m[frame, effector], matrix[frame, effector] = arm.tool_axes(both[effector, :ARM_JOINTS])
    return position_m.reshape(*joints.shape[:-1], 2, 3), matrix.reshape(*joints.shape[:-1], 2, 3, 3)


def home_rad(side: Side) -> Float[ndarray, "6"]:
    """The arm's six joints at home."""
    return HOME.reshape(2, ARM_JOINTS + 1)[side.effector, :ARM_JOINTS].copy()


def search_starts(side: Side) -> list[Float[ndarray, "6"]]:
    """Home, then home with the wrist turned: a tilted or sideways hand often lies on another wrist branch."""
    wrist_turns_rad = ((0, 0, 0), (0, 0, 1.4), (0, 0, -1.4), (1.5, 0, 0), (-1.5, 0, 0), (0, -1.5, 0))
    return [np.append(home_rad(side)[:3], home_rad(side)[3:] + turn_rad) for turn_rad in wrist_turns_rad]


@cache
def _arm(side: Side) -> ArmKinematics:
    return ArmKinematics(side)


def _within(error: Float[ndarray, "6"], how: Solver) -> bool:
    return bool(
        np.linalg.norm(error[:3]) < how.position_tolerance_m and np.linalg.norm(error[3:]) < how.rotation_tolerance_rad
    )


def _miss(found: Solution) -> float:
    return found.position_error_m + 0.1 * found.rotation_error_rad
