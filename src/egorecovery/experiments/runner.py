"""Runs a suite: data, trainings, evaluations; what is done already is skipped, what was interrupted goes on."""

from collections.abc import Callable
from pathlib import Path

from egorecovery.errors import RecipeError
from egorecovery.experiments.deadline import Deadline
from egorecovery.experiments.diagnosing import diagnose_cells
from egorecovery.experiments.events import Event, Stage, SuiteOutcome
from egorecovery.experiments.folder import ExperimentFolder
from egorecovery.experiments.plan import SuitePlan
from egorecovery.experiments.resources import Resources
from egorecovery.experiments.scheduler import Scheduler
from egorecovery.experiments.videos import film_cells


def run_suite(
    plan: SuitePlan,
    out: Path,
    *,
    work: Path | None = None,
    resources: Resources | None = None,
    budget_minutes: float | None = None,
    diagnostics: bool = False,
    films: int = 0,
    on_event: Callable[[Event], None] = lambda event: None,
) -> SuiteOutcome:
    """Every planned cell that is not done. A cell that fails is recorded, and the others go on.

    Data and trainings lie in `work`, or in `out`: suites that are given the same one use each other's. After
    `budget_minutes` nothing is started, and what is under way is saved and stopped. With `diagnostics`, trained
    policies are diagnosed at the end, time permitting; then `films` rollouts per regime of every task and condition
    are filmed.
    """
    if films < 0:
        raise RecipeError(f"films must be at least 0, got {films}")
    resources = resources or Resources()
    folder = ExperimentFolder.create(out, plan.suite.name, work)
    deadline = Deadline.in_minutes(budget_minutes)
    with folder.lock():
        outcome = Scheduler(plan, folder, resources, deadline, on_event, whole_data=diagnostics).go()

        def report(stage: Stage, what: str, done: int, total: int) -> None:
            left = len(outcome.left)
            on_event(Event(kind="progress", stage=stage, what=what, done=done, total=total, cells_left=left))

        if diagnostics:
            outcome.diagnosed = diagnose_cells(plan.cells, folder, resources, deadline, report)
        if films:
            outcome.filmed = film_cells(plan.cells, folder, resources.evaluation_device, films, deadline, report)
    return outcome
