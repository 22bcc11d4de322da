"""The three policies that ship with the package: a full demo trained them. The quick demo only tries them out."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from egorecovery.demo.details import command, shipped
from egorecovery.demo.outcomes import Outcomes
from egorecovery.demo.plan import METHODS, DemoPlan, demo_protocol
from egorecovery.demo.running import DemoResult, cards_by_method, show
from egorecovery.errors import EgoRecoveryError
from egorecovery.evaluation import REGIMES, Evaluation, ResultFile, RolloutPool, Subject, evaluate
from egorecovery.evaluation.checkpoint_source import CheckpointFactory
from egorecovery.executors import cores
from egorecovery.experiments import Event, ExperimentFolder
from egorecovery.policy.checkpoint import CARD, FILES, latest, open_checkpoint
from egorecovery.policy.checkpoint_card import policy_hash
from egorecovery.storage.atomic_io import write_file
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.checksummed_json import file_sha256, read_checksummed, with_checksum

HOME = Path(str(files("egorecovery.demo"))) / "checkpoints"
PROVENANCE = "provenance.json"


def run_quick(
    out: Path, rollouts: int, films: int, on_event: Callable[[Event], None] = lambda event: None
) -> DemoResult:
    """Rollouts and films with the policies that ship; `out` is a folder of its own."""
    if (out / "suite.json").exists():
        raise EgoRecoveryError(f"{out} holds a full demo; name another folder with --out")
    if not (HOME / PROVENANCE).exists():
        raise EgoRecoveryError(
            f"{HOME} holds no policies: this installation lacks them; run 'egorecovery demo' instead"
        )
    provenance = read_json(HOME / PROVENANCE, EgoRecoveryError)
    plan = replace(DemoPlan(**provenance["plan"]), rollouts=rollouts, films=films)
    protocol = replace(demo_protocol(plan.task), rollouts=rollouts)
    cells = {cell.method: cell.id for cell in plan.suite().cells(seeds=(plan.seed,))}
    records = {}
    with RolloutPool(cores()) as pool:
        for method in METHODS:

            def tried(done: int, total: int, method: str = method) -> None:
                on_event(Event(kind="progress", what=method, label=method, stage="evaluation", done=done, total=total))

            subject = Subject(policy=method, policy_hash=policy_hash(HOME / method), cell=cells[method], seed=plan.seed)
            results = ResultFile(out / "rollouts" / f"{method}.jsonl")
            records[method] = evaluate(
                Evaluation(subject=subject, task=plan.task, protocol=protocol),
                CheckpointFactory(checkpoint=HOME / method),
                results,
                pool=pool,
                on_progress=tried,
            )
    checkpoints = {method: HOME / method for method in METHODS}
    return show(out, plan, records, checkpoints, shipped(plan, provenance), on_event)


def export(demo: Path, plan: DemoPlan, into: Path, revision: str) -> None:
    """Policies of a finished demo as they ship: weights in half precision, without what only resuming needs."""
    folder = ExperimentFolder(demo)
    cards = cards_by_method(folder, plan)
    policies: dict[str, Any] = {}
    for method, (cell, card) in cards.items():
        trained = latest(folder.training(card["training_id"]) / "checkpoints")
        if trained is None:
            raise EgoRecoveryError(f"{cell}: its training has no checkpoint; run the demo again")
        _export_policy(trained, into / method)
        policies[method] = {
            "trained_sha256": file_sha256(trained / FILES[0]),
            "sha256": file_sha256(into / method / FILES[0]),
            "data_hash": card["data_hash"],
            "training_id": card["training_id"],
        }
    records = {method: folder.rollouts(cell).records() for method, (cell, _) in cards.items()}
    provenance = {
        "command": command(plan),
        "revision": revision,
        "seed": plan.seed,
        "plan": vars(plan),
        "policies": policies,
        "rates": _counts(Outcomes(records)),
        "versions": next(iter(cards.values()))[1]["evaluation"]["versions"],
    }
    write_file(into / PROVENANCE, (json.dumps(provenance, indent=1) + "\n").encode())


def _export_policy(trained: Path, into: Path) -> None:
    weights = {
        name: value.to(torch.float16) if value.is_floating_point() else value
        for name, value in open_checkpoint(trained).weights().items()
    }
    into.mkdir(parents=True, exist_ok=True)
    save_file(weights, into / FILES[0])
    card = read_checksummed(trained / CARD)
    card["files"] = {FILES[0]: file_sha256(into / FILES[0])}
    write_file(into / CARD, with_checksum(card))


def _counts(outcomes: Outcomes) -> Mapping[str, Any]:
    return {
        method: {
            str(regime): {"successes": rates[regime].successes, "rollouts": rates[regime].rollouts}
            for regime in REGIMES
        }
        for method, rates in outcomes.rates().items()
    }
