"""Forward and inverse kinematics of one arm of a MuJoCo model.

The tool frame sits between the fingertips: z leaves the gripper, y is the axis along which it opens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.errors import KinematicsError
from egorecovery.kinematics.bindings import MjModel, mujoco


@dataclass(frozen=True, eq=False)
class ToolPose:
    """A tool in the workspace frame."""

    position_m: Float[ndarray, "3"]
    rotation: Rotation


@dataclass(frozen=True, kw_only=True)
class Solver:
    """Damped least squares."""

    damping: float = 1e-2  # lambda; 0.025 mm error at 0.1-0.2 ms a call
    iterations: int = 40  # limits the time of a call
    position_tolerance_m: float = 1e-5
    rotation_tolerance_rad: float = 1e-4
    rotation_weight_m: float = 0.2  # one radian counts as much as this many metres
    step_limit_rad: float = 0.3  # a joint moves no further per iteration, which keeps the elbow on its side
    error_limit_m: float = float("inf")  # per iteration; without it, a target far out of reach makes the arm swing


@dataclass(frozen=True, eq=False)
class Solution:
    """Joint angles within limits, and the tool's remaining error."""

    joints_rad: Float[ndarray, " J"]
    position_error_m: float
    rotation_error_rad: float
    iterations: int

    def reached(self, within_m: float = 1e-3, within_rad: float = 1e-2) -> bool:
        return self.position_error_m <= within_m and self.rotation_error_rad <= within_rad


