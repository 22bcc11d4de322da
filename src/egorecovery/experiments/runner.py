"""Runs a suite: data, trainings, evaluations; what is done already is skipped, what was broken off goes on."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from egorecovery.errors import RecipeError
from egorecovery.evaluation import COMPARISON, bench_protocol
from egorecovery.executors import Executor
from egorecovery.experiments.afterwards import Afterwards
from egorecovery.experiments.cell import ProtocolOf, RecipeOf
from egorecovery.experiments.events import Event, SuiteOutcome
from egorecovery.experiments.folder import ExperimentFolder
from egorecovery.experiments.plan import plan_suite
from egorecovery.experiments.resources import Resources, default_trainings
from egorecovery.experiments.scheduler import Scheduler
from egorecovery.experiments.suites import Suite
from egorecovery.experiments.time_left import TimeLeft
from egorecovery.experiments.timing import Timing
from egorecovery.training import RECIPES


def run_suite(
    suite: Suite,
    out: Path,
    *,
    work: Path | None = None,
    tasks: Sequence[str] | None = None,
    seeds: Sequence[int] = (0,),
    only: Sequence[str] = (),
    recipe: RecipeOf = RECIPES["bench"],
    protocol: ProtocolOf = bench_protocol,
    rollouts: int = 20,
    starts_seed: str = COMPARISON,
    budget_minutes: float | None = None,
    executor: Executor = "local",
    workers: int = 0,
    device: str = "auto",
    trainings_at_once: int = 0,
    schedule: dict[str, int] | None = None,
    diagnostics: bool = False,
    films: int = 0,
    on_event: Callable[[Event], None] = lambda event: None,
    elsewhere: Timing | None = None,
) -> SuiteOutcome:
    """Every chosen cell of a suite that is not done. A cell that fails is recorded, and the others go on.

    Data and trainings lie in `work`, or in `out`: suites that are given the same one use each other's.
    Where `budget_minutes` is given, no cell is started that would not be finished by then, and what is under way at
    its end is saved and stopped. `workers` 0 means all cores, and some more for rollouts that wait for a GPU. With
    `diagnostics`, trained policies are diagnosed at the end, time permitting; then `films` rollouts per regime are
    filmed of every task and row. `elsewhere` says how long things took on another machine: the time left that is told
    begins with it.
    """
    if trainings_at_once < 0:
        raise RecipeError(f"trainings_at_once must not be negative, got {trainings_at_once}")
    if films < 0:
        raise RecipeError(f"films must be at least 0, got {films}")
    plan = plan_suite(
        suite,
        tasks=tasks,
        seeds=seeds,
        only=only,
        recipe=recipe,
        protocol=protocol,
        rollouts=rollouts,
        starts_seed=starts_seed,
    )
    folder = ExperimentFolder.create(out, suite.name, work)
    deadline_s = None if budget_minutes is None else time.monotonic() + 60 * budget_minutes
    resources = Resources(
        executor=executor,
        workers=workers,
        device=device,
        trainings_at_once=trainings_at_once or default_trainings(device),
        schedule=schedule or {},
    )
    with folder.lock():
        finished = Timing(card for cell in folder.done() if (card := folder.card(cell)))
        time_left = TimeLeft(finished, resources, elsewhere)
        afterwards = Afterwards(
            cells=plan.cells,
            folder=folder,
            resources=resources,
            deadline_s=deadline_s,
            time_left=time_left,
            on_event=on_event,
            diagnostics=diagnostics,
            films=films,
        )
        afterwards.announce()
        outcome = Scheduler(plan, folder, resources, deadline_s, on_event, time_left, whole_data=diagnostics).go()
        afterwards.go(outcome)
    return outcome
