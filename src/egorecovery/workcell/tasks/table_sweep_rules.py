"""The facts and rules of table sweeping.

Only one pour is allowed. This needs no memory: once trash is in the bin, the pour has happened. From then on all trash
on the table was spilled or left, and a level pan with trash in it would need a second pour.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from egorecovery.episodes import Side
from egorecovery.workcell.grip import held_by
from egorecovery.workcell.objects import Pose, pose_of
from egorecovery.workcell.physics import MjData, MjModel
from egorecovery.workcell.tasks.table_sweep_tools import (
    BIN_CENTRE_M,
    BIN_HALF_M,
    BIN_HEIGHT_M,
    BROOM,
    PAN,
    PAN_DEPTH_M,
    PAN_HALF_M,
    PAN_WALL_M,
    TRASH,
)

POURING_RAD = 0.6  # a pan tipped further than this is being poured
LEVEL_RAD = 0.3  # and one tipped less is not
ON_TABLE_M = 0.016  # a centre this low, and not in pan or bin, lies on the table
PAST_LIP_M = 0.010  # behind the lip, so that lifting the pan takes the piece along
REACHABLE_M = ((-0.17, 0.22), (-0.25, 0.25))  # x and y; outside, neither broom nor pan gets at it


@dataclass(frozen=True, eq=False)
class SweepFacts:
    trash: tuple[Pose, ...]  # in the order of TRASH
    broom: Pose
    pan: Pose
    broom_held: bool
    pan_held: bool

    # Cached, because the rules use it several times per step.
    @cached_property
    def in_pan(self) -> tuple[bool, ...]:
        return tuple(_in_pan(piece, self.pan) for piece in self.trash)

    @cached_property
    def in_bin(self) -> tuple[bool, ...]:
        return tuple(_in_bin(piece) for piece in self.trash)

    @cached_property
    def on_table(self) -> tuple[bool, ...]:
        """Whether a piece lies on the table. A piece between pan and bin is in none of the three places."""
        low = [bool(piece.position_m[2] < ON_TABLE_M) for piece in self.trash]
        return tuple(a and not (b or c) for a, b, c in zip(low, self.in_pan, self.in_bin, strict=True))

    @cached_property
    def tip_rad(self) -> float:
        """The pan's tilt, mouth down."""
        return float(-np.arcsin(np.clip(self.pan.axes[2, 1], -1, 1)))


def sweep_facts(model: MjModel, data: MjData) -> SweepFacts:
    return SweepFacts(
        trash=tuple(pose_of(model, data, trash.name) for trash in TRASH),
        broom=pose_of(model, data, BROOM),
        pan=pose_of(model, data, PAN),
        broom_held=held_by(model, data, BROOM, Side.LEFT),
        pan_held=held_by(model, data, PAN, Side.RIGHT),
    )


def goal(facts: SweepFacts) -> bool:
    """Whether all trash is at rest in the bin."""
    return all(facts.in_bin) and all(piece.speed_mps < 0.05 for piece in facts.trash)


def terminal(facts: SweepFacts) -> str | None:
    poured = any(facts.in_bin)
    for trash, on_table in zip(TRASH, facts.on_table, strict=True):
        if on_table and poured:
            return f"{trash.name} lies on the table after pouring"
        if on_table and facts.tip_rad > POURING_RAD:
            return f"{trash.name} lies on the table while the pan is poured"
    if poured and any(facts.in_pan) and abs(facts.tip_rad) < LEVEL_RAD:
        return "the pan came back with trash in it: that would take a second pour"
    things = (*zip([trash.name for trash in TRASH], facts.trash, strict=True), (BROOM, facts.broom), (PAN, facts.pan))
    for name, thing in things:
        if not _reachable(thing):
            return f"{name} left the reachable workspace"
    return None


def _in_pan(piece: Pose, pan: Pose) -> bool:
    x_m, y_m, z_m = pan.of(piece.position_m).tolist()
    return abs(x_m) < PAN_HALF_M and -PAN_DEPTH_M < y_m < -PAST_LIP_M and 0 < z_m < PAN_WALL_M


def _in_bin(piece: Pose) -> bool:
    x_m, y_m, z_m = piece.position_m.tolist()
    away_m = max(abs(x_m - BIN_CENTRE_M[0]), abs(y_m - BIN_CENTRE_M[1]))
    return away_m < BIN_HALF_M and 0 < z_m < BIN_HEIGHT_M


def _reachable(thing: Pose) -> bool:
    x_m, y_m, z_m = thing.position_m.tolist()
    (lowest_x_m, highest_x_m), (lowest_y_m, highest_y_m) = REACHABLE_M
    return lowest_x_m <= x_m <= highest_x_m and lowest_y_m <= y_m <= highest_y_m and z_m > -0.01
