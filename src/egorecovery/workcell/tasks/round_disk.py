"""Round disk placement: seat the disk flush in the board's groove with the right arm, by its handle.

Failures after a placement attempt: the disk is still held, on the rim beside the groove (`held`); it was released there
and lies flat or tilted on the rim (`released`); or it slid off and lies beside the board (`fallen`).
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator

from egorecovery.episodes.vocabulary import ROUND_DISK
from egorecovery.workcell.grip import held
from egorecovery.workcell.kinematics import ToolPose, pointing_down
from egorecovery.workcell.maneuver import Script, World
from egorecovery.workcell.objects import pose_of, touching, yaw_quaternion
from egorecovery.workcell.physics import MjData, MjModel, MjSpec
from egorecovery.workcell.scene import Stage
from egorecovery.workcell.starts import Start
from egorecovery.workcell.tasks.round_disk_objects import (
    BOARD,
    DISK,
    HANDLE_WIDTH_M,
    PLATE_M,
    RIM_M,
    add_board,
    add_disk,
)
from egorecovery.workcell.tasks.round_disk_rules import FLUSH_M, DiskFacts, flush, lost, seated
from egorecovery.workcell.tasks.round_disk_script import (
    ARM,
    CLOSE_M,
    GRIP_M,
    OFF_CENTRE_M,
    OPEN_01,
    let_go,
    lower_onto_rim,
    recover,
    succeed,
)

Region = tuple[tuple[float, float], tuple[float, float]]
# x and y of the groove's centre. In a larger region, no disk could be within APART_M of the far corner.
BOARD_REGION_M: Region = ((0.03, 0.095), (-0.05, 0.05))
# Places of a disk on the table, where no hand, at home or above the board, hides it from the head camera.
DISK_REGION_M = ((-0.09, 0.05), (-0.095, 0.03))
NOMINAL_REGION_M = ((-0.09, -0.04), (-0.095, -0.04))  # initial places; a fallen disk lies elsewhere
# Distances by which attempts miss: clear misses up to where the disk leaves the rim, and near misses of policies.
MISSED_M = {
    "held": (0.013, 0.024),
    "released": (0.015, 0.024),
    "near_held": (0.004, 0.013),
    "near_released": (0.004, 0.015),
}
HELD = ("held", "near_held")
APART_M = (0.108, 0.17)  # between the centres of disk and groove: off the board at any rotation


class RoundDisk:
    task = ROUND_DISK
    graspable = (DISK,)
    target_objects = (DISK,)
    modes: ClassVar[Mapping[str, float]] = {
        "held": 0.4,  # the paper's start
        "released": 0.35,
        "fallen": 0.25,
    }
    near_misses: ClassVar[Mapping[str, float]] = {"near_held": 0.4, "near_released": 0.6}

    def __init__(self, *, off_centre_grips: bool = False) -> None:
        self._along_m = OFF_CENTRE_M if off_centre_grips else CLOSE_M

    def add_objects(self, spec: MjSpec) -> None:
        add_board(spec)
        add_disk(spec)

    def draw_initial(self, rng: Generator) -> Start:
        board_m = _draw(rng, BOARD_REGION_M)
        return self._start("initial", "nominal", board_m, _beside(board_m, NOMINAL_REGION_M, rng), rng)

    def draw_failure(self, rng: Generator, mode: str) -> Start:
        board_m = _draw(rng, BOARD_REGION_M)
        if mode == "fallen":
            return self._start("recovery", mode, board_m, _fallen(board_m, rng), rng)
        return self._start("recovery", mode, board_m, (rng.uniform(*MISSED_M[mode]), _any_way(rng)), rng)

    def _start(self, kind, mode: str, board_m: ndarray, disk: tuple[float, float], rng: Generator) -> Start:
        return Start(
            task=self.task.name,
            kind=kind,
            mode=mode,
            parameters={
                "board_x": float(board_m[0]),
                "board_y": float(board_m[1]),
                "board_yaw": float(rng.uniform(-0.3, 0.3)),
                "disk_away": float(disk[0]),  # from the groove; polar, so that values between two misses are misses ...
                "disk_way": float(disk[1]),  # ... and not the groove
                "disk_yaw": float(rng.uniform(-0.6, 0.6)),
                "tilt": float(rng.uniform(-0.1, 0.1)),  # of a disk in the hand, along its handle ...
                "roll": float(rng.uniform(-0.1, 0.1)),  # ... and across
                "hover": float(rng.uniform(0.05, 0.09)),  # of an empty hand above the rim
            },
        )

    def failure_descriptor(self, failure: Start) -> Float[ndarray, " G"]:
        """Direction and distance of the disk from the groove."""
        away_m, way_rad = failure.parameters["disk_away"], failure.parameters["disk_way"]
        return away_m * np.array([np.cos(way_rad), np.sin(way_rad)])

    def stage(self, stage: Stage, start: Start) -> None:
        at = start.parameters
        board_m = np.array([at["board_x"], at["board_y"]])
        disk_m = board_m + at["disk_away"] * np.array([np.cos(at["disk_way"]), np.sin(at["disk_way"])])
        stage.put(BOARD, [*board_m, 0.0], yaw_quaternion(at["board_yaw"]))
        if start.mode in MISSED_M:
            self._miss(stage, start, disk_m)
            return
        stage.put(DISK, [*disk_m, PLATE_M / 2], yaw_quaternion(at["disk_yaw"]))
        if start.mode == "fallen":
            hover_m = np.array([*board_m, RIM_M + GRIP_M + at["hover"]])
            stage.place(ARM, ToolPose(hover_m, pointing_down(at["board_yaw"])), OPEN_01)
        stage.settle(0.2)

    def _miss(self, stage: Stage, start: Start, disk_m: ndarray) -> None:
        """A placement attempt that ends beside the groove."""
        at = start.parameters
        hand = pointing_down(at["disk_yaw"], at["tilt"], at["roll"])
        plate = hand * pointing_down().inv()
        plate_m = np.array([*disk_m, RIM_M + PLATE_M + 0.008])
        stage.place(ARM, ToolPose(plate_m + plate.apply([0, 0, GRIP_M]), hand), OPEN_01)
        stage.put(DISK, plate_m, np.roll(plate.as_quat(), 1))
        stage.hold(ARM, DISK, HANDLE_WIDTH_M)
        stage.perform(lower_onto_rim(stage.world))
        if start.mode not in HELD:
            stage.perform(let_go(stage.world, at["hover"]))
            stage.settle(0.4)

    def facts(self, model: MjModel, data: MjData) -> DiskFacts:
        return DiskFacts(
            disk=pose_of(model, data, DISK),
            board=pose_of(model, data, BOARD),
            held=held(model, data, DISK),
            on_board=touching(model, data, DISK, BOARD),
        )

    def goal(self, facts: DiskFacts) -> bool:
        return seated(facts)

    def terminal(self, facts: DiskFacts, first: DiskFacts) -> str | None:
        return lost(facts, first)

    def invalid_reason(self, facts: DiskFacts, start: Start) -> str | None:
        if flush(facts):
            return "the disk is seated"
        if facts.held != (start.mode in HELD):
            return "the disk is not held" if start.mode in HELD else "the disk is held"
        if facts.on_board != (start.mode in MISSED_M):
            return "the disk lies on the board" if facts.on_board else "the disk is not on the board"
        if facts.on_board and facts.protrusion_m < 2 * FLUSH_M:
            return "the disk is as good as seated"
        if facts.disk.tilt_rad > np.deg2rad(20):
            return "the disk lies too steep for its handle to be grasped"
        return lost(facts, facts)

    def succeed(self, world: World[DiskFacts], rng: Generator) -> Script:
        return succeed(world, rng, self._along_m)

    def recover(self, world: World[DiskFacts], rng: Generator) -> Script:
        return recover(world, rng, self._along_m)


def _beside(board_m: Float[ndarray, "2"], region_m: Region, rng: Generator) -> tuple[float, float]:
    """Distance and direction from the groove of a disk that lies flat on the table, in view and reach."""
    while True:
        away_m, way_rad = rng.uniform(*APART_M), _any_way(rng)
        disk_m = board_m + away_m * np.array([np.cos(way_rad), np.sin(way_rad)])
        if _within(disk_m, region_m):
            return away_m, way_rad


def _fallen(board_m: Float[ndarray, "2"], rng: Generator) -> tuple[float, float]:
    """Whether a place is outside the initial region."""
    while True:
        away_m, way_rad = _beside(board_m, DISK_REGION_M, rng)
        if not _within(board_m + away_m * np.array([np.cos(way_rad), np.sin(way_rad)]), NOMINAL_REGION_M):
            return away_m, way_rad


def _within(point_m: Float[ndarray, "2"], region_m: Region) -> bool:
    return all(low < value < high for value, (low, high) in zip(point_m, region_m, strict=True))


def _any_way(rng: Generator) -> float:
    """The direction as an angle centred on the near side, so that values between two reachable angles are reachable."""
    return float(rng.uniform(0.0, 2 * np.pi))


def _draw(rng: Generator, region_m) -> Float[ndarray, "2"]:
    return np.array([rng.uniform(*bounds) for bounds in region_m])
