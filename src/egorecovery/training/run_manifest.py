"""What binds a run's own files: written when a training ends or stops, so that a changed log or recipe is found.

Checkpoints have cards of their own, and so have an experiment's `job.json` and `training.json`.
"""

import json
from pathlib import Path

from egorecovery.errors import EgoRecoveryError, StoreDamaged
from egorecovery.policy.checkpoint import incomplete, open_checkpoint
from egorecovery.policy.checkpoint_damage import checkpoint_damages
from egorecovery.storage.bounded_json import BadJson, parse_json
from egorecovery.storage.checksummed_json import file_sha256, read_checksummed
from egorecovery.storage.containment import (
    exists,
    inside,
    is_folder,
    names_in,
    read_bytes,
    special_files,
)
from egorecovery.storage.drafts import leftovers, remove_drafts_of_the_dead
from egorecovery.storage.manifest import MANIFEST, Damage, Manifest
from egorecovery.training.logs import read_log

SEALED = ("job.json", "training.json")
BOUND = ("recipe.json", "log.jsonl")


def seal_run(run: Path) -> None:
    """The hashes of what a training says beside its checkpoints; TensorBoard's files are a view of its log."""
    Manifest(files={name: file_sha256(inside(run, name)) for name in BOUND if exists(run / name)}).write(run)


def unseal_run(run: Path) -> None:
    """A training begins: its files are about to change, and must until now be those that the last one wrote."""
    if is_folder(run):
        remove_drafts_of_the_dead(run)
    if not exists(run / MANIFEST):
        return
    for damage in Manifest.read(run).changes(run):
        raise StoreDamaged(f"{damage}; or remove {MANIFEST} to go on all the same")
    (run / MANIFEST).unlink()


def run_damages(run: Path) -> list[Damage]:
    damages = [Damage(path, "is a link or a special file", "remove it") for path in special_files(run)]
    if damages:
        return damages
    damages += [Damage(*leftover) for leftover in leftovers(run)]
    damages += _own_files(run)
    for name in SEALED:
        try:
            if exists(run / name):
                read_checksummed(inside(run, name))
        except (StoreDamaged, OSError) as error:
            damages.append(Damage(run / name, str(error), "restore it from a copy, or remove it"))
    try:
        read_log(run / "log.jsonl")
    except (StoreDamaged, OSError) as error:
        damages.append(Damage(run / "log.jsonl", str(error)))
    home = run / "checkpoints"
    for leftover in incomplete(home):
        damages.append(Damage(leftover, "was left by a save that was killed", "remove it, or train on with --resume"))
    steps = [name for name in names_in(home) if not name.startswith(".draft_step_")]
    for name in steps:
        if not is_folder(home / name) or not name.startswith("step_"):
            damages.append(Damage(home / name, "is no checkpoint", "remove it"))
            continue
        damages += checkpoint_damages(home / name) or _other_recipe(run, home / name)
    return damages


def run_notes(run: Path) -> list[str]:
    if exists(run / MANIFEST):
        return []
    return [f"{run} has no {MANIFEST}: its training is not finished, or older; its log and recipe cannot be checked"]


def _own_files(run: Path) -> list[Damage]:
    if not exists(run / MANIFEST):
        return []
    try:
        return Manifest.read(run).changes(run)
    except (StoreDamaged, OSError) as error:
        return [Damage(run / MANIFEST, str(error), "restore it from a copy, or remove it to go without")]


def _other_recipe(run: Path, step: Path) -> list[Damage]:
    path = run / "recipe.json"
    if not exists(path):
        return []
    try:
        recipe = parse_json(read_bytes(path))
        same = json.dumps(recipe, sort_keys=True) == json.dumps(open_checkpoint(step).recipe, sort_keys=True)
    except (BadJson, EgoRecoveryError, OSError) as error:
        return [Damage(path, str(error))]
    return [] if same else [Damage(path, f"is not the recipe that {step.name} was trained with")]
