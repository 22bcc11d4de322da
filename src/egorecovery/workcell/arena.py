"""The arena: a table, a floor, lights, three cameras, and an embodiment.

Workspace frame (the model's world frame, metres): the origin is the point of the table top that both arms reach best, x
points forward (away from the bases), y to the left, z up. The bases stand at x = -0.30, y = +0.25 and -0.25.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from egorecovery.episodes import Camera, Side
from egorecovery.errors import RecipeError
from egorecovery.workcell.arm import add_arm, add_materials
from egorecovery.workcell.physics import MjModel, MjSpec, mujoco, set_physics

SpecAddition = Callable[[MjSpec], None]  # adds bodies, materials, actuators and so on to an arena being built

BASE_IN_WORKSPACE_M = {Side.LEFT: (-0.30, 0.25, 0.0), Side.RIGHT: (-0.30, -0.25, 0.0)}
TABLE_CENTRE_M = (0.08, 0.0)
TABLE_HALF_M = (0.52, 0.62, 0.02)
FLOOR_M = -0.75  # below the table top


@dataclass(frozen=True, kw_only=True)
class HeadCamera:
    """An egocentric view: behind the bases, between the arms, looking down at the work."""

    position_m: tuple[float, float, float] = (-0.48, 0.0, 0.84)
    target_m: tuple[float, float, float] = (0.02, 0.0, 0.03)
    fovy_deg: float = 22.5  # 0.38 m across at the target: a 40 mm cube spans 10 of 96 pixels

    @property
    def xyaxes(self) -> tuple[float, ...]:
        """The image's right and up axes in the workspace."""
        gaze = np.subtract(self.target_m, self.position_m)
        right = np.cross(gaze, (0.0, 0.0, 1.0))
        up = np.cross(right, gaze)
        return (*(right / np.linalg.norm(right)), *(up / np.linalg.norm(up)))


HEAD_CAMERA = HeadCamera()


def add_robot_arms(spec: MjSpec) -> None:
    """The robot embodiment: both arms with grippers and wrist cameras."""
    add_materials(spec)
    for side, base_m in BASE_IN_WORKSPACE_M.items():
        add_arm(spec, side, base_m)


def add_nothing(spec: MjSpec) -> None:
    """An arena without objects."""


def build_arena(add_objects: SpecAddition = add_nothing, embodiment: SpecAddition = add_robot_arms) -> MjModel:
    """The compiled arena. The embodiment comes first, so its joints and actuators come first in `qpos` and `ctrl`.

    Another embodiment (hands) shares table, light and head camera, and must add `left_wrist` and `right_wrist` cameras
    (`arm.add_wrist_camera`).
    """
    spec = arena_spec()
    embodiment(spec)
    add_objects(spec)
    missing = [camera for camera in Camera if spec.camera(str(camera)) is None]
    if missing:
        raise RecipeError(f"the embodiment brings no camera {', '.join(missing)}: add it with arm.add_wrist_camera")
    return spec.compile()


def arena_spec() -> MjSpec:
    """The spec of table, floor, lights and head camera, with physics and rendering options."""
    spec = mujoco.MjSpec()
    set_physics(spec)
    _set_rendering(spec)
    _add_room(spec)
    camera = spec.worldbody.add_camera(name=str(Camera.HEAD), pos=HEAD_CAMERA.position_m, fovy=HEAD_CAMERA.fovy_deg)
    camera.alt.type = mujoco.mjtOrientation.mjORIENTATION_XYAXES
    camera.alt.xyaxes = HEAD_CAMERA.xyaxes
    return spec


def _set_rendering(spec: MjSpec) -> None:
    """Options for fast, portable rendering: no shadows, no multisampling, coarse curves."""
    quality = spec.visual.quality
    quality.shadowsize, quality.offsamples = 0, 0
    quality.numslices, quality.numstacks, quality.numquads = 12, 6, 1
    window = spec.visual.global_
    window.offwidth, window.offheight = 1280, 1280
    # Fixed, so that clipping planes and depth do not depend on the objects.
    spec.stat.extent, spec.stat.center = 1.0, (0.0, 0.0, 0.0)
    spec.visual.map.znear, spec.visual.map.zfar = 0.01, 6.0
    light = spec.visual.headlight
    light.ambient, light.diffuse, light.specular = (0.42,) * 3, (0.22,) * 3, (0.0,) * 3


def _add_room(spec: MjSpec) -> None:
    sky = spec.add_texture(
        name="sky", type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT
    )
    sky.rgb1, sky.rgb2, sky.width, sky.height = (0.86, 0.89, 0.92), (0.62, 0.67, 0.73), 64, 384
    spec.add_material(name="table", rgba=(0.58, 0.62, 0.65, 1), specular=0.1, shininess=0.1)
    spec.add_material(name="floor", rgba=(0.72, 0.70, 0.67, 1), specular=0.0, shininess=0.0)
    room = spec.worldbody
    room.add_light(
        name="key",
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=(-0.4, 0.8, 2.0),
        dir=(0.25, -0.4, -1.0),
        diffuse=(0.5,) * 3,
        specular=(0.15,) * 3,
        ambient=(0.0,) * 3,
        castshadow=False,
    )
    room.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        pos=(0, 0, FLOOR_M),
        size=(3, 3, 0.1),
        material="floor",
        contype=0,  # objects collide with it; arms, whose bits differ, cannot reach it
    )
    room.add_geom(
        name="table",
        type=mujoco.mjtGeom.mjGEOM_BOX,
        pos=(*TABLE_CENTRE_M, -TABLE_HALF_M[2]),
        size=TABLE_HALF_M,
        material="table",
    )
