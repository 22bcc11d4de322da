"""Ways by which human clips may reach the robot, side by side on validation starts.

python benchmarks/transfer.py OUT --tasks cube_stack cup_brush --variants robot_recovery_effector shared_decoder \
    "shared_decoder: human_supervision.opening_axis=true" "hidden shared_decoder" --rollouts 100 --budget-minutes 9

A variant is a method; settings of the recipe may follow it. "hidden" before it trains and tests on pictures without
arms and hands; "near" before that begins half of the recoveries, of robot and people, at near misses; "off-centre"
before that is for demonstrations that grip handles off their middle, "turned" before all for those in which the robot's
hand arrives turned. Nothing here may be chosen on comparison starts.
Run again, it goes on. Results stand in OUT/cells; OUT/transfer.jsonl repeats them as one line per rollout, with the
distance of each failure from the nearest one that was staged for the robot.
"""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from egorecovery.episodes import EpisodeStore
from egorecovery.errors import RecipeError
from egorecovery.evaluation.protocol import EvaluationProtocol, bench_protocol
from egorecovery.experiments import Condition, Event, ExperimentFolder, Resources, Suite, plan_suite, run_suite
from egorecovery.experiments.condition import episodes
from egorecovery.experiments.plan import SuitePlan
from egorecovery.policy.config_json import changed
from egorecovery.training import METHODS, RECIPES, Recipe

HIDDEN, NEAR, OFF_CENTRE, TURNED = "hidden ", "near ", "off-centre ", "turned "


@dataclass(frozen=True)
class Running:
    """How a suite is run, whatever is in it."""

    out: Positional[Path]
    work: Path | None = None
    """Where data and trainings lie, if not in OUT."""
    budget_minutes: float | None = None
    workers: int = 0
    trainings_at_once: int = 0


@dataclass(frozen=True)
class Options(Running):
    tasks: tuple[str, ...] = ("cube_stack", "cup_brush")
    variants: tuple[str, ...] = ("robot_recovery_effector", "shared_decoder")
    seeds: tuple[int, ...] = (0,)
    recipe: str = "bench"
    set: dict[str, str] = field(default_factory=dict)
    """Of the recipe of all variants."""
    robot: int = 50
    """Robot successes, and robot recoveries."""
    human: int = 300
    """Human recoveries."""
    rollouts: int = 100
    replan: int | None = None
    state_dropout: float = 0.0
    """At test time."""
    starts_seed: str = "validation"


def row(variant: str, options: Options) -> Condition:
    turned = variant.startswith(TURNED)
    variant = variant.removeprefix(TURNED)
    off_centre = variant.startswith(OFF_CENTRE)
    variant = variant.removeprefix(OFF_CENTRE)
    near = variant.startswith(NEAR)
    variant = variant.removeprefix(NEAR)
    hidden = variant.startswith(HIDDEN)
    method, _, settings = variant.removeprefix(HIDDEN).partition(":")
    if method not in METHODS:
        raise RecipeError(f"there is no method {method!r}; there are {', '.join(METHODS)}")
    chosen = tuple((name, value) for name, _, value in (setting.partition("=") for setting in settings.split()))
    human = METHODS[method](RECIPES[options.recipe]("cube_stack")).batch.human
    return Condition(
        method=method,
        budget=episodes(options.robot, options.robot, human_recovery=options.human if human else 0),
        variant="-".join(f"{name.split('.')[-1]}_{value}" for name, value in chosen) or None,
        robot_failures="near_misses" if near else "staged",
        hidden_embodiment=hidden,
        off_centre_grips=off_centre,
        turned_hands=turned,
        settings=chosen,
    )


def show(event: Event) -> None:
    if event.kind != "progress" or event.done == event.total:
        print(event, flush=True)


