"""The script of table sweeping: strokes into the pan until nothing is left, then one pour."""

from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator
from scipy.spatial.transform import Rotation

from egorecovery.episodes import Side
from egorecovery.workcell.maneuver import Reach, Script, Waypoint, World
from egorecovery.workcell.tasks.table_sweep_rules import SweepFacts
from egorecovery.workcell.tasks.table_sweep_tools import (
    BIN_CENTRE_M,
    BROOM_GRIP,
    BROOM_HALF_M,
    HANDLE_M,
    PAN_GRIP,
    TRASH_RADIUS_M,
)

SKIM_M = 0.004  # height of the bristles above the table during a stroke
ENTER_M = 0.009  # and where they enter the pan
FRONT_M = 0.042  # distance from the lip at which a slanted broom begins to rotate, or its end would hit the pan
CARRY_M = 0.045  # clears trash and the pan's walls between strokes
STEEPEST_RAD = 0.8  # of a stroke, off the pan's axis
PAN_STEP_M = 0.04  # by which the pan retreats from a piece beside its mouth
PAN_FARTHEST_M = -0.08  # y; the hand must stay in view
MOST_STROKES = 6
BEAR_MPS = 0.17  # speed of a full pan; faster, round pieces roll over its low side walls
PUSH_MPS = 0.11  # speed of a broom with trash; faster, pieces fly off the table

POUR_YAW_RAD = 0.25  # the yaw at which the right wrist can tilt most
POUR_RAD = 0.95
POUR_HEIGHT_M = 0.068  # of the lip


@dataclass(frozen=True, eq=False)
class Stroke:
    """A stroke in the pan's frame, from above: start and yaw of the broom, and where it enters the pan."""

    start_m: Float[ndarray, "2"]
    yaw_rad: float
    mouth_x_m: float

    @property
    def ahead(self) -> Float[ndarray, "2"]:
        return np.array([np.sin(self.yaw_rad), -np.cos(self.yaw_rad)])

    def seen(self, points_m: Float[ndarray, "N 2"]) -> tuple[ndarray, ndarray]:
        """Coordinates of points across and along the stroke, from its start."""
        away_m = points_m - self.start_m
        return np.abs(away_m @ [-self.ahead[1], self.ahead[0]]), away_m @ self.ahead

    def clear(self, left_m: Float[ndarray, "N 2"]) -> bool:
        """Whether no piece lies below the broom's start."""
        across_m, along_m = self.seen(left_m)
        room_m = np.array(BROOM_HALF_M) + TRASH_RADIUS_M + 0.003
        return not np.any((across_m < room_m[0]) & (np.abs(along_m) < room_m[1]))

    def worth(self, left_m: Float[ndarray, "N 2"]) -> float:
        """The number of collected pieces minus those pushed away by the bristles' ends; prefers straight and short."""
        across_m, along_m = self.seen(left_m)
        taken = (across_m < BROOM_HALF_M[0] - 0.007) & (along_m > 0)
        clipped = (across_m < BROOM_HALF_M[0] + TRASH_RADIUS_M) & (along_m > 0) & ~taken
        return float(taken.sum() - 1.5 * clipped.sum() - 0.4 * abs(self.yaw_rad) - 2.0 * self.start_m[1])


def sweep(world: World[SweepFacts], rng: Generator) -> Script:
    """Sweeps until all trash is in the pan or no stroke is left."""
    for _ in range(MOST_STROKES):
        facts = world.facts()
        left_m = _left_on_table(facts)
        if not len(left_m):
            return
        stroke = best_stroke(left_m)
        if stroke is not None:
            yield from _carry_out(stroke, world, rng)
        elif facts.pan.position_m[1] < PAN_FARTHEST_M:
            return  # pieces were knocked too far away: this attempt has failed
        else:  # pieces are left beside the mouth: retreat slowly, or trash slides out of the pan
            back_m = facts.pan.position_m + facts.pan.axes @ [0, -PAN_STEP_M, 0.001]
            yield Waypoint(reaches={Side.RIGHT: _pan(back_m, facts.pan.rotation)}, pace=0.35, straight=True)


def pour(world: World[SweepFacts], rng: Generator) -> Script:
    """Lifts the pan with the mouth up, carries it over the bin, tilts it about the lip, and returns level."""
    pan = world.facts().pan
    away = _broom(world, (rng.uniform(-0.01, 0.01), rng.uniform(0.12, 0.14)), 0.0, CARRY_M)
    back = Rotation.from_euler("z", pan.yaw_rad) * Rotation.from_euler("x", rng.uniform(0.18, 0.24))
    lifted = _pan(pan.position_m + [0, 0, 0.085], back)
    yield Waypoint(reaches={Side.LEFT: away, Side.RIGHT: lifted}, pace=0.8, at_most_mps=BEAR_MPS, straight=True)
    yaw_rad = POUR_YAW_RAD + rng.uniform(-0.05, 0.05)
    turned = Rotation.from_euler("z", yaw_rad)
    # Trash leaves the lip with some speed, so the lip stays on the near side of the bin's centre.
    lip_m = np.array([*BIN_CENTRE_M, POUR_HEIGHT_M]) - turned.apply([0, 0.034, 0]) + [*rng.normal(0, 0.003, 2), 0]
    over_m = lip_m + [0, 0, 0.025]
    over = _pan(over_m, turned * Rotation.from_euler("x", 0.2))
    yield Waypoint(reaches={Side.RIGHT: over}, at_most_mps=BEAR_MPS, straight=True, wait_s=0.08)
    tipped = turned * Rotation.from_euler("x", -POUR_RAD)
    yield Waypoint(reaches={Side.RIGHT: _pan(lip_m, tipped)}, pace=0.6, straight=True, wait_s=rng.uniform(0.4, 0.6))
    clear_m = over_m - [0.025, rng.uniform(0.04, 0.055), 0]  # of the view into the bin
    yield Waypoint(reaches={Side.RIGHT: _pan(clear_m, turned)}, straight=True, wait_s=0.2)


