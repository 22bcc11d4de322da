"""Numbers of docs/results_details.md that no report has, from the published rollouts.

    python tools/results_details.py gates | last_gates | stand_ins | directions

The archives of docs/results must be unpacked below --published (the page has the command).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import tyro
from numpy import ndarray
from scipy.stats import t
from tyro.conf import Positional

from egorecovery.evaluation import ResultFile
from egorecovery.evaluation.results import RolloutRecord
from egorecovery.workcell.staging import StagingProtocol, configurations
from egorecovery.workcell.starts import Start
from egorecovery.workcell.tasks import scene_named

TASKS = ("cup_brush", "table_sweep", "round_disk", "cube_stack")
METHODS = ("robot_recovery", "direct_human_recovery_mix", "egorecovery")
Records = list[RolloutRecord]


@dataclass(frozen=True, kw_only=True)
class Published:
    """The unpacked archives."""

    root: Path

    def cells(self, pattern: str) -> list[Records]:
        files = sorted(path / "rollouts.jsonl" for path in self.root.glob(pattern))
        if not files:
            raise SystemExit(f"{self.root}: no {pattern}; unpack the archives of docs/results there")
        return [ResultFile(file).records() for file in files]


def gates(published: Published) -> None:
    """Rollouts whose outcome a forced gate changes, and the full trainings of `main` on the starts of `ablation`."""
    for task, gate in product(("cup_brush", "round_disk"), ("0", "0.5", "1", "shuffled")):
        name = f"gate_intervention/cells/{task}-egorecovery-b50.50.0.300"
        learned, forced = (_outcomes(published, f"{name}{suffix}-s0") for suffix in ("", f"-gate_{gate}"))
        worse = sum(learned[key] > forced[key] for key in learned)
        better = sum(learned[key] < forced[key] for key in learned)
        print(f"{task}, gate {gate}: worse {worse}, better {better}")
    for seed in range(3):
        outcomes = _outcomes(published, f"main/cells/table_sweep-egorecovery-b50.50.0.300-s{seed}")
        solved = sum(outcomes["recovery", index] for index in range(100))
        print(f"table_sweep, seed {seed}: {solved} of the first 100 failures")


def _outcomes(published: Published, cell: str) -> dict[tuple[str, int], bool]:
    (records,) = published.cells(cell)
    return {(record.regime, record.index): record.succeeded for record in records}


def last_gates(published: Published) -> None:
    """The gate at the last decision of EgoRecovery's rollouts, by start and outcome."""
    for task in TASKS:
        rollouts = [record for cell in published.cells(f"main/cells/{task}-egorecovery-*") for record in cell]
        for regime, succeeded in product(("recovery", "initial"), (True, False)):
            last = [r.gate_trace[-1] for r in rollouts if (r.regime, r.succeeded) == (regime, succeeded)]
            is_open = sum(gate > 0.5 for gate in last) / len(last)
            outcome = "success" if succeeded else "failure"
            print(f"{task}, {regime}, {outcome}: {len(last)} rollouts, {is_open:.0%} open, largest {max(last):.3f}")


def stand_ins(published: Published) -> None:
    """Trainings on cube stacking with staged robot recoveries, with people's and with robot-as-human recoveries."""
    robot, mix, ego = (_rates(published, method) for method in METHODS)
    pooled = np.sqrt(sum(np.var(rates) * len(rates) for rates in (robot, mix, ego)) / 15)

    def compare(name: str, rates: list[float], others: list[float]) -> None:
        half = t.ppf(0.975, 15) * pooled * (1 / len(rates) + 1 / len(others)) ** 0.5
        difference = np.mean(rates) - np.mean(others)
        print(name, np.round(rates, 1), f"{difference:+.1f} [{difference - half:+.1f}, {difference + half:+.1f}]")

    for people, method in ((mix, METHODS[1]), (ego, METHODS[2])):
        robot_as_human = _rates(published, method, "-stand_ins")
        compare(f"{method}, people against robot recovery", people, robot)
        compare(f"{method}, robot as human against robot recovery", robot_as_human, robot)
        compare(f"{method}, robot as human against people", robot_as_human, people)


def _rates(published: Published, method: str, humans: str = "") -> list[float]:
    """Recovery SR of each training in the suites `main`, `coverage` and `stand_ins`."""
    pattern = f"cells/cube_stack-{method}-b50.50.0.*0{humans}-s?"
    suites = [suite for suite in ("main", "coverage", "stand_ins") if any((published.root / suite).glob(pattern))]
    cells = [cell for suite in suites for cell in published.cells(f"{suite}/{pattern}")]
    return [100 * _rate(cell, "recovery") for cell in cells]


def _rate(records: Records, regime: str) -> float:
    return float(np.mean([record.succeeded for record in records if record.regime == regime]))


def directions(published: Published) -> None:
    """Recovery of dropped cubes by direction (octants around the green cube), together and by training."""
    scene = scene_named("cube_stack")
    starts = [start for start in configurations(scene, StagingProtocol()) if start.mode == "fallen"]
    staged = np.unique(_octants([scene.failure_descriptor(start) for start in starts]))
    for data, method in product(("b50.50.0.*0-s?", "b50.50.0.*-anywhere-s?"), METHODS):
        cells = published.cells(f"[mc]*/cells/cube_stack-{method}-{data}")
        for some in (cells, *([cell] for cell in cells)):
            rollouts = [record for cell in some for record in cell]
            fallen = [record for record in rollouts if record.mode == "fallen"]
            solved = np.array([record.succeeded for record in fallen])
            octants = _octants([scene.failure_descriptor(Start.of(record.start)) for record in fallen])
            both = [f"{100 * _rate(rollouts, regime):.1f}" for regime in ("recovery", "initial")]
            print(
                data,
                method,
                f"{len(some)} trainings, recovery and initial SR {both}, directions without and with a "
                f"staged cube: {_by_group(solved, np.isin(octants, staged))}, octants: {_by_group(solved, octants)}",
            )


def _octants(places: Sequence[ndarray]) -> ndarray:
    x, y = np.array(places)[:, :2].T
    return np.floor(np.arctan2(y, x) / (np.pi / 4)) % 8


def _by_group(solved: ndarray, groups: ndarray) -> str:
    return ", ".join(f"{100 * solved[groups == group].mean():.0f}%" for group in np.unique(groups))


QUESTIONS: dict[str, Callable[[Published], None]] = {
    "gates": gates,
    "last_gates": last_gates,
    "stand_ins": stand_ins,
    "directions": directions,
}


def main(question: Positional[str], published: Path = Path("runs/published")) -> None:
    if question not in QUESTIONS:
        raise SystemExit(f"{question!r} is not one of {', '.join(QUESTIONS)}")
    QUESTIONS[question](Published(root=published))


if __name__ == "__main__":
    tyro.cli(main)
