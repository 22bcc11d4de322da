"""The evaluation of one cell, and the policy that it is about."""

import time
from collections.abc import Callable
from dataclasses import asdict

from egorecovery.errors import RecipeError
from egorecovery.evaluation import Evaluation, RolloutPool, Subject, evaluate
from egorecovery.evaluation.checkpoint_source import CheckpointFactory
from egorecovery.experiments.cell import CellPlan
from egorecovery.experiments.folder import ExperimentFolder
from egorecovery.experiments.resources import Resources
from egorecovery.policy.checkpoint_card import policy_hash


def evaluate_cell(
    plan: CellPlan,
    folder: ExperimentFolder,
    resources: Resources,
    pool: RolloutPool | None,
    on_progress: Callable[[int, int], None],
) -> float:
    """Makes the rollouts that are missing, with the last checkpoint; returns how long all of a cell take."""
    factory = policy_of(plan, folder, resources.evaluation_device)
    subject = Subject(
        policy=plan.cell.name,
        policy_hash=policy_hash(factory.checkpoint),
        cell=plan.id,
        seed=plan.cell.seed,
        intervention=asdict(plan.cell.intervention),
    )
    evaluation = Evaluation(
        subject=subject, task=plan.cell.task, protocol=plan.protocol, batch_rows=resources.batch_rows
    )
    there: int | None = None

    def progress(done: int, total: int) -> None:
        nonlocal there
        there = done if there is None else there
        on_progress(done, total)

    started_s = time.monotonic()
    records = evaluate(
        evaluation,
        factory,
        folder.begin_rollouts(plan, subject),
        workers=resources.rollout_workers,
        executor=resources.executor,
        pool=pool,
        on_progress=progress,
    )
    seconds, made = time.monotonic() - started_s, len(records) - (there or 0)
    return seconds * len(records) / max(made, 1)


def policy_of(plan: CellPlan, folder: ExperimentFolder, device: str) -> CheckpointFactory:
    """The last checkpoint of the cell's training, with what the cell does to it at test time."""
    from egorecovery.policy.checkpoint import latest

    run = folder.training(plan.training_id)
    checkpoint = latest(run / "checkpoints")
    if checkpoint is None:
        raise RecipeError(f"the policy is not there: {run} has no checkpoint")
    return CheckpointFactory(checkpoint=checkpoint.absolute(), device=device, intervention=plan.cell.intervention)