def main(options: Options) -> None:
    suite = Suite(name="transfer", conditions=tuple(row(variant, options) for variant in options.variants))

    def recipe(task: str) -> Recipe:
        return changed(RECIPES[options.recipe](task), options.set)

    def protocol(task: str) -> EvaluationProtocol:
        made = bench_protocol(task, recipe(task).policy.horizon)
        return replace(made, replan_steps=options.replan or made.replan_steps, state_dropout=options.state_dropout)

    plan = plan_suite(
        suite,
        tasks=options.tasks,
        seeds=options.seeds,
        recipe=recipe,
        protocol=protocol,
        rollouts=options.rollouts,
        starts_seed=options.starts_seed,
    )
    run(plan, options)


def run(plan: SuitePlan, running: Running) -> None:
    """Goes on where it stopped, and shows what there is."""
    run_suite(
        plan,
        running.out,
        work=running.work,
        resources=Resources(workers=running.workers, trainings_at_once=running.trainings_at_once),
        budget_minutes=running.budget_minutes,
        on_event=show,
    )
    report(ExperimentFolder(running.out, running.work))


def report(folder: ExperimentFolder) -> None:
    lines: list[dict[str, Any]] = []
    table = Table(title="successes of rollouts", title_justify="left")
    for column in ("cell", "from failures", "of it far", "initial", "timeouts", "retries", "out of reach"):
        table.add_column(column, overflow="fold")
    for cell in folder.done():
        records = folder.rollouts(cell).records()
        staged = staged_failures(folder.data(store_of(folder.card(cell) or {})))
        made = [
            {
                "cell": cell,
                "regime": str(record.regime),
                "index": record.index,
                "outcome": str(record.outcome),
                "reason": record.reason,
                "retries": record.retries,
                "unreachable": record.unreachable_targets,
                "mode": record.start.get("mode"),
                "parameters": record.start.get("parameters"),
                "nearest_staged": nearest(record.start, staged),
            }
            for record in records
        ]
        lines += made
        failures = [line for line in made if line["regime"] == "recovery"]
        known = [line["nearest_staged"] for line in failures if line["nearest_staged"] is not None]
        middle = float(np.median(known)) if known else 0.0
        far = [line for line in failures if (line["nearest_staged"] or 0.0) > middle]
        table.add_row(
            cell,
            counted(failures),
            counted(far),
            counted([line for line in made if line["regime"] != "recovery"]),
            str(sum("time" in line["reason"] for line in failures)),
            f"{np.mean([line['retries'] for line in failures] or [0]):.1f}",
            f"{np.mean([line['unreachable'] for line in failures] or [0]):.1f}",
        )
    Console(width=120).print(table)
    (folder.root / "transfer.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def counted(lines: list[dict[str, Any]]) -> str:
    return f"{sum(line['outcome'] == 'success' for line in lines)} / {len(lines)}"


def store_of(card: dict[str, Any]) -> str:
    near = card.get("robot_failures") == "near_misses"
    seen = "-hidden" * bool(card.get("hidden_embodiment")) + "-off_centre" * bool(card.get("off_centre_grips"))
    seen += "-turned" * bool(card.get("turned_hands"))
    return f"{card['task']}{'-near_misses' * near}{seen}"


def staged_failures(root: Path) -> dict[str, list[dict[str, float]]]:
    """Starts of the robot's own recoveries, by failure mode."""
    found: dict[str, list[dict[str, float]]] = {}
    if not (root / "store.json").is_file():
        return found
    store = EpisodeStore(root)
    for name in store.ids():
        if "robot_recovery" in name:
            start: Any = store.read(name).provenance.details["start"]
            found.setdefault(start["mode"], []).append(start["parameters"])
    return found


def nearest(start: Any, staged: dict[str, list[dict[str, float]]]) -> float | None:
    """Distance to the nearest staged failure of the same mode, each parameter in units of its staged spread."""
    others = staged.get(start.get("mode"), [])
    names = sorted(others[0]) if others else []
    if len(others) < 3 or any(name not in start["parameters"] for name in names):
        return None
    values = np.array([[other[name] for name in names] for other in others])
    own = np.array([start["parameters"][name] for name in names])
    spread = np.maximum(values.std(axis=0), 1e-3)
    return float(np.linalg.norm((values - own) / spread, axis=1).min())


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
