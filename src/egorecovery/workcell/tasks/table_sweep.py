"""Table sweep: sweep all trash into the dustpan with the broom (left), then pour it once into the bin (right).

The tools are in the hands from the start. Failures after a partial sweep, before pouring: pieces lie off the swept path
(`missed`), or are stuck at a corner of the pan's mouth where no stroke brings them in, so that pan and broom must
retreat and approach again (`at_lip`).
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator
from scipy.spatial.transform import Rotation

from egorecovery.episodes import Side
from egorecovery.episodes.vocabulary import TABLE_SWEEP
from egorecovery.workcell.maneuver import CorrectionDone, Script, World
from egorecovery.workcell.objects import yaw_quaternion
from egorecovery.workcell.physics import MjData, MjModel, MjSpec
from egorecovery.workcell.scene import Stage
from egorecovery.workcell.starts import Kind, Start
from egorecovery.workcell.tasks import table_sweep_rules as rules
from egorecovery.workcell.tasks.table_sweep_rules import SweepFacts, sweep_facts
from egorecovery.workcell.tasks.table_sweep_script import pour, sweep
from egorecovery.workcell.tasks.table_sweep_tools import (
    BROOM,
    BROOM_GRIP,
    FLOOR_M,
    HANDLE_M,
    PAN,
    PAN_GRIP,
    TRASH,
    add_things,
)

APART_M = 0.024  # between the centres of two pieces

# Seen from above in the pan's frame (x across, y out of the mouth).
Bounds = tuple[float, float]
Region = tuple[Bounds, Bounds]
SWEPT: Region = ((-0.026, 0.026), (0.03, 0.1))  # the path in front of the pan: where nominal trash lies
OFF_PATH: Region = ((0.042, 0.062), (0.05, 0.115))  # to either side of that path
AT_LIP: Region = ((0.043, 0.057), (0.008, 0.022))  # at either corner of the mouth, too far to the side for any stroke
INSIDE: Region = ((-0.030, 0.030), (-0.080, -0.030))


class TableSweep:
    task = TABLE_SWEEP
    graspable = (BROOM, PAN)
    target_objects = tuple(piece.name for piece in TRASH)
    modes: ClassVar[Mapping[str, float]] = {"missed": 0.6, "at_lip": 0.4}
    near_misses: ClassVar[Mapping[str, float]] = {}

    def add_objects(self, spec: MjSpec) -> None:
        add_things(spec)

    def draw_initial(self, rng: Generator) -> Start:
        broom_m = (rng.uniform(-0.03, 0.03), rng.uniform(0.135, 0.155))
        return self._start("initial", "nominal", [SWEPT] * len(TRASH), broom_m, rng)

    def draw_failure(self, rng: Generator, mode: str) -> Start:
        if mode == "missed":
            sides = rng.random(rng.integers(1, 4)) < 0.5
        else:  # a corner has room for one
            sides = rng.permutation([False, True])[: rng.integers(1, 3)]
        region = OFF_PATH if mode == "missed" else AT_LIP
        outside = [_mirrored(region) if mirrored else region for mirrored in sides]
        where = [INSIDE] * (len(TRASH) - len(outside)) + outside
        where = [where[number] for number in rng.permutation(len(TRASH))]
        broom_m = (rng.uniform(-0.02, 0.02), rng.uniform(0.005, 0.04))
        return self._start("recovery", mode, where, broom_m, rng)

    def _start(self, kind: Kind, mode: str, where: list[Region], broom_m, rng: Generator) -> Start:
        parameters = {
            "pan_x": rng.uniform(-0.065, -0.045),
            "pan_y": rng.uniform(-0.032, -0.014),
            "pan_yaw": rng.uniform(-0.1, 0.1),
            "broom_x": broom_m[0],
            "broom_y": broom_m[1],
            "broom_yaw": rng.uniform(-0.15, 0.15),
            "broom_lift": rng.uniform(0.035, 0.05),
        }
        for trash, place_m in zip(TRASH, _apart(where, rng), strict=True):
            parameters |= {f"{trash.name}_x": place_m[0], f"{trash.name}_y": place_m[1]}
            parameters[f"{trash.name}_yaw"] = rng.uniform(-np.pi, np.pi)
        numbers = {name: float(value) for name, value in parameters.items()}
        return Start(task=self.task.name, kind=kind, mode=mode, parameters=numbers)

    def failure_descriptor(self, failure: Start) -> Float[ndarray, " G"]:
        """The number of pieces on each side of the path, and their distance."""
        places_m = np.array([[failure.parameters[f"{trash.name}_{axis}"] for axis in "xy"] for trash in TRASH])
        left = places_m[places_m[:, 1] > 0]
        return np.array([(left[:, 0] < 0).sum(), (left[:, 0] > 0).sum(), left[:, 1].mean()])

    def stage(self, stage: Stage, start: Start) -> None:
        at = start.parameters
        pan_m, turn = np.array([at["pan_x"], at["pan_y"], 0.0]), Rotation.from_euler("z", at["pan_yaw"])
        broom_m = pan_m + turn.apply([at["broom_x"], at["broom_y"], at["broom_lift"]])
        broom_yaw_rad = at["pan_yaw"] + at["broom_yaw"]
        stage.place(Side.LEFT, BROOM_GRIP.hand(broom_m, Rotation.from_euler("z", broom_yaw_rad)), 1.0)
        stage.place(Side.RIGHT, PAN_GRIP.hand(pan_m, turn), 1.0)
        stage.put(BROOM, broom_m, yaw_quaternion(broom_yaw_rad))
        stage.put(PAN, pan_m, yaw_quaternion(at["pan_yaw"]))
        for trash in TRASH:
            x_m, y_m = at[f"{trash.name}_x"], at[f"{trash.name}_y"]
            floor_m = FLOOR_M + 0.001 if y_m < 0 else 0.0
            place_m = pan_m + turn.apply([x_m, y_m, trash.height_m + floor_m])
            stage.put(trash.name, place_m, yaw_quaternion(at[f"{trash.name}_yaw"]))
        stage.hold(Side.LEFT, BROOM, HANDLE_M)
        stage.hold(Side.RIGHT, PAN, HANDLE_M)

    def facts(self, model: MjModel, data: MjData) -> SweepFacts:
        return sweep_facts(model, data)

    def goal(self, facts: SweepFacts) -> bool:
        return rules.goal(facts)

    def terminal(self, facts: SweepFacts, first: SweepFacts) -> str | None:
        return rules.terminal(facts)

    def invalid_reason(self, facts: SweepFacts, start: Start) -> str | None:
        if not (facts.broom_held and facts.pan_held):
            return "a tool is not in the hand"
        wanted = [start.parameters[f"{trash.name}_y"] < 0 for trash in TRASH]
        for trash, inside, in_pan, on_table in zip(TRASH, wanted, facts.in_pan, facts.on_table, strict=True):
            if not (in_pan if inside else on_table):
                return f"{trash.name} is not {'in the pan' if inside else 'on the table'}"
        return rules.terminal(facts)

    def succeed(self, world: World[SweepFacts], rng: Generator) -> Script:
        yield from sweep(world, rng)
        yield from pour(world, rng)

    def recover(self, world: World[SweepFacts], rng: Generator) -> Script:
        """The correction ends with all trash in the pan, before it is lifted."""
        yield from sweep(world, rng)
        yield CorrectionDone()
        yield from pour(world, rng)


def _mirrored(region: Region) -> Region:
    """A region mirrored at the pan's axis."""
    (low_m, high_m), ahead_m = region
    return (-high_m, -low_m), ahead_m


def _apart(where: list[Region], rng: Generator) -> list[tuple[float, float]]:
    """A random place in each region, without touching pieces."""
    while True:
        places_m = np.array([[rng.uniform(*bounds) for bounds in region] for region in where])
        gaps_m = np.linalg.norm(places_m[:, None] - places_m, axis=-1) + np.eye(len(where))
        if gaps_m.min() > APART_M:
            return [(x_m, y_m) for x_m, y_m in places_m]
