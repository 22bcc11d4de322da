"""The disk with its handle, and the board with its groove."""

import numpy as np

from egorecovery.workcell.objects import yaw_quaternion
from egorecovery.workcell.physics import MjSpec, mujoco

DISK, BOARD = "disk", "board"

DISK_RADIUS_M = 0.03
PLATE_M = 0.008  # thick, as deep as the groove: a seated disk is flush
HANDLE_M = (0.026, 0.014, 0.036)  # along, across the fingers, up
HANDLE_WIDTH_M = HANDLE_M[1]

CLEARANCE_M = 0.004  # at 3 mm robot policies seated a disk in one attempt of five, with any data (docs/log.md)
FLOOR_M = 0.006  # of the groove above the table
RIM_M = FLOOR_M + PLATE_M
BOARD_HALF_M = 0.05
RIM_WIDTH_M = 0.011
RING_BOXES = 16
RIM_FRICTION = (0.6, 0.02, 0.001)  # low: at 1.0 a tilted disk wedges, and a hand lifts the board with it

BOX, CYLINDER = mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CYLINDER


def add_board(spec: MjSpec) -> None:
    """A free board as heavy as a loaded fixture. It stands by its weight, and a push displaces it."""
    _material(spec, "board", (0.78, 0.60, 0.38, 1.0))
    _material(spec, "board_rim", (0.55, 0.36, 0.19, 1.0))
    _material(spec, "groove", (0.24, 0.15, 0.09, 1.0))
    board = spec.worldbody.add_body(name=BOARD, pos=(0.03, -0.02, 0.0))
    board.add_freejoint()
    half_m = (BOARD_HALF_M, BOARD_HALF_M, FLOOR_M / 2)
    board.add_geom(type=BOX, size=half_m, pos=(0, 0, FLOOR_M / 2), mass=0.9, material="board")
    inner_m = DISK_RADIUS_M + CLEARANCE_M
    middle_m, outer_m = inner_m + RIM_WIDTH_M / 2, inner_m + RIM_WIDTH_M
    for way_rad in np.arange(RING_BOXES) * 2 * np.pi / RING_BOXES:
        box = board.add_geom(
            type=BOX,
            size=(RIM_WIDTH_M / 2, outer_m * np.tan(np.pi / RING_BOXES), PLATE_M / 2),
            pos=(middle_m * np.cos(way_rad), middle_m * np.sin(way_rad), FLOOR_M + PLATE_M / 2),
            quat=yaw_quaternion(way_rad),
            mass=0.1 / RING_BOXES,
            material="board_rim",
        )
        box.friction, box.priority = (
            RIM_FRICTION,
            1,
        )  # for all contacts; with equal priority MuJoCo would take the larger friction
    paint = board.add_geom(type=CYLINDER, size=(inner_m + 0.001, 0.0002, 0), pos=(0, 0, FLOOR_M), mass=0)
    paint.material, paint.contype, paint.conaffinity = "groove", 0, 0


def add_disk(spec: MjSpec) -> None:
    _material(spec, "disk", (0.14, 0.34, 0.72, 1.0))
    _material(spec, "handle", (0.90, 0.42, 0.10, 1.0))
    disk = spec.worldbody.add_body(name=DISK, pos=(0.0, -0.13, PLATE_M / 2))
    disk.add_freejoint()
    disk.add_geom(type=CYLINDER, size=(DISK_RADIUS_M, PLATE_M / 2, 0), mass=0.06, material="disk")
    centre_m = (0, 0, PLATE_M / 2 + HANDLE_M[2] / 2)
    disk.add_geom(type=BOX, size=np.divide(HANDLE_M, 2), pos=centre_m, mass=0.02, material="handle")


def _material(spec: MjSpec, name: str, rgba: tuple[float, float, float, float]) -> None:
    spec.add_material(name=name, rgba=rgba, specular=0.1, shininess=0.1)
