"""How exact must a grip of the disk's handle be? Physics alone: scripts with an error, no policy.

python benchmarks/grip_tolerance.py [--trials 8]
python benchmarks/grip_tolerance.py --rollouts docs/results/FOLDER/cells/*/rollouts.jsonl

First the hand closes beside the handle's middle, turned, or too high, and lifts: is the disk held, and how far off the
middle? Then the hand is brought over the groove, though the disk hangs off-centre in it: is it seated? With rollouts:
how many succeed, by how far the handle is turned at the start.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from scipy.spatial.transform import Rotation

from egorecovery.episodes import Side
from egorecovery.randomness import generator_for
from egorecovery.workcell.arena import build_arena
from egorecovery.workcell.kinematics import ToolPose, pointing_down
from egorecovery.workcell.maneuver import Reach, Script, Waypoint
from egorecovery.workcell.robot import RobotCell
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.tasks.round_disk_objects import FLOOR_M, HANDLE_WIDTH_M, PLATE_M, RIM_M
from egorecovery.workcell.tasks.round_disk_rules import flush
from egorecovery.workcell.tasks.round_disk_script import GRIP_M, OPEN_01, let_go
from egorecovery.workcell.teleoperator import Teleoperator

HELD = [("along", mm) for mm in (0, 4, 8, 16)] + [("across", mm) for mm in (4, 8, 10, 12, 14)] + [("up", 8), ("up", 16)]
TURNED_AND_ACROSS = [(0.4, 0), (0.8, 0), (0.3, 6), (0.5, 6), (0.3, 10), (0.5, 10)]  # rad, mm
SEATED_MM = (0, 2, 3, 4, 5, 6, 8)
TURNS_RAD = ((0.0, 0.2), (0.2, 0.4), (0.4, 0.61))


@dataclass(frozen=True)
class Options:
    trials: int = 8
    rollouts: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Error:
    """Of the closed hand, in the handle's frame."""

    along_m: float = 0.0
    across_m: float = 0.0
    up_m: float = 0.0
    turn_rad: float = 0.0


class Bench:
    def __init__(self) -> None:
        self.scene = scene_named("round_disk")
        self.robot = RobotCell(build_arena(self.scene.add_objects))

    def trial(self, number: int, error: Error, place: bool) -> tuple[bool, float]:
        """Whether it went well, and how far off the disk then is: in the hand, or from the groove."""
        rng = generator_for(seed=7, purpose="grip tolerance", number=number)
        self.robot.reset()
        world = Teleoperator(self.robot, self.scene)
        self.scene.stage(world, self.scene.draw_initial(rng))
        world.demonstrate(self._script(world, error, place), rng, lambda action: None, lambda: None)
        world.settle(0.4)
        facts = world.facts()
        if place:
            return flush(facts), 1000 * facts.offset_m
        off_m = np.linalg.norm(facts.disk.position_m[:2] - world.tool(Side.RIGHT).position_m[:2])
        return bool(facts.held and facts.disk.position_m[2] > 0.03), 1000 * float(off_m)

    def _script(self, world: Teleoperator, error: Error, place: bool) -> Script:
        disk, board = world.facts().disk, world.facts().board
        hand = pointing_down(error.turn_rad + disk.yaw_rad)
        beside_m = disk.axes @ [error.along_m, error.across_m, GRIP_M + error.up_m]
        grasp_m = disk.position_m + beside_m
        held = {"opening_01": 0.0, "holds_m": HANDLE_WIDTH_M}
        yield _to(grasp_m + [0, 0, 0.06], hand, opening_01=OPEN_01)
        yield _to(grasp_m, hand, opening_01=OPEN_01, pace=0.7)
        yield _to(grasp_m, hand, **held, wait_s=0.16)
        yield _to(grasp_m + [0, 0, 0.058], hand, **held, wait_s=0.2)
        if place:
            over_m = np.array([*board.position_m[:2], PLATE_M / 2 + GRIP_M])
            yield _to(over_m + [0, 0, RIM_M + 0.011], hand, **held, pace=0.6, wait_s=0.2)
            yield _to(over_m + [0, 0, FLOOR_M], hand, **held, pace=0.3, wait_s=0.2)
            yield from let_go(world, 0.07)


def _to(
    position_m: np.ndarray,
    rotation: Rotation,
    *,
    opening_01: float,
    holds_m: float = 0.0,
    pace: float = 1.0,
    wait_s: float = 0.0,
) -> Waypoint:
    reach = Reach(pose=ToolPose(position_m, rotation), opening_01=opening_01, holds_m=holds_m)
    return Waypoint(reaches={Side.RIGHT: reach}, pace=pace, straight=True, wait_s=wait_s)


def lines(trials: int) -> Iterator[str]:
    bench = Bench()

    def counted(error: Error, place: bool) -> str:
        found = [bench.trial(number, error, place) for number in range(trials)]
        off_mm = [off for well, off in found if well or place]
        words = "seated" if place else "held"
        return f"{words} {sum(well for well, _ in found)} / {trials}" + (
            f", {np.median(off_mm):.1f} mm off" if off_mm else ""
        )

    for way, mm in HELD:
        yield f"{way} {mm} mm: {counted(Error(**{f'{way}_m': mm / 1000}), False)}"
    for turn_rad, mm in TURNED_AND_ACROSS:
        yield f"turned {turn_rad} rad, across {mm} mm: {counted(Error(turn_rad=turn_rad, across_m=mm / 1000), False)}"
    for mm in SEATED_MM:
        yield f"gripped {mm} mm along, the hand over the groove: {counted(Error(along_m=mm / 1000), True)}"


def by_turn(paths: tuple[Path, ...]) -> Iterator[str]:
    records = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    for mode in ("nominal", "fallen"):
        of_mode = [record for record in records if record["mode"] == mode]
        for low, high in TURNS_RAD:
            won = [
                record["outcome"] == "success"
                for record in of_mode
                if low <= abs(record["start"]["parameters"]["disk_yaw"]) < high
            ]
            yield f"{mode}, handle turned {low} to {min(high, 0.6)} rad: {sum(won)} / {len(won)}"


def main(options: Options) -> None:
    for line in by_turn(options.rollouts) if options.rollouts else lines(options.trials):
        print(line, flush=True)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
