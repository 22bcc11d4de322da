"""How often demonstrators succeed from freshly drawn starts, judged by the tasks' own rules, per source and mode.

python benchmarks/demonstrators.py [--tasks cube_stack ...] [--draws 100] [--workers 2] [--json PATH]

Also: what doing nothing scores from the same starts, and what replaying a *success* demonstration open loop from
failure starts scores.
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from egorecovery.capture import RobotLog
from egorecovery.episodes import Source
from egorecovery.executors import run_jobs
from egorecovery.randomness import generator_for
from egorecovery.workcell.demonstration import RobotDemonstrator
from egorecovery.workcell.human_demonstration import HumanDemonstrator
from egorecovery.workcell.rules import Protocol
from egorecovery.workcell.staging import draw_across_family, draw_start
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.teleoperator import OutOfReach
from egorecovery.workcell.workcell import StagingFailed, Workcell

TASKS = ("cup_brush", "table_sweep", "round_disk", "cube_stack")
NOTHING, REPLAY = "do nothing", "replayed success"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is measured."""

    tasks: tuple[str, ...] = TASKS
    sources: tuple[Source, ...] = tuple(Source)
    draws: int = 100
    """Starts per task and source."""
    baselines: int = 20
    """Starts per task for doing nothing and for replaying successes."""
    workers: int = 2
    seed: int = 1000
    """Not one that data sets use."""
    json: Path | None = None


@dataclass(frozen=True)
class Draw:
    task: str
    what: str  # a source, or a baseline
    number: int
    seed: int

    def generator(self, purpose: str):
        return generator_for(seed=self.seed, purpose=purpose, task=self.task, what=self.what, number=self.number)


@dataclass(frozen=True)
class Result:
    draw: Draw
    mode: str
    failure: str | None
    frames: float
    boundary: float | None


@lru_cache(maxsize=2)
def demonstrator(task: str, human: bool):
    return (HumanDemonstrator if human else RobotDemonstrator)(scene_named(task), image_size=16)


@lru_cache(maxsize=1)
def cell(task: str) -> Workcell:
    return Workcell(scene_named(task), protocol=Protocol(time_limit_s=30.0), image_size=16)


def attempt(draw: Draw) -> Result:
    if draw.what in (NOTHING, REPLAY):
        return baseline(draw)
    source = Source(draw.what)
    who = demonstrator(draw.task, source.is_human)
    start = draw_start(who.scene, source, draw.generator("start"))
    done = who.attempt(start, draw.generator("demonstration"))
    boundary = None if done.correction_done_s is None else done.correction_done_s * 25
    return Result(draw, start.mode, done.failure, done.duration_s * 25, boundary)


def baseline(draw: Draw) -> Result:
    """From failure starts across the family; doing nothing also from nominal ones."""
    workcell, rng = cell(draw.task), draw.generator("start")
    initial = draw.what == NOTHING and draw.number % 2 == 0
    start = workcell.scene.draw_initial(rng) if initial else draw_across_family(workcell.scene, rng)
    try:
        workcell.reset(start)
    except (StagingFailed, OutOfReach) as error:
        return Result(draw, start.mode, f"staging: {error}", 0, None)
    actions = [workcell.robot.target()] * 100 if draw.what == NOTHING else success_actions(draw.task, draw.number % 5)
    outcome = None
    for action in [*actions, *[actions[-1]] * 100]:
        outcome = workcell.step(action)
        if outcome is not None:
            break
    failure = None if outcome and outcome.succeeded else (outcome.reason if outcome else "the goal was not reached")
    return Result(draw, start.mode, failure, len(actions), None)


@lru_cache(maxsize=8)
def success_actions(task: str, number: int) -> list[np.ndarray]:
    who = demonstrator(task, False)
    for retry in range(10):
        rng = generator_for(seed=77, purpose="replay", task=task, number=number, retry=retry)
        done = who.attempt(who.scene.draw_initial(rng), rng)
        if isinstance(done.motion, RobotLog):
            return list(done.motion.action)
    raise AssertionError(f"no success demonstration of {task} to replay")


def main(options: Options) -> None:
    draws = [
        Draw(task, what, number, options.seed)
        for task in options.tasks
        for what, count in [
            *((str(s), options.draws) for s in options.sources),
            (NOTHING, options.baselines),
            (REPLAY, options.baselines),
        ]
        for number in range(count)
    ]
    grouped: dict[tuple[str, str], list[Result]] = defaultdict(list)
    console = Console(width=150)
    with console.status("demonstrating") as status:
        for done, result in enumerate(run_jobs(attempt, draws, options.workers), start=1):
            grouped[result.draw.task, result.draw.what].append(result)
            status.update(f"{done} of {len(draws)}")
    table = Table(title="demonstrations that succeed by the task's own rules")
    for column in ("task", "who", "succeeded", "by mode", "frames", "boundary", "why not"):
        table.add_column(column)
    for (task, what), results in grouped.items():
        good = [r for r in results if r.failure is None]
        modes = {
            m: (sum(r.mode == m for r in good), sum(r.mode == m for r in results))
            for m in sorted({r.mode for r in results})
        }
        boundaries = [r.boundary for r in good if r.boundary is not None]
        table.add_row(
            task,
            what,
            f"{len(good)}/{len(results)}",
            ", ".join(f"{mode} {k}/{n}" for mode, (k, n) in modes.items()),
            f"{np.mean([r.frames for r in good]):.0f}" if good else "",
            f"{np.mean(boundaries):.0f}" if boundaries else "",
            "; ".join(
                f"{count}x {why}" for why, count in Counter(r.failure for r in results if r.failure).most_common(2)
            ),
        )
    console.print(table)
    if options.json:
        rows = [
            {"task": t, "who": w, "succeeded": sum(r.failure is None for r in rs), "of": len(rs)}
            for (t, w), rs in grouped.items()
        ]
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
