"""Cup brushing: the right hand holds a tube; the left one inserts a brush and releases it.

The paper requires that the brush neither pops out nor tilts out of the tube for 3 s. A held brush could do neither, so
here it must be released. The tube may stay in the hand, which the paper does not exclude.

Failures after an insertion attempt, with both objects in the hands: the brush is beside the tube (`beside`), its tip is
on the rim (`on_rim`), or it was withdrawn at an angle (`retreated`). In all of them it leans in the grip.
"""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator
from scipy.spatial.transform import Rotation

from egorecovery.episodes import Side
from egorecovery.episodes.vocabulary import CUP_BRUSH
from egorecovery.workcell.grip import held
from egorecovery.workcell.maneuver import Script, Waypoint, World
from egorecovery.workcell.objects import pose_of, touching, yaw_quaternion
from egorecovery.workcell.physics import MjData, MjModel, MjSpec
from egorecovery.workcell.scene import Stage
from egorecovery.workcell.starts import Start
from egorecovery.workcell.tasks import cup_brush_script as script
from egorecovery.workcell.tasks.cup_brush_objects import (
    BORE_M,
    BRUSH,
    HANDLE_WIDTH_M,
    HEAD_RADIUS_M,
    STAND,
    TUBE,
    TUBE_M,
    TUBE_WIDTH_M,
    UPRIGHT_RAD,
    BrushFacts,
    add_objects,
    inserted,
    lost,
)

TUBE_REGION_M = ((-0.02, 0.02), (-0.03, 0.008))  # x and y
STAND_REGION_M = ((-0.03, 0.05), (0.085, 0.125))
STAND_LEAN_RAD = 0.025  # a brush balanced on its tip would fall against the stand at a random time
STILL_MPS = 0.02
ATTEMPT_M = 0.01  # height of the tip above the rim where a failing attempt begins
PRESS_M = 0.002  # depth by which it is pressed against the rim
# Offsets of the tip from the axis: about half of the head over the wall, or the whole head beside the tube (34 mm).
# `near_rim` is the small miss with a straight brush that policies make.
OFFSETS_M = {"beside": (0.036, 0.06), "on_rim": (0.013, 0.022), "retreated": (0.025, 0.055), "near_rim": (0.007, 0.014)}
# Directions of the miss, away from the right hand, whose fingers are below the rim and whose camera is above it.
WAYS_RAD = {
    "beside": (0.1, 1.7),
    "on_rim": (-np.pi, np.pi),
    "retreated": (-0.9, 2.7),
    "near_rim": (-np.pi, np.pi),
}
HEIGHTS_M = {  # heights of the tip above the rim
    "beside": (-0.035, -0.01),
    "on_rim": (0.0, 0.0),
    "retreated": (0.008, 0.024),
    "near_rim": (0.0, 0.0),
}
LEANS_RAD = (0.15, 0.4)  # in the grip, in either direction; an ordinary grasp holds the brush straight
STRAIGHT_RAD = (0.0, 0.15)
TILTS_RAD = {"beside": 0.12, "on_rim": 0.15, "retreated": 0.15, "near_rim": 0.1}
ON_RIM = ("on_rim", "near_rim")


