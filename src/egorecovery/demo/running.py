"""The whole demo on one task: collect, train three policies, let them meet the same starts, film, write the page."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egorecovery.demo.details import trained_here
from egorecovery.demo.films import film_starts
from egorecovery.demo.outcomes import Outcomes
from egorecovery.demo.page import write_page
from egorecovery.demo.plan import METHODS, DemoPlan, demo_protocol
from egorecovery.errors import EgoRecoveryError
from egorecovery.evaluation import RolloutRecord
from egorecovery.executors import cores
from egorecovery.experiments import Event, ExperimentFolder, Resources, plan_suite, run_suite
from egorecovery.report import write_report
from egorecovery.storage.atomic_io import write_file

OnEvent = Callable[[Event], None]
SCHEDULE = {"log": 20, "score": 400, "save": 200}  # of trainings, in steps


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    outcomes: Outcomes
    summary: Mapping[str, Any]
    page: Path
    written: tuple[Path, ...]  # all that a reader may want to open


def run_demo(out: Path, plan: DemoPlan, on_event: OnEvent = lambda event: None) -> DemoResult:
    """A demo that was interrupted goes on; one that is done is only shown. Other settings want another `out`."""
    cells = plan_suite(
        plan.suite(), seeds=(plan.seed,), recipe=plan.recipe, protocol=demo_protocol, rollouts=plan.rollouts
    )
    resources = Resources(
        device="cpu",
        trainings_at_once=min(2, cores()),  # processes of one thread: small tensors do not share cores well
        schedule=SCHEDULE,
    )
    outcome = run_suite(cells, out, resources=resources, on_event=on_event)
    if outcome.failed:
        raise EgoRecoveryError("; ".join(f"{cell}: {why}" for cell, why in outcome.failed.items()))
    folder = ExperimentFolder(out)
    cards = cards_by_method(folder, plan)
    records = {method: folder.rollouts(cell).records() for method, (cell, _) in cards.items()}
    checkpoints = {method: _checkpoint(folder, card) for method, (_, card) in cards.items()}
    report = write_report(out).html
    details = trained_here(plan, {method: card for method, (_, card) in cards.items()}, report.name)
    shown = show(out, plan, records, checkpoints, details, on_event)
    return DemoResult(outcomes=shown.outcomes, summary=shown.summary, page=shown.page, written=(*shown.written, report))


def show(
    out: Path,
    plan: DemoPlan,
    records: Mapping[str, Sequence[RolloutRecord]],
    checkpoints: Mapping[str, Path],
    details: Mapping[str, Any],
    on_event: OnEvent,
) -> DemoResult:
    """Films, summary and page of rollouts that are there."""
    outcomes = Outcomes(records)
    chosen = outcomes.to_film(plan.films)

    def filming(done: int, total: int) -> None:
        on_event(Event(kind="progress", what="films", stage="videos", done=done, total=total))

    films = film_starts(
        out / "films", chosen, records, checkpoints, demo_protocol(plan.task), workers=cores(), on_progress=filming
    )
    summary = {**outcomes.summary(plan), **details}
    path = out / "summary.json"
    write_file(path, (json.dumps(summary, indent=1) + "\n").encode())
    page = write_page(out, summary, list(zip(chosen, films, strict=True)))
    return DemoResult(outcomes=outcomes, summary=summary, page=page, written=(page, path, out / "films"))


def cards_by_method(folder: ExperimentFolder, plan: DemoPlan) -> dict[str, tuple[str, dict[str, Any]]]:
    """The demo's three finished cells, with what they say of themselves."""
    conditions = {condition.method: condition for condition in plan.suite().conditions}
    cards = [(cell, card) for cell in folder.done() if (card := folder.card(cell)) and card["seed"] == plan.seed]
    return {method: next(each for each in cards if conditions[method].fits_card(each[1])) for method in METHODS}


def _checkpoint(folder: ExperimentFolder, card: Mapping[str, Any]) -> Path:
    from egorecovery.policy.checkpoint import latest

    checkpoint = latest(folder.training(card["training_id"]) / "checkpoints")
    if checkpoint is None:
        raise EgoRecoveryError(
            f"{folder.training(card['training_id'])} has no checkpoint: the policy cannot be filmed; remove "
            f"{folder.root} and run the demo again"
        )
    return checkpoint
