"""Cube stacking: put the yellow cube on the green one with the right arm.

Failures after a stacking attempt, the hand above the green cube: the yellow cube is still held but off to a side
(`held`), or it slipped off and lies beside the green one (`fallen`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator
from scipy.spatial.transform import Rotation

from egorecovery.episodes import Side
from egorecovery.episodes.vocabulary import CUBE_STACK
from egorecovery.workcell.grip import held
from egorecovery.workcell.kinematics import ToolPose, pointing_down
from egorecovery.workcell.maneuver import CorrectionDone, Reach, Script, Waypoint, World
from egorecovery.workcell.objects import Pose, pose_of, touching, yaw_quaternion
from egorecovery.workcell.physics import MjData, MjModel, MjSpec, mujoco
from egorecovery.workcell.scene import Stage
from egorecovery.workcell.starts import Start

CUBE_M = 0.04
HALF_M = CUBE_M / 2
YELLOW, GREEN = "yellow_cube", "green_cube"
ARM = Side.RIGHT

ABOVE_M = 0.09  # tool height from which the hand descends on a cube
GREEN_REGION_M = ((0.02, 0.07), (-0.09, -0.03))  # x and y of the green cube
# Initial places of the yellow cube, in view beside the parked hands. Failures leave it anywhere around the green one,
# mostly outside of this region, so that success data alone does not teach recovery (docs/log.md).
YELLOW_REGION_M = ((-0.05, 0.0), (-0.01, 0.05))
REACHABLE_M = ((-0.16, 0.2), (-0.28, 0.16))  # a cube outside has left the workspace
MISSED_M = (0.03, 0.055)  # distance from the cube at which a grasp misses
OPEN_01 = 0.75  # wide enough for a cube, narrow enough to pass the other cube
TRIES = 3
DISPLACED_M = 0.02  # the green cube may be touched, not moved


@dataclass(frozen=True, eq=False)
class CubeFacts:
    yellow: Pose
    green: Pose
    held: bool  # the yellow cube is in a hand
    stacked_contact: bool  # the cubes touch


class CubeStack:
    task = CUBE_STACK
    graspable = (YELLOW,)
    target_objects = (YELLOW,)
    modes: ClassVar[Mapping[str, float]] = {
        "held": 0.3,
        "fallen": 0.7,
    }  # held is easier: the cube need not be found again
    near_misses: ClassVar[Mapping[str, float]] = {"missed": 1.0}

    def add_objects(self, spec: MjSpec) -> None:
        for name, rgba in ((YELLOW, (0.93, 0.76, 0.12, 1)), (GREEN, (0.16, 0.58, 0.28, 1))):
            spec.add_material(name=name, rgba=rgba, specular=0.1, shininess=0.1)
            body = spec.worldbody.add_body(name=name, pos=(0.1, 0.1 if name == GREEN else -0.1, HALF_M))
            body.add_freejoint()
            body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=(HALF_M,) * 3, mass=0.06, material=name)

    def draw_initial(self, rng: Generator) -> Start:
        green_m = _draw(rng, GREEN_REGION_M)
        while True:  # until the fingers fit between the cubes
            yellow_m = _draw(rng, YELLOW_REGION_M)
            if np.linalg.norm(yellow_m - green_m) > 0.085:
                break
        return self._start("initial", "nominal", green_m, yellow_m, rng)

    def draw_failure(self, rng: Generator, mode: str) -> Start:
        if mode == "missed":
            return self._draw_missed(rng)
        green_m = _draw(rng, GREEN_REGION_M)
        way_rad = rng.uniform(-np.pi, np.pi)
        # Held: off by more than half a cube, so that releasing would drop it.
        away_m = rng.uniform(0.024, 0.04) if mode == "held" else rng.uniform(0.076, 0.105)
        yellow_m = green_m + away_m * np.array([np.cos(way_rad), np.sin(way_rad)])
        return self._start("recovery", mode, green_m, yellow_m, rng)

    def _draw_missed(self, rng: Generator) -> Start:
        """A near miss: the hand is closed beside the yellow cube, which lies where an attempt or a failure left it."""
        lies = self.draw_initial(rng) if rng.random() < 0.5 else self.draw_failure(rng, "fallen")
        missed = {
            "miss_away": float(rng.uniform(*MISSED_M)),
            "miss_way": float(rng.uniform(-np.pi, np.pi)),
            "miss_height": float(rng.uniform(0.0, 0.04)),
            "miss_opening": float(rng.uniform(0.0, OPEN_01)),
        }
        return replace(lies, kind="recovery", mode="missed", parameters={**lies.parameters, **missed})

    def _start(self, kind, mode, green_m, yellow_m, rng: Generator) -> Start:
        return Start(
            task=self.task.name,
            kind=kind,
            mode=mode,
            parameters={
                "green_x": float(green_m[0]),
                "green_y": float(green_m[1]),
                "green_yaw": float(rng.uniform(-0.3, 0.3)),
                "yellow_x": float(yellow_m[0]),
                "yellow_y": float(yellow_m[1]),
                "yellow_yaw": float(rng.uniform(-0.6, 0.6)),
                "hover": float(rng.uniform(0.015, 0.045)),  # of the hand above the stack
            },
        )

    def failure_descriptor(self, failure: Start) -> Float[ndarray, " G"]:
        """Direction and distance of the yellow cube from the green one."""
        at = failure.parameters
        cube_m = [at["yellow_x"] - at["green_x"], at["yellow_y"] - at["green_y"]]
        if failure.mode == "missed":
            cube_m += [at["miss_away"] * np.cos(at["miss_way"]), at["miss_away"] * np.sin(at["miss_way"])]
        return np.array(cube_m)

    def stage(self, stage: Stage, start: Start) -> None:
        at = start.parameters
        green_m, yellow_m = np.array([at["green_x"], at["green_y"]]), np.array([at["yellow_x"], at["yellow_y"]])
        stage.put(GREEN, [*green_m, HALF_M], yaw_quaternion(at["green_yaw"]))
        hover_m = np.array([*green_m, 1.5 * CUBE_M + at["hover"]])
        if start.mode == "held":
            held_m = np.array([*yellow_m, 1.5 * CUBE_M + at["hover"]])
            stage.place(ARM, ToolPose(held_m, pointing_down(at["yellow_yaw"])), 1.0)
            stage.put(YELLOW, held_m, yaw_quaternion(at["yellow_yaw"]))
            stage.hold(ARM, YELLOW, CUBE_M)
            return
        stage.put(YELLOW, [*yellow_m, HALF_M], yaw_quaternion(at["yellow_yaw"]))
        if start.mode == "fallen":
            stage.place(ARM, ToolPose(hover_m + [0, 0, 0.03], pointing_down(at["green_yaw"])), 1.0)
        elif start.mode == "missed":
            beside_m = yellow_m + at["miss_away"] * np.array([np.cos(at["miss_way"]), np.sin(at["miss_way"])])
            tool_m = np.array([*beside_m, HALF_M + at["miss_height"]])
            stage.place(ARM, ToolPose(tool_m, pointing_down(at["yellow_yaw"])), at["miss_opening"])
        stage.settle(0.2)

    def facts(self, model: MjModel, data: MjData) -> CubeFacts:
        return CubeFacts(
            yellow=pose_of(model, data, YELLOW),
            green=pose_of(model, data, GREEN),
            held=held(model, data, YELLOW),
            stacked_contact=touching(model, data, YELLOW, GREEN),
        )

    def goal(self, facts: CubeFacts) -> bool:
        """On top, upright and released. A cube held in place is not a stack."""
        return on_top(facts) and not facts.held and facts.yellow.speed_mps < 0.02

    def terminal(self, facts: CubeFacts, first: CubeFacts) -> str | None:
        moved_m = np.linalg.norm(facts.green.position_m[:2] - first.green.position_m[:2])
        if moved_m > DISPLACED_M:
            return f"the green cube was displaced by {moved_m * 1000:.0f} mm"
        for name, cube in (("yellow", facts.yellow), ("green", facts.green)):
            if not _reachable(cube):
                return f"the {name} cube left the reachable workspace"
        return None

    def invalid_reason(self, facts: CubeFacts, start: Start) -> str | None:
        if on_top(facts):
            return "the cubes are stacked"
        if start.mode == "held" and not facts.held:
            return "the yellow cube is not held"
        if start.mode == "missed" and _moved_m(facts, start) > 0.004:
            return "the hand is in a cube's place"
        lost = self.terminal(facts, facts)
        if lost is None and start.mode != "held" and facts.yellow.position_m[2] > HALF_M + 0.003:
            return "the yellow cube does not lie on the table"
        return lost

    def succeed(self, world: World[CubeFacts], rng: Generator) -> Script:
        yield from _pick(world, rng)
        yield from _place(world, rng)

    def recover(self, world: World[CubeFacts], rng: Generator) -> Script:
        """The correction ends where ordinary stacking resumes.

        This is above the green cube with the yellow one in the hand, or above the lying yellow cube, ready to pick it.
        """
        if world.facts().held:
            yield _over_green(world, rng, pace=0.7)
            yield CorrectionDone()
            yield from _place(world, rng, aligned=True)
            return
        yield from _go_over(world, rng)
        yield CorrectionDone()
        yield from _pick(world, rng, there=True)
        yield from _place(world, rng)


def _moved_m(facts: CubeFacts, start: Start) -> float:
    """The distance of a cube from its initial place."""
    at = start.parameters
    yellow_m, green_m = (np.array([at[f"{cube}_x"], at[f"{cube}_y"]]) for cube in ("yellow", "green"))
    moved = (facts.yellow.position_m[:2] - yellow_m, facts.green.position_m[:2] - green_m)
    return float(max(np.linalg.norm(moved, axis=-1)))


def on_top(facts: CubeFacts) -> bool:
    """Whether the yellow cube is on the green one, held or not."""
    if not facts.stacked_contact:
        return False
    offset_m = facts.yellow.position_m - facts.green.position_m
    flat = np.abs(facts.yellow.axes[2]).max() > np.cos(np.deg2rad(8))  # any face may be up
    level = abs(offset_m[2] - CUBE_M) < 0.006
    return bool(flat and level and np.linalg.norm(offset_m[:2]) < HALF_M)


def _pick(world: World[CubeFacts], rng: Generator, there: bool = False) -> Script:
    """Repeats grasps until the cube is in the hand. `there`: the hand is already above the cube."""
    for number in range(TRIES):
        if number or not there:
            yield from _go_over(world, rng)
        yield from _grasp(world, rng)
        if world.facts().held:
            return


def _go_over(world: World[CubeFacts], rng: Generator) -> Script:
    # Up first: the path to the cube must not cross the green one.
    here_m = world.tool(ARM).position_m
    if here_m[2] < ABOVE_M:
        yield _move(np.array([here_m[0], here_m[1], ABOVE_M + 0.01]), world.tool(ARM).rotation, 1.0)
    yellow = world.facts().yellow
    above_m = yellow.position_m + [0, 0, ABOVE_M - HALF_M]
    yield _move(above_m + rng.normal(0, 0.006, 3), _across(yellow), OPEN_01)


def _grasp(world: World[CubeFacts], rng: Generator) -> Script:
    yellow = world.facts().yellow
    down = _across(yellow)
    grasp_m = yellow.position_m + [*rng.normal(0, 0.002, 2), rng.uniform(-0.004, 0.004)]
    yield _move(grasp_m, down, OPEN_01, pace=0.7, straight=True)
    yield _move(grasp_m, down, 0.0, holds_m=CUBE_M, straight=True, wait_s=0.12)
    yield _move(grasp_m + [0, 0, ABOVE_M - HALF_M], down, 0.0, holds_m=CUBE_M, straight=True)


def _across(yellow: Pose) -> Rotation:
    """A grasp from above across two faces, with the smallest rotation of the hand."""
    return pointing_down(_nearest_quarter(_yaw_rad(yellow)))


def _over_green(world: World[CubeFacts], rng: Generator, pace: float = 1.0) -> Waypoint:
    facts, tool = world.facts(), world.tool(ARM)
    cube_in_tool_m = facts.yellow.position_m - tool.position_m
    over_m = facts.green.position_m + [0, 0, CUBE_M + rng.uniform(0.018, 0.028)] - cube_in_tool_m
    return _move(over_m, pointing_down(_aligned_yaw(facts, tool)), 0.0, holds_m=CUBE_M, pace=pace, wait_s=0.16)


def _place(world: World[CubeFacts], rng: Generator, aligned: bool = False) -> Script:
    if not aligned:
        yield _over_green(world, rng)
    facts, tool = world.facts(), world.tool(ARM)
    drop_m = facts.yellow.position_m - facts.green.position_m - [0, 0, CUBE_M]
    down_m = tool.position_m - drop_m + [0, 0, 0.001]
    yield _move(down_m, tool.rotation, 0.0, holds_m=CUBE_M, pace=0.5, straight=True, wait_s=0.12)
    yield _move(down_m, tool.rotation, rng.uniform(0.8, 1.0), straight=True, wait_s=0.12)
    yield _move(down_m + [0, 0, rng.uniform(0.07, 0.1)], tool.rotation, 1.0, pace=0.8, straight=True, wait_s=0.5)


def _move(position_m, rotation, opening_01: float, *, holds_m: float = 0.0, **how) -> Waypoint:
    reach = Reach(pose=ToolPose(np.asarray(position_m, float), rotation), opening_01=opening_01, holds_m=holds_m)
    return Waypoint(reaches={ARM: reach}, **how)


def _yaw_rad(cube: Pose) -> float:
    """The yaw of a horizontal edge, whichever face is up."""
    flattest = cube.axes[:, int(np.argmin(np.abs(cube.axes[2])))]
    return float(np.arctan2(flattest[1], flattest[0]))


def _aligned_yaw(facts: CubeFacts, tool: ToolPose) -> float:
    """Rotate the held cube to align with the green one, by the smaller angle."""
    turn_rad = _nearest_quarter(_yaw_rad(facts.green) - _yaw_rad(facts.yellow))
    now = tool.rotation.as_matrix()
    return float(np.arctan2(-now[0, 1], now[1, 1])) + turn_rad


def _nearest_quarter(angle_rad: float) -> float:
    """The angle modulo quarter turns, nearest to zero."""
    quarter = np.pi / 2
    return float((angle_rad + quarter / 2) % quarter - quarter / 2)


def _draw(rng: Generator, region_m) -> np.ndarray:
    return np.array([rng.uniform(*bounds) for bounds in region_m])


def _reachable(cube: Pose) -> bool:
    inside = [low <= value <= high for value, (low, high) in zip(cube.position_m, REACHABLE_M, strict=False)]
    return all(inside) and bool(cube.position_m[2] > 0)
