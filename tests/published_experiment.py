"""Finished cells of a tiny suite as a run leaves them, without the hours of a run."""

import shutil
from pathlib import Path

from egorecovery.evaluation import Subject
from egorecovery.evaluation.results import RolloutRecord
from egorecovery.experiments import ExperimentFolder, plan_suite
from egorecovery.experiments.cell import CellPlan
from egorecovery.experiments.videos import bind_films
from tiny_experiment import SUITE, protocol, recipe

ROLLOUTS = 2


def rollout(cell: CellPlan, regime: str, index: int) -> RolloutRecord:
    return RolloutRecord(
        subject=Subject(policy="full", policy_hash="ab", cell=cell.id, seed=cell.cell.seed),
        task=cell.cell.task,
        regime=regime,
        index=index,
        start={"mode": "nominal"},
        protocol=cell.protocol.identity(),
        outcome="success",
        reason="",
        duration_s=1.0,
        retries=0,
        decisions=3,
    )


def published(root: Path, *, bound_films: bool = False) -> Path:
    """`bound_films`: as `experiment --film` of this version leaves them, with their hashes beside them."""
    folder = ExperimentFolder.create(root, SUITE.name)
    plan = plan_suite(SUITE, recipe=recipe, protocol=protocol, rollouts=ROLLOUTS, starts_seed="tests")
    training = {
        "data_hash": "d" * 64,
        "seconds": 3.0,
        "steps": 4,
        "samples_per_s": 10.0,
        "scores": {"action_error/robot": 0.5},
        "hardware": {"device": "cpu", "cpu_count": 2},
        "revision": "abc",
    }
    for cell in plan.cells:
        run = folder.training(cell.training_id)
        run.mkdir(parents=True, exist_ok=True)
        (run / "log.jsonl").write_text('{"step": 1, "kind": "train", "loss": 1.0}\n')
        results = folder.begin_rollouts(cell, rollout(cell, "initial", 0).subject)
        results.append_all([rollout(cell, regime, n) for regime in ("initial", "recovery") for n in range(ROLLOUTS)])
        folder.finish(cell, training, 2.0)
        films = folder.cell(cell.id) / "films"
        films.mkdir()
        (films / "initial_000_success.mp4").write_bytes(b"film")
        if bound_films:
            bind_films(films)
    shutil.rmtree(folder.root / "trainings")
    return folder.root