class Arm:
    """Kinematics of one arm. Not thread-safe: each worker makes its own."""

    def __init__(
        self, model: MjModel, joints: Sequence[str], tool: str, tool_axes: Float[ndarray, "3 3"] | None = None
    ) -> None:
        """`tool` names a site or a body; `tool_axes` are the tool frame's axes (columns) in that frame."""
        self._model = model
        self._data = mujoco.MjData(model)
        ids = [_id(model, mujoco.mjtObj.mjOBJ_JOINT, name, "joint") for name in joints]
        self._qpos = model.jnt_qposadr[ids]
        self._dofs = model.jnt_dofadr[ids]
        limited = model.jnt_limited[ids].astype(bool)
        self.lower_rad = np.where(limited, model.jnt_range[ids, 0], -np.pi)
        self.upper_rad = np.where(limited, model.jnt_range[ids, 1], np.pi)
        self._site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, tool)
        self._body = -1 if self._site >= 0 else _id(model, mujoco.mjtObj.mjOBJ_BODY, tool, "site or body")
        self._tool_axes = tool_axes
        self._jacobian = np.zeros((6, model.nv))

    def tool_pose(self, joints_rad: Float[ndarray, " J"]) -> ToolPose:
        position_m, matrix = self.tool_axes(joints_rad)
        return ToolPose(position_m, Rotation.from_matrix(matrix))

    def tool_axes(self, joints_rad: Float[ndarray, " J"]) -> tuple[Float[ndarray, "3"], Float[ndarray, "3 3"]]:
        """Position and axes (columns) of the tool."""
        self._place(joints_rad)
        return self._position_m().copy(), self._axes().copy()

    def solve(self, target: ToolPose, start_rad: Float[ndarray, " J"], how: Solver | None = None) -> Solution:
        """The solution nearest to a start. A target out of reach gives the nearest reachable pose.

        With the previous solution as the start, a path stays on its branch.
        """
        return self.follow(target.position_m, np.roll(target.rotation.as_quat(), 1), start_rad, how or Solver())

    def follow(
        self,
        wanted_m: Float[ndarray, "3"],
        wanted_quat: Float[ndarray, "4"],
        start_rad: Float[ndarray, " J"],
        how: Solver,
    ) -> Solution:
        """`solve` for a target given as plain numbers (quaternion with w first), for paths of many targets.

        Creating small objects took half of a call, so norms and limits are written out here.
        """
        joints_rad = np.asarray(start_rad, float).clip(self.lower_rad, self.upper_rad)
        weight = np.array([1.0, 1.0, 1.0, *[how.rotation_weight_m] * 3])
        damping = how.damping**2 * np.eye(6)
        error, iteration = self._error(joints_rad, wanted_m, wanted_quat), 0
        best_size = _norm(weight * error)
        best_rad, best_error = joints_rad, error
        while iteration < how.iterations and not _within(error, how):
            iteration += 1
            jacobian = weight[:, None] * self._tool_jacobian()
            normal = jacobian @ jacobian.T + damping
            towards = error * min(1.0, how.error_limit_m / max(_norm(weight * error), 1e-12))
            step_rad = jacobian.T @ np.linalg.solve(normal, weight * towards)
            step_rad *= min(1.0, how.step_limit_rad / np.abs(step_rad).max())
            joints_rad = (joints_rad + step_rad).clip(self.lower_rad, self.upper_rad)
            error = self._error(joints_rad, wanted_m, wanted_quat)
            if (size := _norm(weight * error)) <= best_size:
                best_rad, best_error, best_size = joints_rad, error, size
        return Solution(best_rad, _norm(best_error[:3]), _norm(best_error[3:]), iteration)

    def search(
        self, target: ToolPose, starts_rad: Sequence[Float[ndarray, " J"]], how: Solver | None = None
    ) -> Solution:
        """The best solution from several starts. Slower; for poses that are not near the last one."""
        best = self.solve(target, starts_rad[0], how)
        for start_rad in starts_rad[1:]:
            if best.reached():
                break
            best = min(best, self.solve(target, start_rad, how), key=_miss)
        return best

    def _place(self, joints_rad: Float[ndarray, " J"]) -> None:
        self._data.qpos[self._qpos] = joints_rad
        mujoco.mj_kinematics(self._model, self._data)

    def _position_m(self) -> Float[ndarray, "3"]:
        return self._data.site_xpos[self._site] if self._site >= 0 else self._data.xpos[self._body]

    def _axes(self) -> Float[ndarray, "3 3"]:
        frame = self._data.site_xmat[self._site] if self._site >= 0 else self._data.xmat[self._body]
        return frame.reshape(3, 3) if self._tool_axes is None else frame.reshape(3, 3) @ self._tool_axes

    def _error(self, joints_rad: ndarray, wanted_m: ndarray, wanted_quat: ndarray) -> Float[ndarray, "6"]:
        """Position and rotation vector from the tool to the target, in the workspace frame."""
        self._place(joints_rad)
        error, quat, inverse, turn = np.empty(6), np.empty(4), np.empty(4), np.empty(4)
        error[:3] = wanted_m - self._position_m()
        mujoco.mju_mat2Quat(quat, self._axes().ravel())
        mujoco.mju_negQuat(inverse, quat)
        mujoco.mju_mulQuat(turn, wanted_quat, inverse)
        mujoco.mju_quat2Vel(error[3:], turn, 1.0)
        return error

    def _tool_jacobian(self) -> Float[ndarray, "6 J"]:
        mujoco.mj_comPos(self._model, self._data)
        if self._site >= 0:
            mujoco.mj_jacSite(self._model, self._data, self._jacobian[:3], self._jacobian[3:], self._site)
        else:
            mujoco.mj_jacBody(self._model, self._data, self._jacobian[:3], self._jacobian[3:], self._body)
        return self._jacobian[:, self._dofs]


def _id(model: MjModel, kind: Any, name: str, words: str) -> int:
    number = mujoco.mj_name2id(model, kind, name)
    if number < 0:
        raise KinematicsError(f"the robot model has no {words} named {name!r}; it has {', '.join(names(model, kind))}")
    return number


def names(model: MjModel, kind: Any) -> list[str]:
    """The names of all joints, sites or bodies of a model."""
    counts = {
        mujoco.mjtObj.mjOBJ_JOINT: model.njnt,
        mujoco.mjtObj.mjOBJ_SITE: model.nsite,
        mujoco.mjtObj.mjOBJ_BODY: model.nbody,
    }
    return [mujoco.mj_id2name(model, kind, index) or f"(unnamed {index})" for index in range(counts[kind])]


def _within(error: Float[ndarray, "6"], how: Solver) -> bool:
    return _norm(error[:3]) < how.position_tolerance_m and _norm(error[3:]) < how.rotation_tolerance_rad


def _norm(vector: Float[ndarray, " N"]) -> float:
    return sqrt(vector.dot(vector))


def _miss(solution: Solution) -> float:
    return solution.position_error_m + 0.1 * solution.rotation_error_rad
