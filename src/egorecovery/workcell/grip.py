"""Grips: which hand holds which object, for grippers and human hands alike, and how a human hand grasps.

A gripper holds by friction. A human hand holds by a weld between its pinch point and the object, which is off until
the fingers have closed on the object.
"""

from collections.abc import Iterable

import numpy as np
from numpy import ndarray

from egorecovery.episodes import Side
from egorecovery.workcell.objects import touched_by
from egorecovery.workcell.physics import MjData, MjModel, MjSpec, mujoco

_FINGERS = ("finger_left", "finger_right")

# Less damped than contacts: the solver does not know a mocap body's speed, so damping makes the carried object lag
# (5 mm at full speed with ratio 1, 2 mm with this one).
WELD_SOLREF = (0.004, 0.7)
WELD_SOLIMP = (0.95, 0.99, 0.001, 0.5, 2.0)

_BEYOND_M = 0.06  # further from the pinch point than any finger


def held(model: MjModel, data: MjData, body: str) -> bool:
    """Whether a hand holds a body: a robot finger touches it, or a human grip on it is active."""
    return held_by(model, data, body, *Side)


def held_by(model: MjModel, data: MjData, body: str, *sides: Side) -> bool:
    """The same for the given hands."""
    if any(_welded(model, data, body, side) for side in sides):
        return True
    return not _fingers(model, sides).isdisjoint(touched_by(model, data, body))


def weld_name(side: Side, body: str) -> str:
    return f"{side}/grip/{body}"


def pinch_name(side: Side) -> str:
    """The name of the mocap body, and of its only geom, between thumb and index."""
    return f"{side}/pinch"


def add_welds(spec: MjSpec, bodies: Iterable[str]) -> None:
    """Adds one weld per hand and object that it can hold."""
    for body in bodies:
        for side in Side:
            weld = spec.add_equality(name=weld_name(side, body), type=mujoco.mjtEq.mjEQ_WELD, active=False)
            weld.objtype = mujoco.mjtObj.mjOBJ_BODY
            weld.name1, weld.name2 = pinch_name(side), body
            weld.solref, weld.solimp = WELD_SOLREF, WELD_SOLIMP


def take_hold(model: MjModel, data: MjData, side: Side, body: str) -> None:
    """Hold a body in its current pose in the hand, but centred between the fingers, which push it there."""
    pinch, thing, weld = data.body(pinch_name(side)), data.body(body), model.equality(weld_name(side, body)).id
    back, turn = np.empty(4), np.empty(4)
    mujoco.mju_negQuat(back, pinch.xquat)
    mujoco.mju_mulQuat(turn, back, thing.xquat)
    model.eq_data[weld, :3] = 0.0  # anchor: the body's own origin
    model.eq_data[weld, 3:6] = pinch.xmat.reshape(3, 3).T @ (thing.xpos - pinch.xpos)
    model.eq_data[weld, 4] -= _off_centre_m(model, data, side, body)
    model.eq_data[weld, 6:10] = turn
    data.eq_active[weld] = 1


def let_go(model: MjModel, data: MjData, side: Side, body: str) -> None:
    data.eq_active[model.equality(weld_name(side, body)).id] = 0


def within_grasp(model: MjModel, data: MjData, side: Side, bodies: Iterable[str], reach_m: float) -> str | None:
    """The body whose surface is nearest to the pinch point, if one is near enough."""
    distances_m = {body: _distance_m(model, data, side, body, 2 * reach_m) for body in bodies}
    nearest = min(distances_m, key=lambda body: distances_m[body], default=None)
    return nearest if nearest is not None and distances_m[nearest] <= reach_m else None


def _welded(model: MjModel, data: MjData, body: str, side: Side) -> bool:
    weld = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_EQUALITY, weld_name(side, body))
    return weld >= 0 and bool(data.eq_active[weld])


def _fingers(model: MjModel, sides: Iterable[Side]) -> set[int]:
    """Body numbers of the fingers. A human hand has none and gives -1, which touches nothing."""
    names = [f"{side}/{finger}" for side in sides for finger in _FINGERS]
    return {mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name) for name in names}


def _distance_m(model: MjModel, data: MjData, side: Side, body: str, farthest_m: float) -> float:
    probe = model.geom(pinch_name(side)).id
    return min(mujoco.mj_geomDistance(model, data, probe, geom, farthest_m, None) for geom in _geoms(model, body))


def _off_centre_m(model: MjModel, data: MjData, side: Side, body: str) -> float:
    """Offset of a body from the pinch's centre along the opening axis, by rays from both sides."""
    pinch = data.body(pinch_name(side))
    axis = pinch.xmat.reshape(3, 3)[:, 1]
    surface_m = []
    for way in (1.0, -1.0):
        start_m, inward = pinch.xpos + way * _BEYOND_M * axis, -way * axis
        hits_m = [_ray_m(model, data, geom, start_m, inward) for geom in _geoms(model, body)]
        met_m = [hit_m for hit_m in hits_m if 0 <= hit_m <= 2 * _BEYOND_M]
        if not met_m:
            return 0.0
        surface_m.append(way * (_BEYOND_M - min(met_m)))
    return float(sum(surface_m)) / 2


def _ray_m(model: MjModel, data: MjData, geom: int, start_m: ndarray, way: ndarray) -> float:
    return mujoco.mju_rayGeom(
        data.geom_xpos[geom], data.geom_xmat[geom], model.geom_size[geom], start_m, way, model.geom_type[geom], None
    )


def _geoms(model: MjModel, body: str) -> range:
    first = int(model.body(body).geomadr[0])
    return range(first, first + int(model.body(body).geomnum[0]))
