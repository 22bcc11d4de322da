"""Control steps per second of the workcell, without pictures and with three cameras, per process.

python benchmarks/workcell.py [--tasks cube_stack ...] [--rounds 2] [--json PATH]

The work is that of a rollout: the actions of one demonstration from a nominal start and one from each failure mode,
executed from their own starts with the rules evaluated at every step. Staging is not counted.
"""

import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import tyro
from numpy import ndarray
from rich.console import Console
from rich.table import Table

from egorecovery.capture import RobotLog
from egorecovery.workcell.demonstration import RobotDemonstrator
from egorecovery.workcell.scene import TaskScene
from egorecovery.workcell.starts import Start
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.workcell import Workcell

TASKS = ("cup_brush", "table_sweep", "round_disk", "cube_stack")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is measured."""

    tasks: tuple[str, ...] = TASKS
    image_size: int = 96
    rounds: int = 2
    """How often every demonstration is executed."""
    json: Path | None = None


def demonstrations(scene: TaskScene) -> list[tuple[Start, list[ndarray]]]:
    """A nominal one and one for each failure mode."""
    demonstrator = RobotDemonstrator(scene, image_size=16)
    drawn = [scene.draw_initial, *(partial(scene.draw_failure, mode=mode) for mode in scene.modes)]
    found = []
    for draw in drawn:
        for seed in range(10):
            start = draw(np.random.default_rng(seed))
            attempt = demonstrator.attempt(start, np.random.default_rng(seed))
            if isinstance(attempt.motion, RobotLog):
                found.append((start, list(attempt.motion.action)))
                break
    demonstrator.close()
    return found


def steps_per_s(cell: Workcell, work: list[tuple[Start, list[ndarray]]], rounds: int, look: bool) -> float:
    steps, seconds = 0, 0.0
    for start, actions in work * rounds:
        cell.reset(start)
        if look:
            cell.observe()  # the first picture builds the renderer
        started_s = time.perf_counter()
        for action in actions:
            cell.step(action)
            if look:
                cell.observe()
        seconds += time.perf_counter() - started_s
        steps += len(actions)
    return steps / seconds


def main(options: Options) -> None:
    table = Table(title=f"control steps per second, one process, {options.image_size}x{options.image_size}")
    for column in ("task", "no pictures", "three cameras"):
        table.add_column(column, justify="left" if column == "task" else "right")
    found = {}
    for task in options.tasks:
        with Workcell(scene_named(task), image_size=options.image_size) as cell:
            work = demonstrations(cell.scene)
            blind, seeing = (steps_per_s(cell, work, options.rounds, look) for look in (False, True))
        found[task] = {"no_pictures": blind, "three_cameras": seeing}
        table.add_row(task, f"{blind:.0f}", f"{seeing:.0f}")
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