class CupBrush:
    task = CUP_BRUSH
    graspable = (BRUSH, TUBE)
    target_objects = (BRUSH,)
    modes: ClassVar[Mapping[str, float]] = {"beside": 0.4, "on_rim": 0.35, "retreated": 0.25}
    near_misses: ClassVar[Mapping[str, float]] = {"near_rim": 1.0}

    def add_objects(self, spec: MjSpec) -> None:
        add_objects(spec)

    def draw_initial(self, rng: Generator) -> Start:
        parameters = _draw_scene(rng) | {"brush_way": float(rng.uniform(-np.pi, np.pi))}  # it leans in its stand
        return Start(task=self.task.name, kind="initial", mode="nominal", parameters=parameters)

    def draw_failure(self, rng: Generator, mode: str) -> Start:
        parameters = _draw_scene(rng) | {
            "offset": float(rng.uniform(*OFFSETS_M[mode])),
            "way": float(rng.uniform(*WAYS_RAD[mode])),
            "height": float(rng.uniform(*HEIGHTS_M[mode])),
            "tilt_x": float(TILTS_RAD[mode] * rng.uniform(-1, 1)),  # of the brush, about axes of the workspace
            "tilt_y": float(TILTS_RAD[mode] * rng.uniform(-1, 1)),
            "lean": float(
                rng.uniform(*(STRAIGHT_RAD if mode == "near_rim" else LEANS_RAD))
            ),  # of the brush in the hand ...
            "side": float(
                rng.choice([-1, 1])
            ),  # ... to this side; separate, so that values between two leans are leans
            "grip": float(script.GRIP_M + rng.uniform(-0.004, 0.004)),
        }
        return Start(task=self.task.name, kind="recovery", mode=mode, parameters=parameters)

    def failure_descriptor(self, failure: Start) -> Float[ndarray, " G"]:
        """The tip's offset from the tube's axis, and the brush's lean in the hand."""
        at = failure.parameters
        return np.array([at["offset"] * np.cos(at["way"]), at["offset"] * np.sin(at["way"]), at["lean"] * at["side"]])

    def stage(self, stage: Stage, start: Start) -> None:
        at = start.parameters
        stand_m = [at["stand_x"], at["stand_y"], 0.0]
        stage.put(STAND, stand_m)
        stage.put(TUBE, [at["tube_x"], at["tube_y"], 0.0], yaw_quaternion(at["tube_yaw"]))
        if start.kind == "initial":
            way = np.array([np.cos(at["brush_way"]), np.sin(at["brush_way"]), 0.0])
            leaning = Rotation.from_rotvec(STAND_LEAN_RAD * way) * Rotation.from_euler("z", at["brush_yaw"])
            stage.put(BRUSH, stand_m, np.roll(leaning.as_quat(), 1))
            stage.settle(0.3)
            return
        tube_m = stage.world.facts().tube.position_m
        stage.place(Side.RIGHT, script.tube_in_hand(tube_m))
        _put_brush_in_hand(stage, at, max(at["height"], ATTEMPT_M))
        stage.hold(Side.LEFT, BRUSH, HANDLE_WIDTH_M)
        stage.perform(iter([Waypoint(reaches=script.take_tube(tube_m), straight=True, wait_s=0.2)]))
        if start.mode != "retreated":
            press_m = PRESS_M if start.mode in ON_RIM else 0.0
            stage.perform(iter([script.lower(stage.world, ATTEMPT_M - at["height"] + press_m, pace=0.6)]))
        stage.settle(0.2)

    def facts(self, model: MjModel, data: MjData) -> BrushFacts:
        return BrushFacts(
            tube=pose_of(model, data, TUBE),
            brush=pose_of(model, data, BRUSH),
            brush_held=held(model, data, BRUSH),
            tube_held=held(model, data, TUBE),
            touching=touching(model, data, BRUSH, TUBE),
        )

    def goal(self, facts: BrushFacts) -> bool:
        """The brush is in the tube, released and still; the tube is upright."""
        at_rest = not facts.brush_held and facts.brush.speed_mps < STILL_MPS
        return at_rest and facts.tube.tilt_rad < UPRIGHT_RAD and inserted(facts)

    def terminal(self, facts: BrushFacts, first: BrushFacts) -> str | None:
        return lost(facts)

    def invalid_reason(self, facts: BrushFacts, start: Start) -> str | None:
        if facts.tube.tilt_rad > UPRIGHT_RAD:
            return "the tube does not stand upright"
        if start.kind == "recovery":
            return _not_failed(facts, start.mode) or lost(facts)
        if facts.brush_held or facts.tube_held:
            return "a hand is at the tube or the brush before the work begins"
        return lost(facts)

    def succeed(self, world: World[BrushFacts], rng: Generator) -> Script:
        return script.succeed(world, rng)

    def recover(self, world: World[BrushFacts], rng: Generator) -> Script:
        return script.recover(world, rng)


def _not_failed(facts: BrushFacts, mode: str) -> str | None:
    """Why a staged scene does not match its failure mode, or None."""
    if not (facts.brush_held and facts.tube_held):
        return "the brush or the tube is not held"
    if facts.depth_m > 0.005 and facts.offset_m < BORE_M:
        return "the tip is in the tube"
    if mode == "beside" and (facts.depth_m < 0.003 or facts.offset_m < TUBE_WIDTH_M / 2):
        return "the tip is not beside the tube"
    if mode in ON_RIM and not (facts.touching and abs(facts.depth_m) < 0.006):
        return "the tip does not rest on the rim"
    if mode == "retreated" and (facts.depth_m > -0.004 or facts.offset_m < HEAD_RADIUS_M):
        return "the brush is not drawn back"
    return None


def _draw_scene(rng: Generator) -> dict[str, float]:
    tube_m, stand_m = ([rng.uniform(*bounds) for bounds in region] for region in (TUBE_REGION_M, STAND_REGION_M))
    return {
        "tube_x": float(tube_m[0]),
        "tube_y": float(tube_m[1]),
        # One of its eight sides faces the right hand.
        "tube_yaw": float(script.bearing_rad(tube_m) + rng.uniform(-0.1, 0.1)),
        "stand_x": float(stand_m[0]),
        "stand_y": float(stand_m[1]),
        "brush_yaw": float(rng.uniform(-0.3, 0.3)),
    }


def _put_brush_in_hand(stage: Stage, at: Mapping[str, float], above_rim_m: float) -> None:
    rotation = Rotation.from_euler("xyz", [at["tilt_x"], at["tilt_y"], 0]) * Rotation.from_euler("z", at["brush_yaw"])
    offset_m = at["offset"] * np.array([np.cos(at["way"]), np.sin(at["way"])])
    tip_m = np.array([at["tube_x"] + offset_m[0], at["tube_y"] + offset_m[1], TUBE_M + above_rim_m])
    stage.place(Side.LEFT, script.brush_in_hand(tip_m, rotation, at["side"] * at["lean"], at["grip"]))
    stage.put(BRUSH, tip_m, np.roll(rotation.as_quat(), 1))
