"""The measured physics options, whole-state snapshots, divergence."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from egorecovery.errors import EgoRecoveryError
from egorecovery.kinematics.bindings import MjData, MjModel, MjSpec, mujoco

TIMESTEP_S = 0.002
# Grasps held 10/10 with 0.1 mm slip in 10 s at these contact settings (design, section 7).
FRICTION = (1.0, 0.02, 0.001)  # sliding, torsional (m), rolling (m)
CONTACT_SOLREF = (0.004, 1.0)
CONTACT_SOLIMP = (0.95, 0.99, 0.001, 0.5, 2.0)
CONTACT_DIM = 4  # torsional friction, so that an object held at one spot does not swivel

SPEED_LIMIT = 200.0  # rad/s or m/s: nothing on a table gets there, a diverging solver does within a few steps


class PhysicsDiverged(EgoRecoveryError):
    """The simulation left the numbers: the attempt counts as a failure, the run continues."""


@dataclass(frozen=True, eq=False)
class PhysicsState:
    """Everything the next step depends on: time, positions, velocities, controls and the solver's warm start."""

    integration: Float64[ndarray, " N"]


def set_physics(spec: MjSpec) -> None:
    """The measured solver options, and contact defaults for every geom that is added later."""
    spec.compiler.degree = False  # angles and Euler angles in radians
    spec.option.timestep = TIMESTEP_S
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10.0
    # A silent reset to the initial pose would look like a robot that gave up; `check` reports the divergence instead.
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
    geom = spec.default.geom
    geom.condim = CONTACT_DIM
    geom.friction = FRICTION
    geom.solref = CONTACT_SOLREF
    geom.solimp = CONTACT_SOLIMP


def save(model: MjModel, data: MjData) -> PhysicsState:
    """The whole state, warm start included: without it a restored run differs in the last bits."""
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    integration = np.empty(mujoco.mj_stateSize(model, kind))
    mujoco.mj_getState(model, data, integration, kind)
    return PhysicsState(integration)


def restore(model: MjModel, data: MjData, state: PhysicsState) -> None:
    """Back to a saved state, bit for bit; poses and contacts can be read at once."""
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    if len(state.integration) != mujoco.mj_stateSize(model, kind):
        raise EgoRecoveryError(
            f"saved state has {len(state.integration)} numbers, this model {mujoco.mj_stateSize(model, kind)}: "
            "restore it into the scene that it was saved from"
        )
    mujoco.mj_setState(model, data, state.integration, kind)
    refresh(model, data)


def refresh(model: MjModel, data: MjData) -> None:
    """Bring poses, cameras, contacts and body velocities up to the current positions (a step leaves them 2 ms behind).

    Neither the state nor the warm start is touched, so a run that renders continues exactly like one that does not.
    """
    mujoco.mj_fwdPosition(model, data)
    mujoco.mj_fwdVelocity(model, data)


def check(model: MjModel, data: MjData) -> None:
    """Raise when the numbers are no longer those of a table-top."""
    if np.isfinite(data.qpos).all() and np.abs(data.qvel).max(initial=0.0) < SPEED_LIMIT:  # no NaN is below it
        return
    fastest = int(np.argmax(np.abs(np.nan_to_num(data.qvel, nan=np.inf))))
    joint = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, int(model.dof_jntid[fastest]))
    raise PhysicsDiverged(
        f"physics diverged at t={data.time:.3f} s: joint {joint!r} moves at {data.qvel[fastest]:.3g} "
        f"(limit {SPEED_LIMIT:g}); {data.ncon} contacts"
    )
