"""The script of cup brushing, as tool poses: the right hand steadies the tube, the left one brings the brush."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator
from scipy.spatial.transform import Rotation

from egorecovery.episodes import Side
from egorecovery.workcell.arena import BASE_IN_WORKSPACE_M
from egorecovery.workcell.kinematics import POINTING_DOWN, ToolPose, pointing_down
from egorecovery.workcell.maneuver import CorrectionDone, Reach, Script, Waypoint, World
from egorecovery.workcell.objects import Pose
from egorecovery.workcell.tasks.cup_brush_objects import (
    HANDLE_TO_M,
    HANDLE_WIDTH_M,
    TUBE_M,
    TUBE_WIDTH_M,
    BrushFacts,
    inserted,
)

GRIP_M = 0.1  # grip of the brush, from its tip: high enough for the fingers to stay above the tube
TUBE_GRIP_M = 0.036  # grip of the tube: low, away from the other hand
TUBE_TILT_RAD = 1.15  # nearly level; tilted less, the right hand's camera would block the brush
BACK_M = 0.06  # distance from which the right hand moves in,
READY_M, READY_RAD = (0.07, 0.06), 0.3  # after starting this much farther back and higher, still pointing down
CLEAR_M = (0.014, 0.022)  # height of the tip above the rim before insertion
DEPTH_M = (0.064, 0.068)  # depth of the tip at release, a few millimetres above the floor
ALIGNED_M, ALIGNED_RAD = 0.002, 0.04
TRIES = 3


def succeed(world: World[BrushFacts], rng: Generator) -> Script:
    yield from _take_both(world, rng)
    yield _bring_tip(world, -rng.uniform(*CLEAR_M))
    yield from _insert(world, rng)
    yield from _let_go(world, rng)


def recover(world: World[BrushFacts], rng: Generator) -> Script:
    """The correction ends with the brush upright over the tube's mouth."""
    yield from _realign(world, rng)
    yield CorrectionDone()
    yield from _insert(world, rng)
    yield from _let_go(world, rng)


def brush_in_hand(tip_m: Float[ndarray, "3"], rotation: Rotation, lean_rad: float, grip_m: float) -> ToolPose:
    """The left hand's pose for a brush pose that leans in the grip about the axis between the fingers."""
    brush_in_tool = Rotation.from_euler("y", lean_rad) * POINTING_DOWN
    return ToolPose(tip_m + rotation.apply([0.0, 0.0, grip_m]), rotation * brush_in_tool.inv())


def bearing_rad(tube_m) -> float:
    """The direction from the right shoulder to the tube.

    The right hand moves in this vertical plane. In it the arm can straighten its wrist and bend it to the other side;
    elsewhere it would have to roll the wrist, and joint 6 ends at 2.5 rad.
    """
    shoulder_m = BASE_IN_WORKSPACE_M[Side.RIGHT]
    return float(np.arctan2(tube_m[1] - shoulder_m[1], tube_m[0] - shoulder_m[0]))


def tube_in_hand(tube_m: Float[ndarray, "3"], height_m: float = TUBE_GRIP_M, back_m: float = 0.0) -> ToolPose:
    """The right hand's pose for gripping the tube."""
    level = pointing_down(bearing_rad(tube_m), TUBE_TILT_RAD)
    return ToolPose(tube_m + [0, 0, height_m] - back_m * level.apply([0, 0, 1]), level)


def take_tube(tube_m: Float[ndarray, "3"], height_m: float = TUBE_GRIP_M) -> dict[Side, Reach]:
    tube = tube_in_hand(tube_m, height_m)
    return _right(tube.position_m, tube.rotation)


def lower(world: World[BrushFacts], drop_m: float, **how) -> Waypoint:
    """Moves the left hand straight down, or up if negative, without checks."""
    tool = world.tool(Side.LEFT)
    return Waypoint(reaches=_left(tool.position_m - [0, 0, drop_m], tool.rotation), straight=True, **how)


