"""The objects of the sweeping task: broom, dustpan, bin and trash, and the grips of the two tools.

Frames: x across, y out of the pan's mouth (so a stroke goes along -y), z up. The broom's origin is the centre of its
bristles' lower edge, the pan's the centre of its lip. Both handles lean away from the work, which keeps the hands apart
and lets the pan tilt both ways from the middle of the wrist's range.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.workcell.kinematics import ToolPose, pointing_down
from egorecovery.workcell.physics import MjSpec, mujoco

BROOM, PAN, BIN = "broom", "dustpan", "bin"
HANDLE_M = 0.016  # square, and thus the width between the fingers

BROOM_HALF_M = (0.036, 0.018)  # half size of the bristles across and along; narrower than the pan's mouth
BROOM_EARS_RAD = 0.6  # the bristles' ends are bent forward, which keeps trash from slipping off sideways
BRISTLES_M = 0.030

PAN_HALF_M = 0.046  # inside, across
PAN_DEPTH_M = 0.095  # inside, from lip to rear wall
PAN_WALL_M = 0.028  # height; lower than the bristles
WALLS_BACK_M = 0.026  # side walls begin this far behind the lip, beyond the broom, so that no piece is pinched
FLOOR_M = 0.003
RAMP_RAD = np.deg2rad(10)
LIP_DEPTH_M = 0.002  # depth of the ramp's end below the table
RAMP_BIT = 4  # the ramp collides with trash only

BIN_CENTRE_M = (0.136, -0.045)
BIN_HALF_M = 0.058  # inside
BIN_HEIGHT_M = 0.045


@dataclass(frozen=True, kw_only=True)
class Grip:
    """The grip of a tool, in the tool's frame."""

    foot_m: tuple[float, float, float]  # where the handle joins the tool
    lean_rad: float  # of the handle, positive towards +y
    along_m: float  # from the foot to the fingers

    @property
    def axis(self) -> Float[ndarray, "3"]:
        return np.array([0.0, np.sin(self.lean_rad), np.cos(self.lean_rad)])

    def hand(self, position_m: ndarray, rotation: Rotation) -> ToolPose:
        """The hand's pose for a pose of the tool."""
        point_m = np.asarray(self.foot_m) + self.along_m * self.axis
        return ToolPose(position_m + rotation.apply(point_m), rotation * pointing_down(roll_rad=-self.lean_rad))


BROOM_GRIP = Grip(foot_m=(0.0, 0.0, 0.040), lean_rad=0.35, along_m=0.075)
PAN_GRIP = Grip(foot_m=(0.0, -0.098, 0.026), lean_rad=-0.5, along_m=0.075)


@dataclass(frozen=True)
class Trash:
    """One piece. Round ones roll. All are slippery enough to slide out of a pan tilted by half a radian."""

    name: str
    shape: Any
    half_m: tuple[float, float, float]  # in MuJoCo's convention
    height_m: float  # of its centre when lying
    rgb: tuple[float, float, float]


_TYPE = mujoco.mjtGeom
TRASH = (
    Trash("paper_ball", _TYPE.mjGEOM_SPHERE, (0.009, 0.0, 0.0), 0.009, (0.95, 0.95, 0.92)),
    Trash("red_block", _TYPE.mjGEOM_BOX, (0.008, 0.008, 0.008), 0.008, (0.80, 0.12, 0.12)),
    Trash("blue_cap", _TYPE.mjGEOM_CYLINDER, (0.0095, 0.0048, 0.0), 0.0048, (0.12, 0.28, 0.78)),
    Trash("orange_peel", _TYPE.mjGEOM_BOX, (0.010, 0.007, 0.006), 0.006, (0.95, 0.50, 0.08)),
    Trash("green_bead", _TYPE.mjGEOM_SPHERE, (0.008, 0.0, 0.0), 0.008, (0.15, 0.55, 0.22)),
)
TRASH_RADIUS_M = 0.0125  # the largest radius of a piece from above


def add_things(spec: MjSpec) -> None:
    _set_solver(spec)
    for name, rgb in (
        ("wood", (0.62, 0.42, 0.22)),
        ("bristles", (0.90, 0.78, 0.38)),
        ("pan_plastic", (0.10, 0.45, 0.62)),
        ("bin_plastic", (0.22, 0.24, 0.26)),
    ):
        spec.add_material(name=name, rgba=(*rgb, 1), specular=0.1, shininess=0.1)
    _add_broom(spec)
    _add_pan(spec)
    _add_bin(spec)
    for number, trash in enumerate(TRASH):
        spec.add_material(name=trash.name, rgba=(*trash.rgb, 1), specular=0.1, shininess=0.1)
        body = spec.worldbody.add_body(name=trash.name, pos=(-0.1, 0.05 + 0.03 * number, trash.height_m))
        body.add_freejoint()
        # Priority, so that the trash's friction applies on all surfaces. Six contact dimensions where it can roll.
        geom = body.add_geom(type=trash.shape, size=trash.half_m, mass=0.004, material=trash.name, priority=2)
        geom.friction, geom.condim = (0.45, 0.01, 0.003), 4 if trash.shape == _TYPE.mjGEOM_BOX else 6
        geom.contype = geom.conaffinity = 1 | RAMP_BIT


def _set_solver(spec: MjSpec) -> None:
    """Solver options for seven free bodies in contact: the same physics, more exact in 70% of the time."""
    spec.option.jacobian = mujoco.mjtJacobian.mjJAC_SPARSE
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_ISLAND
    # Relative to the mean inertia, which the arms dominate. At 1e-8 pieces of 4 g jitter, which costs solver steps.
    spec.option.tolerance = 1e-10


