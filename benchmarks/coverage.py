"""How much of the failure family each recovery source covers, in the space of start parameters.

python benchmarks/coverage.py [--robot 50] [--human 300] [--json PATH]

What is measured is said in `egorecovery/diagnostics/coverage.py`. `hull` is the ratio of the areas of the convex hulls
(human over robot) in the plane of the two strongest principal components, `pairs` the median of that ratio over all
pairs of parameters; `nearest` is the mean distance from fresh failures of the family (as evaluation draws them) to the
nearest training start, in standard deviations.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from numpy import ndarray
from rich.console import Console
from rich.table import Table

from egorecovery.diagnostics import mode_coverage
from egorecovery.episodes import Source
from egorecovery.randomness import generator_for
from egorecovery.workcell.staging import draw_across_family, draw_start
from egorecovery.workcell.tasks import scene_named

TASKS = ("cup_brush", "table_sweep", "round_disk", "cube_stack")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How many starts of each source."""

    robot: int = 50
    human: int = 300
    fresh: int = 400
    json: Path | None = None


def starts(task: str, purpose: str, count: int, source: Source | None):
    scene = scene_named(task)
    for number in range(count):
        rng = generator_for(seed=0, purpose=purpose, task=task, number=number)
        yield draw_across_family(scene, rng) if source is None else draw_start(scene, source, rng)


def by_mode(drawn) -> dict[str, ndarray]:
    found: dict[str, list] = {}
    for start in drawn:
        found.setdefault(start.mode, []).append([start.parameters[name] for name in sorted(start.parameters)])
    return {mode: np.array(rows) for mode, rows in found.items()}


def main(options: Options) -> None:
    table = Table(title=f"{options.human} human against {options.robot} robot recovery starts")
    for column in ("task", "mode", "parameters", "hull human/robot", "pairs", "nearest robot", "nearest human"):
        table.add_column(column, justify="left" if column in ("task", "mode") else "right")
    rows = []
    for task in TASKS:
        robot = by_mode(starts(task, "robot", options.robot, Source.ROBOT_RECOVERY))
        human = by_mode(starts(task, "human", options.human, Source.HUMAN_RECOVERY))
        for mode, fresh in by_mode(starts(task, "fresh", options.fresh, None)).items():
            found = mode_coverage(fresh, robot[mode], human[mode])
            near = [found.robot.mean_nearest, found.human.mean_nearest]
            rows.append(
                {
                    "task": task,
                    "mode": mode,
                    "hull": found.plane_ratio,
                    "pairs": found.pair_ratio,
                    "nearest_robot": near[0],
                    "nearest_human": near[1],
                }
            )
            ratios = [f"{ratio:.1f}x" for ratio in (found.plane_ratio, found.pair_ratio)]
            table.add_row(task, mode, str(found.parameters), *ratios, *(f"{mean:.2f}" for mean in near))
    Console(width=110).print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
