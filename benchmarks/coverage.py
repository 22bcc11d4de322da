"""How much of the failure family each recovery source covers, in the space of start parameters.

python benchmarks/coverage.py [--robot 50] [--human 300] [--json PATH]

Parameters that vary are standardised over the family, mode by mode. `hull` is the ratio of the areas of the convex
hulls (human over robot) in the plane of the two strongest principal components; `nearest` is the mean distance from
fresh failures of the family (as evaluation draws them) to the nearest training start, in standard deviations.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from numpy import ndarray
from rich.console import Console
from rich.table import Table
from scipy.spatial import ConvexHull, cKDTree

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


def hull_area(points: ndarray) -> float:
    return float(ConvexHull(points).volume) if len(points) > 2 else 0.0


def main(options: Options) -> None:
    table = Table(title=f"{options.human} human against {options.robot} robot recovery starts")
    for column in ("task", "mode", "parameters", "hull human/robot", "nearest robot", "nearest human"):
        table.add_column(column, justify="left" if column in ("task", "mode") else "right")
    rows = []
    for task in TASKS:
        robot = by_mode(starts(task, "robot", options.robot, Source.ROBOT_RECOVERY))
        human = by_mode(starts(task, "human", options.human, Source.HUMAN_RECOVERY))
        for mode, fresh in by_mode(starts(task, "fresh", options.fresh, None)).items():
            spread = fresh.std(axis=0)
            varies = spread > 1e-9
            scaled = [
                (points[:, varies] - fresh[:, varies].mean(axis=0)) / spread[varies]
                for points in (fresh, robot[mode], human[mode])
            ]
            plane = np.linalg.svd(scaled[0], full_matrices=False)[2][:2].T
            areas = [hull_area(points @ plane) for points in scaled[1:]]
            near = [float(cKDTree(points).query(scaled[0])[0].mean()) for points in scaled[1:]]
            rows.append(
                {
                    "task": task,
                    "mode": mode,
                    "hull": areas[1] / areas[0],
                    "nearest_robot": near[0],
                    "nearest_human": near[1],
                }
            )
            table.add_row(
                task, mode, str(int(varies.sum())), f"{areas[1] / areas[0]:.1f}x", f"{near[0]:.2f}", f"{near[1]:.2f}"
            )
    Console(width=110).print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
