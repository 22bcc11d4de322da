"""Runs a suite: data, trainings, evaluations; what is done already is skipped, what was broken off goes on."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from egorecovery.errors import RecipeError
from egorecovery.evaluation import COMPARISON, bench_protocol
from egorecovery.executors import Executor
from egorecovery.experiments.cell import ProtocolOf, RecipeOf
from egorecovery.experiments.diagnosing import diagnose_cells
from egorecovery.experiments.events import Event, Stage, SuiteOutcome
from egorecovery.experiments.filming import film_cells
from egorecovery.experiments.folder import ExperimentFolder
from egorecovery.experiments.plan import plan_suite
from egorecovery.experiments.resources import Resources, default_trainings
from egorecovery.experiments.scheduler import Scheduler
from egorecovery.experiments.suites import Suite
from egorecovery.training import RECIPES


def run_suite(
    suite: Suite,
    out: Path,
    *,
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
) -> SuiteOutcome:
    """Every chosen cell of a suite that is not done. A cell that fails is recorded, and the others go on.

    Where `budget_minutes` is given, no cell is started that would not be finished by then, and what is under way at
    its end is saved and stopped. `workers` 0 means all cores, and some more for rollouts that wait for a GPU. With
    `diagnostics`, trained policies are diagnosed at the end, time permitting; then `films` rollouts per regime are
    filmed of every task and row.
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
    folder = ExperimentFolder.create(out, suite.name)
    deadline_s = None if budget_minutes is None else time.monotonic() + 60 * budget_minutes
    resources = Resources(
        executor=executor,
        workers=workers,
        device=device,
        trainings_at_once=trainings_at_once or default_trainings(device),
        schedule=schedule or {},
    )
    with folder.lock():
        outcome = Scheduler(plan, folder, resources, deadline_s, on_event, whole_data=diagnostics).go()

        def tell(stage: Stage, what: str, done: int, total: int) -> None:
            left = len(outcome.left)
            on_event(Event(kind="progress", what=what, stage=stage, done=done, total=total, cells_left=left))

        if diagnostics:

            def diagnosing(task: str, what: str, done: int, total: int) -> None:
                tell("diagnostics", f"{task} {what}", done, total)

            outcome.diagnosed.update(diagnose_cells(plan.cells, folder, device, deadline_s, diagnosing))
        if films:

            def filming(cell: str, done: int, total: int) -> None:
                tell("films", cell, done, total)

            seen_on = resources.evaluation_device
            outcome.filmed.update(film_cells(plan.cells, folder, seen_on, films, deadline_s, filming))
    return outcome
