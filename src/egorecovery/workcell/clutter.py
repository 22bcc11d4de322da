"""Distractor objects, for tests outside the training distribution."""

import numpy as np
from numpy.random import Generator

from egorecovery.workcell.arena import SpecAddition
from egorecovery.workcell.objects import put, yaw_quaternion
from egorecovery.workcell.physics import MjData, MjModel, MjSpec, mujoco

DISTRACTORS = ("distractor_0", "distractor_1", "distractor_2", "distractor_3")
# At the edge of the head view, away from all tasks' objects: clutter may distract the policy, not block the robot.
PLACES_M = ((0.16, 0.14), (0.17, -0.12), (0.18, 0.03), (-0.14, 0.0))


def with_clutter(add_objects: SpecAddition) -> SpecAddition:
    """The task's objects and four distractors."""

    def add(spec: MjSpec) -> None:
        add_objects(spec)
        shapes = (mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CYLINDER)
        for index, name in enumerate(DISTRACTORS):
            spec.add_material(name=name, rgba=(0.5, 0.5, 0.5, 1))
            body = spec.worldbody.add_body(name=name, pos=(*PLACES_M[index], 0.02))
            body.add_freejoint()
            body.add_geom(type=shapes[index % 2], size=(0.014, 0.018, 0.016), mass=0.08, material=name)

    return add


def scatter(model: MjModel, data: MjData, rng: Generator) -> None:
    """Puts each distractor near its place, with a new rotation and colour."""
    for name, place_m in zip(DISTRACTORS, PLACES_M, strict=True):
        position_m = np.array([*(np.array(place_m) + rng.uniform(-0.012, 0.012, 2)), 0.02])
        put(model, data, name, position_m, yaw_quaternion(float(rng.uniform(-np.pi, np.pi))))
        model.mat_rgba[model.mat(name).id, :3] = rng.uniform(0.15, 0.9, 3)
