"""Free objects in a model: reading and setting their poses, and contacts."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.workcell.physics import MjData, MjModel, mujoco


@dataclass(frozen=True, eq=False)
class Pose:
    """The pose of an object in the workspace frame."""

    position_m: Float[ndarray, "3"]
    axes: Float[ndarray, "3 3"]  # columns: the object's x, y, z
    velocity_mps: Float[ndarray, "3"]

    @property
    def up(self) -> Float[ndarray, "3"]:
        return self.axes[:, 2]

    @property
    def tilt_rad(self) -> float:
        """The angle between the object's z axis and the vertical."""
        return float(np.arccos(np.clip(self.axes[2, 2], -1, 1)))

    def turned_rad(self, other: "Pose") -> float:
        """The rotation angle between two orientations."""
        return float(np.arccos(np.clip((np.vdot(self.axes, other.axes) - 1) / 2, -1, 1)))

    @property
    def yaw_rad(self) -> float:
        return float(np.arctan2(self.axes[1, 0], self.axes[0, 0]))

    @property
    def speed_mps(self) -> float:
        return float(np.linalg.norm(self.velocity_mps))

    @property
    def rotation(self) -> Rotation:
        return Rotation.from_matrix(self.axes)

    def of(self, point_m: Float[ndarray, "3"]) -> Float[ndarray, "3"]:
        """A workspace point in the object's frame."""
        return self.axes.T @ (point_m - self.position_m)


def pose_of(model: MjModel, data: MjData, body: str) -> Pose:
    identifier = model.body(body).id
    velocity = np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, identifier, velocity, 0)
    return Pose(data.xpos[identifier].copy(), data.xmat[identifier].reshape(3, 3).copy(), velocity[3:])


def put(model: MjModel, data: MjData, body: str, position_m: ndarray, quaternion_wxyz: ndarray) -> None:
    """Place a body that has a free joint, at rest."""
    joint = int(model.body(body).jntadr[0])
    position, velocity = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
    data.qpos[position : position + 7] = np.concatenate([position_m, quaternion_wxyz])
    data.qvel[velocity : velocity + 6] = 0.0


def touching(model: MjModel, data: MjData, body: str, other: str) -> bool:
    """Whether two bodies are in contact."""
    return model.body(other).id in touched_by(model, data, body)


def touched_by(model: MjModel, data: MjData, body: str) -> set[int]:
    """The numbers of the bodies in contact with this one."""
    identifier = model.body(body).id
    first, second = model.geom_bodyid[data.contact.geom].T  # of every contact
    return {*second[first == identifier].tolist(), *first[second == identifier].tolist()}


def yaw_quaternion(yaw_rad: float) -> Float[ndarray, "4"]:
    """The quaternion (w x y z) of a rotation about the vertical."""
    return np.array([np.cos(yaw_rad / 2), 0.0, 0.0, np.sin(yaw_rad / 2)])