def _take_both(world: World[BrushFacts], rng: Generator) -> Script:
    """Moves both hands at once: the right one grips the standing tube, the left one draws the brush."""
    facts = world.facts()
    tube_m, height_m = facts.tube.position_m, TUBE_GRIP_M + rng.uniform(-0.003, 0.003)
    back = tube_in_hand(tube_m, height_m, BACK_M + rng.uniform(-0.004, 0.006))
    tube = tube_in_hand(tube_m, height_m)
    bearing = bearing_rad(tube_m)
    ready_m = back.position_m - READY_M[0] * np.array([np.cos(bearing), np.sin(bearing), 0]) + [0, 0, READY_M[1]]
    down = pointing_down(_handle_yaw(facts.brush))
    brush_m = facts.brush.position_m + (GRIP_M + rng.uniform(-0.003, 0.004)) * facts.brush.up
    above_m = facts.brush.position_m + [0, 0, HANDLE_TO_M + 0.035] + rng.normal(0, 0.004, 3)
    halfway_m = (world.tool(Side.LEFT).position_m + above_m) / 2 + [0, 0, 0.02] + rng.normal(0, 0.006, 3)
    wide = 1.0
    yield Waypoint(
        reaches=_left(halfway_m, down, wide) | _right(ready_m, pointing_down(bearing, READY_RAD), wide), straight=True
    )
    yield Waypoint(reaches=_left(above_m, down, wide) | _right(back.position_m, back.rotation, wide), straight=True)
    yield Waypoint(
        reaches=_left(brush_m, down, wide) | _right(tube.position_m, tube.rotation, wide), pace=0.8, straight=True
    )
    yield Waypoint(reaches=_left(brush_m, down) | _right(tube.position_m, tube.rotation), straight=True, wait_s=0.12)
    yield lower(world, -TUBE_M - rng.uniform(*CLEAR_M), pace=0.9)


def _realign(world: World[BrushFacts], rng: Generator) -> Script:
    """Moves up until the tip is clear of the tube, then over the mouth, with corrections until it is there."""
    above_m = rng.uniform(*CLEAR_M)
    if world.facts().depth_m > -above_m:
        yield lower(world, -(world.facts().depth_m + above_m), pace=0.3, wait_s=rng.uniform(0.15, 0.45))
    yield _bring_tip(world, -above_m, pace=0.3, wait_s=0.12)
    for _ in range(TRIES):
        facts = world.facts()
        if facts.offset_m < ALIGNED_M and facts.lean_rad < ALIGNED_RAD:
            break
        yield _bring_tip(world, -above_m, pace=0.4, straight=True, wait_s=0.08)


def _insert(world: World[BrushFacts], rng: Generator) -> Script:
    """Moves the tip into the mouth, checks, and moves down; back above the mouth if it did not go in."""
    for _ in range(TRIES):
        yield _bring_tip(world, 0.016, pace=0.5, straight=True)
        yield _bring_tip(world, rng.uniform(*DEPTH_M), pace=0.5, straight=True, wait_s=0.08)
        if inserted(world.facts()):
            return
        yield from _realign(world, rng)


def _let_go(world: World[BrushFacts], rng: Generator) -> Script:
    """The left hand releases the brush in the tube, while the right one keeps the tube steady."""
    tool = world.tool(Side.LEFT)
    opening = rng.uniform(0.8, 1.0)
    yield Waypoint(reaches=_left(tool.position_m, tool.rotation, opening_01=opening), straight=True, wait_s=0.12)
    up_m = tool.position_m + [0, 0, HANDLE_TO_M - GRIP_M + rng.uniform(0.026, 0.034)]
    yield Waypoint(reaches=_left(up_m, tool.rotation, opening_01=opening), pace=0.8, straight=True, wait_s=0.5)


def _bring_tip(world: World[BrushFacts], depth_m: float, **how) -> Waypoint:
    """Aligns the brush with the tube's axis at a depth, by the smallest rotation from the measured pose."""
    facts, tool = world.facts(), world.tool(Side.LEFT)
    wanted_m = facts.tube.position_m + (TUBE_M - depth_m) * facts.tube.up
    turn = _between(facts.brush.up, facts.tube.up)
    grip_m = turn.apply(tool.position_m - facts.brush.position_m)
    return Waypoint(reaches=_left(wanted_m + grip_m, turn * tool.rotation), **how)


def _left(position_m, rotation: Rotation, opening_01: float = 0.0) -> dict[Side, Reach]:
    return {Side.LEFT: _reach(position_m, rotation, opening_01, HANDLE_WIDTH_M)}


def _right(position_m, rotation: Rotation, opening_01: float = 0.0) -> dict[Side, Reach]:
    return {Side.RIGHT: _reach(position_m, rotation, opening_01, TUBE_WIDTH_M)}


def _reach(position_m, rotation: Rotation, opening_01: float, width_m: float) -> Reach:
    holds_m = width_m if opening_01 == 0.0 else 0.0
    return Reach(pose=ToolPose(np.asarray(position_m, float), rotation), opening_01=opening_01, holds_m=holds_m)


def _handle_yaw(brush: Pose) -> float:
    """A grasp across two sides of the square handle, with the smallest rotation of the hand."""
    quarter = np.pi / 2
    return float((brush.yaw_rad + quarter / 2) % quarter - quarter / 2)


def _between(start: Float[ndarray, "3"], end: Float[ndarray, "3"]) -> Rotation:
    """The smallest rotation from one direction to another."""
    axis = np.cross(start, end)
    sine, cosine = np.linalg.norm(axis), start @ end
    return Rotation.from_rotvec(axis / max(sine, 1e-9) * np.arctan2(sine, cosine))
