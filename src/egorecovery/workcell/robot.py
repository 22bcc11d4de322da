"""The robot embodiment: 14-D absolute joint targets in, 14-D proprioception out, 25 times per second."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from egorecovery.episodes import RATE_HZ, Side
from egorecovery.episodes.vocabulary import STATE_DIM
from egorecovery.errors import EgoRecoveryError
from egorecovery.workcell import physics
from egorecovery.workcell.arm import ARM_JOINTS, OPENING_M
from egorecovery.workcell.kinematics import HOME, LOWER_RAD, UPPER_RAD
from egorecovery.workcell.physics import MjData, MjModel, PhysicsState, mujoco

SUBSTEPS = round(1 / RATE_HZ / physics.TIMESTEP_S)
ALONG_STEP = np.arange(1, SUBSTEPS + 1)[:, None] / SUBSTEPS  # share of a control step at the end of each substep
LOWEST_TARGET = np.tile(np.append(LOWER_RAD, 0.0), 2)
HIGHEST_TARGET = np.tile(np.append(UPPER_RAD, 1.0), 2)
# 3 rad/s, as a small arm's drives allow (no limit for the gripper), so that a bad policy does not ram the table.
LARGEST_MOVE = np.tile(np.append(np.full(ARM_JOINTS, 3.0 / RATE_HZ), 1.0), 2)


class ActionRefused(EgoRecoveryError):
    """A command that is not a valid joint vector."""


@dataclass(frozen=True, eq=False)
class _Addresses:
    """Indices of the robot in the model's arrays."""

    ctrl: ndarray  # (14,)
    joints: ndarray  # (12,) qpos of both arms
    fingers: ndarray  # (2, 2) qpos of both fingers of both grippers
    dofs: ndarray  # (16,) velocities of all of these
    tools: ndarray  # (2,) sites


class RobotCell:
    """Two arms in a compiled arena. Objects are moved through `data`; call `refresh` afterwards.

    A step starts from the contacts and forces of the last refresh. Without one, they would be outdated.
    """

    def __init__(self, model: MjModel, data: MjData | None = None) -> None:
        self.model = model
        self.data = mujoco.MjData(model) if data is None else data
        self._at = _addresses(model)
        self.reset()

    def reset(self, joints: Float[ndarray, "14"] = HOME) -> None:
        """Resets objects to their initial places, with the arms at rest at a joint vector."""
        mujoco.mj_resetData(self.model, self.data)
        self.place(joints)

    def place(self, joints: Float[ndarray, "14"], target: Float[ndarray, "14"] | None = None) -> None:
        """Put the arms at a joint vector without motion. Objects and time do not change.

        The servos get that vector as their command, or `target`, so that a gripper that holds an object keeps closing.
        """
        joints = clip_target(joints)
        arms = joints.reshape(2, ARM_JOINTS + 1)
        self.data.qpos[self._at.joints] = arms[:, :ARM_JOINTS].ravel()
        self.data.qpos[self._at.fingers] = arms[:, ARM_JOINTS:] * OPENING_M / 2
        self.data.qvel[self._at.dofs] = 0.0
        self.data.ctrl[self._at.ctrl] = joints if target is None else clip_target(target)
        self.refresh()

    def refresh(self) -> None:
        physics.refresh(self.model, self.data)

    def step(self, target: ndarray) -> None:
        """One 40 ms control step towards absolute targets, clipped to the limits of joints and drives.

        The servos get a ramp from the last target to this one, like a real controller. Jumps at 25 Hz would shake a
        grasped object.
        """
        model, data, ctrl = self.model, self.data, self._at.ctrl
        start = data.ctrl[ctrl]
        goal = np.clip(clip_target(target), start - LARGEST_MOVE, start + LARGEST_MOVE)
        ramp = start + (goal - start) * ALONG_STEP
        data.ctrl[ctrl] = ramp[0]
        mujoco.mj_step2(model, data)  # the first half of a step, which needs no control, is the last refresh
        for servo_target in ramp[1:]:
            data.ctrl[ctrl] = servo_target
            mujoco.mj_step(model, data)
        physics.check(model, data)
        self.refresh()

    def proprioception(self) -> Float[ndarray, "14"]:
        """Measured joint angles and gripper openings (0 closed, 1 open), left arm first."""
        measured = np.empty((2, ARM_JOINTS + 1))
        measured[:, :ARM_JOINTS] = self.data.qpos[self._at.joints].reshape(2, ARM_JOINTS)
        measured[:, ARM_JOINTS] = np.clip(self.data.qpos[self._at.fingers].sum(axis=1) / OPENING_M, 0.0, 1.0)
        return measured.ravel()

    def target(self) -> Float[ndarray, "14"]:
        """The last commanded joint vector."""
        return self.data.ctrl[self._at.ctrl].copy()

    def effector_m(self) -> Float[ndarray, "2 3"]:
        """Positions of both tools in the workspace frame."""
        return self.data.site_xpos[self._at.tools].copy()

    def effector_rotation(self) -> Float[ndarray, "2 3 3"]:
        """Axes of both tools as columns: x, y (opening), z (approach)."""
        return self.data.site_xmat[self._at.tools].reshape(2, 3, 3).copy()

    def save(self) -> PhysicsState:
        return physics.save(self.model, self.data)

    def restore(self, state: PhysicsState) -> None:
        physics.restore(self.model, self.data, state)


def clip_target(target: ndarray) -> Float[ndarray, "14"]:
    """The target clipped to joint limits. Refuses invalid joint vectors."""
    target = np.asarray(target, float)
    if target.shape != (STATE_DIM,) or not np.isfinite(target).all():
        raise ActionRefused(f"an action is {STATE_DIM} finite numbers, got shape {target.shape}: {target}")
    return np.clip(target, LOWEST_TARGET, HIGHEST_TARGET)


def _addresses(model: MjModel) -> _Addresses:
    arm_names = [f"joint{number}" for number in range(1, ARM_JOINTS + 1)]

    def joint_ids(names: list[str]) -> ndarray:
        return np.array([[model.joint(f"{side}/{name}").id for name in names] for side in Side])

    arms, fingers = joint_ids(arm_names), joint_ids(["finger_left", "finger_right"])
    return _Addresses(
        ctrl=np.array([model.actuator(f"{side}/{name}").id for side in Side for name in [*arm_names, "gripper"]]),
        joints=model.jnt_qposadr[arms].ravel(),
        fingers=model.jnt_qposadr[fingers],
        dofs=model.jnt_dofadr[np.hstack([arms, fingers])].ravel(),
        tools=np.array([model.site(f"{side}/tool").id for side in Side]),
    )