def _add_broom(spec: MjSpec) -> None:
    broom = _tool(spec, BROOM, (0.0, 0.2, 0.0))
    middle_m, ear_m = np.array([0.018, 0.008, BRISTLES_M / 2]), np.array([0.0105, 0.007, BRISTLES_M / 2])
    bristles = [_box(broom, (0, 0, middle_m[2]), middle_m, "bristles", mass_kg=0.01)]
    for way in (-1, 1):
        bend = Rotation.from_euler("z", -way * BROOM_EARS_RAD)
        centre_m = np.array([way * middle_m[0], 0, middle_m[2]]) + bend.apply([way * ear_m[0], 0, 0])
        bristles.append(_box(broom, centre_m, ear_m, "bristles", mass_kg=0.003))
        bristles[-1].quat = np.roll(bend.as_quat(), 1)
    for part in bristles:
        # Real bristles bend. Stiff ones must slip instead, or they catch and twist the broom out of the grip.
        part.friction, part.priority = (0.2, 0.005, 0.0001), 3
    _box(broom, (0, -0.002, BRISTLES_M + 0.006), (0.036, 0.012, 0.006), "wood", mass_kg=0.015)
    _add_handle(broom, BROOM_GRIP, "wood")


def _add_pan(spec: MjSpec) -> None:
    pan = _tool(spec, PAN, (0.0, -0.1, 0.0))
    wall_m = 0.0015  # half
    slope = np.array([0, -np.cos(RAMP_RAD), np.sin(RAMP_RAD)])  # up the ramp
    back_m = FLOOR_M / np.tan(RAMP_RAD)  # where the ramp ends and the floor begins
    outside_m = PAN_HALF_M + 2 * wall_m
    # The ramp starts below the table, so that there is no step even if the hand lifts the pan slightly. A step would
    # stop a box, and a thin edge would throw it.
    length_m, thick_m = (FLOOR_M + LIP_DEPTH_M) / np.sin(RAMP_RAD), 0.0015
    middle_m = np.array([0, -back_m, FLOOR_M]) - length_m / 2 * slope - thick_m * np.cross([1, 0, 0], -slope)
    ramp = _box(pan, middle_m, (outside_m, length_m / 2, thick_m), "pan_plastic", mass_kg=0.004)
    ramp.contype = ramp.conaffinity = RAMP_BIT
    # Rubber: a bead that stops on the slope must not creep out of a trembling pan.
    ramp.friction, ramp.condim, ramp.priority = (0.45, 0.01, 0.012), 6, 3
    ramp.quat = (np.cos(RAMP_RAD / 2), -np.sin(RAMP_RAD / 2), 0, 0)
    floor_m = (PAN_DEPTH_M - back_m) / 2
    _box(pan, (0, -back_m - floor_m, FLOOR_M / 2), (outside_m, floor_m, FLOOR_M / 2), "pan_plastic", mass_kg=0.02)
    # Walls end above the table. Flush with the floor, they would triple the pan's contacts and slow the simulation.
    high_m, half_high_m = (PAN_WALL_M + 0.001) / 2, (PAN_WALL_M - 0.001) / 2
    for way in (-1, 1):
        side_m = (way * (PAN_HALF_M + wall_m), -(PAN_DEPTH_M + WALLS_BACK_M) / 2, high_m)
        _box(pan, side_m, (wall_m, (PAN_DEPTH_M - WALLS_BACK_M) / 2, half_high_m), "pan_plastic", mass_kg=0.008)
    rear_m = (0, -PAN_DEPTH_M - wall_m, high_m)
    _box(pan, rear_m, (outside_m, wall_m, half_high_m), "pan_plastic", mass_kg=0.008)
    _add_handle(pan, PAN_GRIP, "pan_plastic")


def _add_bin(spec: MjSpec) -> None:
    """The bin, which is too heavy to be pushed."""
    stand = spec.worldbody.add_body(name=BIN, pos=(*BIN_CENTRE_M, 0))
    wall_m = 0.002
    reach_m = BIN_HALF_M + wall_m
    _box(stand, (0, 0, 0.001), (reach_m, reach_m, 0.001), "bin_plastic")
    for way in (-1, 1):
        _box(stand, (way * reach_m, 0, BIN_HEIGHT_M / 2), (wall_m, reach_m + wall_m, BIN_HEIGHT_M / 2), "bin_plastic")
        _box(stand, (0, way * reach_m, BIN_HEIGHT_M / 2), (reach_m - wall_m, wall_m, BIN_HEIGHT_M / 2), "bin_plastic")


def _tool(spec: MjSpec, name: str, position_m) -> Any:
    body = spec.worldbody.add_body(name=name, pos=position_m)
    body.add_freejoint()
    return body


def _add_handle(body: Any, grip: Grip, material: str) -> None:
    half_m = (grip.along_m + 0.022) / 2
    handle = _box(
        body, np.asarray(grip.foot_m) + half_m * grip.axis, (HANDLE_M / 2, HANDLE_M / 2, half_m), material, 0.02
    )
    handle.quat = (np.cos(grip.lean_rad / 2), -np.sin(grip.lean_rad / 2), 0, 0)
    handle.condim, handle.priority = 3, 1  # flat on flat: four contact points per finger prevent rotation


def _box(body: Any, centre_m, half_m, material: str, mass_kg: float = 0.0) -> Any:
    return body.add_geom(type=_TYPE.mjGEOM_BOX, pos=centre_m, size=half_m, mass=mass_kg, material=material)
