"""Control steps per second of the workcell, without pictures and with three cameras, per process.

python benchmarks/workcell.py [--tasks cube_stack ...] [--seconds 5] [--json PATH]
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.workcell import Workcell

TASKS = ("cup_brush", "table_sweep", "round_disk", "cube_stack")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is measured."""

    tasks: tuple[str, ...] = TASKS
    image_size: int = 96
    seconds: float = 4.0
    """Wall clock per measurement."""
    json: Path | None = None


def steps_per_s(cell: Workcell, seconds: float, look: bool) -> float:
    """A policy that keeps both arms moving around a failure start."""
    scene = cell.scene
    cell.reset(scene.draw_failure(np.random.default_rng(0), next(iter(scene.modes))))
    hold, saved = cell.robot.target(), cell.save()
    if look:
        cell.observe()  # the first picture builds the renderer
    steps, started_s = 0, time.perf_counter()
    while time.perf_counter() - started_s < seconds:
        if steps % 100 == 0:
            cell.restore(saved)
        cell.step(hold + 0.05 * np.sin(0.3 * steps + np.arange(14)))
        if look:
            cell.observe()
        steps += 1
    return steps / (time.perf_counter() - started_s)


def main(options: Options) -> None:
    table = Table(title=f"control steps per second, one process, {options.image_size}x{options.image_size}")
    for column in ("task", "no pictures", "three cameras"):
        table.add_column(column, justify="left" if column == "task" else "right")
    found = {}
    for task in options.tasks:
        with Workcell(scene_named(task), image_size=options.image_size) as cell:
            blind, seeing = (steps_per_s(cell, options.seconds, look) for look in (False, True))
        found[task] = {"no_pictures": blind, "three_cameras": seeing}
        table.add_row(task, f"{blind:.0f}", f"{seeing:.0f}")
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
