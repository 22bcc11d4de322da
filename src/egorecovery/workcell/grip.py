"""What is in whose hand, asked the same way of a gripper and of a person's hand."""

import numpy as np

from egorecovery.episodes import Side
from egorecovery.workcell.physics import MjData, MjModel, mujoco

_FINGERS = ("finger_left", "finger_right")


def grip_name(side: Side, body: str) -> str:
    """The weld by which a person's hand holds an object; off until the fingers close on it."""
    return f"{side}/grip/{body}"


def held(model: MjModel, data: MjData, body: str) -> bool:
    """Whether either hand has hold of a body: a robot finger touches it, or a person's grip on it is active."""
    return any(held_by(model, data, body, side) for side in Side)


def held_by(model: MjModel, data: MjData, body: str, side: Side) -> bool:
    """The same for one hand."""
    weld = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_EQUALITY, grip_name(side, body))
    if weld >= 0 and data.eq_active[weld]:
        return True
    names = [f"{side}/{finger}" for finger in _FINGERS]
    fingers = [i for i in (mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name) for name in names) if i >= 0]
    if not fingers or not data.ncon:
        return False
    pairs = model.geom_bodyid[data.contact.geom]  # (contacts, 2) bodies
    with_body = (pairs == model.body(body).id).any(axis=1)
    return bool(np.isin(pairs[with_body], fingers).any())
