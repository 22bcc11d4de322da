"""Physics options, snapshots of the whole state, and detection of divergence."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from egorecovery.errors import EgoRecoveryError
from egorecovery.kinematics.bindings import MjData, MjModel, MjSpec, mujoco

TIMESTEP_S = 0.002
# With these contact settings, 10 of 10 grasps held with 0.1 mm slip in 10 s.
FRICTION = (1.0, 0.02, 0.001)  # sliding, torsional (m), rolling (m)
CONTACT_SOLREF = (0.004, 1.0)
CONTACT_SOLIMP = (0.95, 0.99, 0.001, 0.5, 2.0)
CONTACT_DIM = 4  # with torsional friction, so that an object held at one point does not rotate

SPEED_LIMIT = 200.0  # rad/s or m/s: no object reaches it, a diverging solver does within a few steps


class PhysicsDiverged(EgoRecoveryError):
    """The simulation diverged. The attempt counts as a failure, and the run continues."""


@dataclass(frozen=True, eq=False)
class PhysicsState:
    """The whole state: time, positions, velocities, controls and the solver's warm start."""

    integration: Float64[ndarray, " N"]


def set_physics(spec: MjSpec) -> None:
    """Sets solver options, and contact defaults for all geoms that are added later."""
    spec.compiler.degree = False  # angles and Euler angles in radians
    spec.option.timestep = TIMESTEP_S
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10.0
    # MuJoCo's silent reset to the initial pose would look like a robot that gave up; `check` reports divergence.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    geom = spec.default.geom
    geom.condim = CONTACT_DIM
    geom.friction = FRICTION
    geom.solref = CONTACT_SOLREF
    geom.solimp = CONTACT_SOLIMP


def save(model: MjModel, data: MjData) -> PhysicsState:
    """The whole state. Without the warm start, a restored run would differ in the last bits."""
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    integration = np.empty(mujoco.mj_stateSize(model, kind))
    mujoco.mj_getState(model, data, integration, kind)
    return PhysicsState(integration)


def restore(model: MjModel, data: MjData, state: PhysicsState) -> None:
    """Restores a saved state, bit for bit. Poses and contacts can be read immediately."""
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    if len(state.integration) != mujoco.mj_stateSize(model, kind):
        raise EgoRecoveryError(
            f"saved state has {len(state.integration)} numbers, this model {mujoco.mj_stateSize(model, kind)}: "
            "restore it into the scene that it was saved from"
        )
    mujoco.mj_setState(model, data, state.integration, kind)
    refresh(model, data)


def refresh(model: MjModel, data: MjData) -> None:
    """Update poses, cameras, contacts and body velocities to the current positions (a step leaves them 2 ms behind).

    State and warm start do not change, so rendering does not affect a run.
    """
    mujoco.mj_fwdPosition(model, data)
    mujoco.mj_fwdVelocity(model, data)


def check(model: MjModel, data: MjData) -> None:
    """Raises if positions or velocities are implausible."""
    if np.isfinite(data.qpos).all() and np.abs(data.qvel).max(initial=0.0) < SPEED_LIMIT:  # no NaN is below it
        return
    fastest = int(np.argmax(np.abs(np.nan_to_num(data.qvel, nan=np.inf))))
    joint = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, int(model.dof_jntid[fastest]))
    raise PhysicsDiverged(
        f"physics diverged at t={data.time:.3f} s: joint {joint!r} moves at {data.qvel[fastest]:.3g} "
        f"(limit {SPEED_LIMIT:g}); {data.ncon} contacts"
    )
