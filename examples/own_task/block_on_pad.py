"""A task of one's own: the right hand puts a red block on a blue pad. Walked through in docs/tutorial_task.md."""

from dataclasses import dataclass

import numpy as np

from egorecovery.episodes import Side, Task
from egorecovery.workcell.grip import held
from egorecovery.workcell.kinematics import ToolPose, pointing_down
from egorecovery.workcell.maneuver import CorrectionDone, Reach, Waypoint
from egorecovery.workcell.objects import Pose, pose_of
from egorecovery.workcell.physics import mujoco
from egorecovery.workcell.starts import Start

BLOCK_M, PAD_M = 0.04, 0.004  # the block's edge, the pad's thickness
PAD_HALF_M = 0.045
ABOVE_M = 0.09  # height from which the hand comes down
ARM = Side.RIGHT


@dataclass(frozen=True, eq=False)
class Facts:
    block: Pose
    pad: Pose
    held: bool

    @property
    def off_m(self) -> float:
        """From the middle of the pad to the middle of the block, seen from above."""
        return float(np.linalg.norm((self.block.position_m - self.pad.position_m)[:2]))


class BlockOnPad:
    task = Task("block_on_pad", (ARM,))
    graspable = ("block",)
    target_objects = ("block",)
    modes = {"dropped": 1.0}  # noqa: RUF012 - read only
    near_misses = {}  # noqa: RUF012

    def add_objects(self, spec):
        for name, half_m, mass_kg, rgba in (
            ("pad", (PAD_HALF_M, PAD_HALF_M, PAD_M / 2), 1.0, (0.2, 0.4, 0.8, 1)),
            ("block", (BLOCK_M / 2,) * 3, 0.06, (0.8, 0.2, 0.15, 1)),
        ):
            body = spec.worldbody.add_body(name=name, pos=(0.1, 0.1 if name == "pad" else -0.1, half_m[2]))
            body.add_freejoint()
            body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=half_m, mass=mass_kg, rgba=rgba)

    def draw_initial(self, rng):
        pad_m = rng.uniform((0.03, -0.09), (0.07, -0.03))
        return self._start("initial", "nominal", pad_m, rng.uniform((-0.08, 0.0), (-0.05, 0.04)))

    def draw_failure(self, rng, mode):
        """Dropped: the block lies somewhere beside the pad, the empty hand is above the pad."""
        pad_m = rng.uniform((0.03, -0.09), (0.07, -0.03))
        way_rad = rng.uniform(-np.pi, np.pi)
        away_m = rng.uniform(0.085, 0.1) * np.array([np.cos(way_rad), np.sin(way_rad)])
        return self._start("recovery", mode, pad_m, pad_m + away_m)

    def _start(self, kind, mode, pad_m, block_m):
        names = ("pad_x", "pad_y", "block_x", "block_y")
        numbers = dict(zip(names, map(float, (*pad_m, *block_m)), strict=True))
        return Start(task=self.task.name, kind=kind, mode=mode, parameters=numbers)

    def failure_descriptor(self, failure):
        at = failure.parameters
        return np.array([at["block_x"] - at["pad_x"], at["block_y"] - at["pad_y"]])

    def stage(self, stage, start):
        at = start.parameters
        stage.put("pad", [at["pad_x"], at["pad_y"], PAD_M / 2])
        stage.put("block", [at["block_x"], at["block_y"], BLOCK_M / 2])
        if start.mode == "dropped":
            above_m = np.array([at["pad_x"], at["pad_y"], ABOVE_M + 0.04])
            stage.place(ARM, ToolPose(above_m, pointing_down()), 1.0)
        stage.settle(0.2)

    def invalid_reason(self, facts, start):
        if facts.block.position_m[2] > BLOCK_M / 2 + 0.003:
            return "the block does not lie on the table"
        return self.terminal(facts, facts)

    def facts(self, model, data):
        return Facts(pose_of(model, data, "block"), pose_of(model, data, "pad"), held(model, data, "block"))

    def goal(self, facts):
        """On the pad, at rest, and let go of."""
        on_pad = abs(facts.block.position_m[2] - BLOCK_M / 2 - PAD_M) < 0.004 and facts.off_m < PAD_HALF_M
        return bool(on_pad) and not facts.held and facts.block.speed_mps < 0.02

    def terminal(self, facts, first):
        """What no retry can mend."""
        moved_m = np.linalg.norm((facts.pad.position_m - first.pad.position_m)[:2])
        if moved_m > 0.02:
            return f"the pad was pushed by {moved_m * 1000:.0f} mm"
        if not (np.abs(facts.block.position_m[:2]) < 0.25).all():
            return "the block left the reachable workspace"
        return None

    def succeed(self, world, rng):
        yield self._over_block(world, rng)
        yield from self._pick_and_place(world, rng)

    def recover(self, world, rng):
        """The correction brings the hand back over the block; from there on it is the ordinary task."""
        yield self._over_block(world, rng, pace=0.6)
        yield CorrectionDone()
        yield from self._pick_and_place(world, rng)

    def _over_block(self, world, rng, pace=1.0):
        block_m = world.facts().block.position_m
        return _move([*(block_m[:2] + rng.normal(0, 0.005, 2)), ABOVE_M], 0.75, pace=pace)

    def _pick_and_place(self, world, rng):
        block_m = world.facts().block.position_m
        yield _move(block_m, 0.75, pace=0.7, straight=True)
        yield _move(block_m, 0.0, holds_m=BLOCK_M, straight=True, wait_s=0.12)
        yield _move([*block_m[:2], ABOVE_M], 0.0, holds_m=BLOCK_M, straight=True)
        pad_m = world.facts().pad.position_m[:2] + rng.normal(0, 0.005, 2)
        yield _move([*pad_m, ABOVE_M], 0.0, holds_m=BLOCK_M)
        yield _move([*pad_m, PAD_M + BLOCK_M / 2 + 0.001], 0.0, holds_m=BLOCK_M, pace=0.5, straight=True, wait_s=0.12)
        yield _move([*pad_m, PAD_M + BLOCK_M / 2 + 0.001], 0.9, straight=True, wait_s=0.12)
        yield _move([*pad_m, ABOVE_M + 0.03], 1.0, straight=True, wait_s=0.5)


def _move(position_m, opening_01, *, holds_m=0.0, **how):
    pose = ToolPose(np.asarray(position_m, float), pointing_down())
    return Waypoint(reaches={ARM: Reach(pose=pose, opening_01=opening_01, holds_m=holds_m)}, **how)