def best_stroke(left_m: Float[ndarray, "N 2"]) -> Stroke | None:
    """The best stroke; None if no piece can be swept into the pan."""
    strokes = [stroke for piece_m in left_m for stroke in _strokes_for(piece_m)]
    clear = [stroke for stroke in strokes if stroke.clear(left_m)]
    return max(clear or strokes, key=lambda stroke: stroke.worth(left_m), default=None)


def _strokes_for(piece_m: Float[ndarray, "2"]) -> list[Stroke]:
    """Candidate strokes from behind a piece, straight or towards the mouth, for a few entries and distances."""
    strokes = []
    for mouth_x_m in (-0.004, 0.0, 0.004):
        aside_m = mouth_x_m - piece_m[0]
        yaws_rad = [float(np.arctan2(aside_m, piece_m[1] + 0.01))]
        if abs(aside_m) < BROOM_HALF_M[0] - 0.007:
            yaws_rad.append(0.0)
        for yaw_rad, behind_m in product(yaws_rad, (0.008, 0.025, 0.045)):
            back_m = behind_m + TRASH_RADIUS_M + BROOM_HALF_M[1]
            centre_m = np.array([mouth_x_m, piece_m[1]]) if yaw_rad == 0.0 else piece_m
            stroke = Stroke(centre_m - back_m * np.array([np.sin(yaw_rad), -np.cos(yaw_rad)]), yaw_rad, mouth_x_m)
            if abs(yaw_rad) < STEEPEST_RAD:
                strokes.append(stroke)
    return strokes


def _carry_out(stroke: Stroke, world: World[SweepFacts], rng: Generator) -> Script:
    start_m = stroke.start_m + rng.normal(0, 0.0015, 2)
    front_m = start_m + stroke.ahead * max(start_m[1] - FRONT_M, 0.0) / np.cos(stroke.yaw_rad)
    inside_m = (stroke.mouth_x_m, -rng.uniform(0.003, 0.008))
    yield _move(_broom(world, start_m, stroke.yaw_rad, CARRY_M))
    yield _move(_broom(world, start_m, stroke.yaw_rad, SKIM_M), pace=0.8, straight=True)
    if start_m[1] > front_m[1]:
        yield _move(_broom(world, front_m, stroke.yaw_rad, SKIM_M), pace=0.55, at_most_mps=PUSH_MPS, straight=True)
    if stroke.yaw_rad:
        yield _move(
            _broom(world, (stroke.mouth_x_m, 0.022), 0.0, ENTER_M / 2), pace=0.55, at_most_mps=PUSH_MPS, straight=True
        )
    yield _move(_broom(world, inside_m, 0.0, ENTER_M), pace=0.45, at_most_mps=PUSH_MPS, straight=True)
    yield _move(_broom(world, (inside_m[0], inside_m[1] + 0.01), 0.0, CARRY_M), straight=True)


def _left_on_table(facts: SweepFacts) -> Float[ndarray, "N 2"]:
    """A place in the pan's frame."""
    lying = [piece for piece, in_pan in zip(facts.trash, facts.in_pan, strict=True) if not in_pan]
    return np.array([facts.pan.of(piece.position_m)[:2] for piece in lying]).reshape(-1, 2)


def _broom(world: World[SweepFacts], at_m, yaw_rad: float, height_m: float) -> Reach:
    """The broom's pose at a place in the pan's frame, with a yaw along the stroke."""
    pan = world.facts().pan
    turn = Rotation.from_euler("z", pan.yaw_rad)
    position_m = np.array([*pan.position_m[:2], height_m]) + turn.apply([*at_m, 0.0])
    hand = BROOM_GRIP.hand(position_m, turn * Rotation.from_euler("z", yaw_rad))
    return Reach(pose=hand, opening_01=0.0, holds_m=HANDLE_M)


def _pan(position_m, rotation: Rotation) -> Reach:
    return Reach(pose=PAN_GRIP.hand(np.asarray(position_m, float), rotation), opening_01=0.0, holds_m=HANDLE_M)


def _move(broom: Reach, **how) -> Waypoint:
    return Waypoint(reaches={Side.LEFT: broom}, **how)
