"""Pictures without arms and hands of both embodiments. Fingertips are drawn as dots.

Pictures of people and robots then differ only in how things move.
"""

from typing import Any

import numpy as np

from egorecovery.capture.hidden_pictures import DOT_RGB
from egorecovery.episodes import Side
from egorecovery.kinematics.bindings import MjData, MjModel, mujoco

HIDDEN_GROUP = 5  # the group of geoms that are not drawn
DOT_RADIUS_M = 0.007  # 3.5 of 96 pixels in the head view
FINGERTIPS = ("fingertip_a", "fingertip_b")  # sites where fingers touch objects, on arms and hands


def hide(model: MjModel) -> None:
    """Stops drawing arms and hands. Objects stay visible."""
    for geom in range(model.ngeom):
        body = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, model.geom_bodyid[geom]) or ""
        if body.startswith(tuple(f"{side}/" for side in Side)):
            model.geom_group[geom] = HIDDEN_GROUP


def add_dots(scene: Any, model: MjModel, data: MjData) -> None:
    """Adds fingertip dots to a scene that will be drawn."""
    for side, colour in DOT_RGB.items():
        for name in FINGERTIPS:
            dot = scene.geoms[scene.ngeom]
            mujoco.mjv_initGeom(
                dot,
                mujoco.mjtGeom.mjGEOM_SPHERE,
                np.full(3, DOT_RADIUS_M),
                data.site_xpos[model.site(f"{side}/{name}").id],
                np.eye(3).ravel(),
                np.array([*colour, 1.0], np.float32),
            )
            scene.ngeom += 1
