"""Draws docs/pictures/TASK.png: start, one failure per mode and success, from the three cameras, robot above person.

python tools/workcell_pictures.py [--out docs/pictures] [--size 112]
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from numpy import ndarray

from egorecovery.episodes import Camera
from egorecovery.episodes.pictures import below, beside, write_png
from egorecovery.workcell.demonstration import Attempt, Demonstrator, RobotDemonstrator
from egorecovery.workcell.human_demonstration import HumanDemonstrator
from egorecovery.workcell.starts import Start
from egorecovery.workcell.tasks import scene_named

TASKS = ("cup_brush", "table_sweep", "round_disk", "cube_stack")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Where to draw what."""

    tasks: tuple[str, ...] = TASKS
    out: Path = Path("docs/pictures")
    size: int = 112


def moment(attempt: Attempt, frame: int) -> ndarray:
    """One instant from the three cameras."""
    return beside([attempt.cameras[camera].frames[frame] for camera in Camera])


def demonstrated(who: Demonstrator, start: Start, seed: int) -> Attempt:
    attempt = who.attempt(start, np.random.default_rng(seed))
    if attempt.failure is not None:
        raise SystemExit(f"{start.task} {start.mode}: {attempt.failure}")
    return attempt


def row(who: Demonstrator, seed: int = 3) -> ndarray:
    """Nominal start, each failure, and the success that the last recovery ends with."""
    scene = who.scene
    nominal = demonstrated(who, scene.draw_initial(np.random.default_rng(seed)), seed)
    recoveries = [
        demonstrated(who, scene.draw_failure(np.random.default_rng(seed + number), mode), seed)
        for number, mode in enumerate(scene.modes)
    ]
    return beside([moment(nominal, 0), *(moment(recovery, 0) for recovery in recoveries), moment(recoveries[0], -1)])


def main(options: Options) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    for task in options.tasks:
        demonstrators = [
            make(scene_named(task), image_size=options.size) for make in (RobotDemonstrator, HumanDemonstrator)
        ]
        write_png(below([row(who) for who in demonstrators]), options.out / f"{task}.png")
        for who in demonstrators:
            who.close()
        print(f"{options.out / f'{task}.png'}: {', '.join(scene_named(task).modes)}")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
