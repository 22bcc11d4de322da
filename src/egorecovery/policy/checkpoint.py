"""Checkpoints: safetensors and one sealed JSON, written whole or not at all. Nothing in them can run code.

checkpoints/step_00002000/policy.safetensors     weights to use (the average, where one is kept)
                          training.safetensors   what resuming needs: master weights, optimiser, clipping
                          checkpoint.json        recipe, statistics, data hashes, SHA-256 of both; written last

To use a policy elsewhere, its weights and the card are enough.
"""

import os
import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from egorecovery.episodes.beside import around, beside, within
from egorecovery.errors import CheckpointError, RecipeError, StoreDamaged, StoreError
from egorecovery.policy.checkpoint_card import FILES, FORMAT, CheckpointCard, statistics_from_json, statistics_to_json
from egorecovery.policy.config import PolicyConfig
from egorecovery.policy.normaliser import Statistics
from egorecovery.policy.plausible import (
    require_fitting_statistics,
    require_plausible_size,
    require_plausible_statistics,
)
from egorecovery.storage.atomic_io import make_folder, sync_directory, sync_file, write_file
from egorecovery.storage.checksummed_json import file_sha256, read_checksummed, with_checksum
from egorecovery.storage.containment import exists, inside, is_file, is_folder, names_in, remove
from egorecovery.storage.typed_json import from_json

CARD = "checkpoint.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """The card of a checkpoint; tensors are checked and read when asked for, so that a policy needs only its own."""

    path: Path
    step: int
    recipe: dict[str, Any]  # as JSON: what reads a policy need not know how it was trained
    statistics: Statistics
    data: str  # hash of all training episodes and labels
    revision: str | None  # of the code
    gate_sample: list[float]  # gates of held-out robot frames, for the shuffled-gate intervention
    files: dict[str, str]  # SHA-256 by name
    computed: dict[str, str] = field(default_factory=dict)  # device, precision...; older ones do not say

    @property
    def config(self) -> PolicyConfig:
        """Refused where it cannot be that of the weights: whoever asks is about to make a network of that size."""
        config = from_json(PolicyConfig, self.recipe.get("policy"), "recipe.policy", RecipeError)
        require_plausible_size(config, inside(self.path, FILES[0]))
        require_fitting_statistics(self.statistics, config, self.path / CARD)
        return config

    def weights(self) -> dict[str, Tensor]:
        """Finite ones: a policy with a NaN in it would act on nothing else."""
        tensors = self._tensors(FILES[0])
        for name, value in tensors.items():
            if not torch.isfinite(value).all():
                raise CheckpointError(f"{self.path / FILES[0]}: {name} is not finite; use an earlier checkpoint")
        return tensors

    def training_state(self) -> dict[str, Tensor]:
        return self._tensors(FILES[1])

    def _tensors(self, name: str) -> dict[str, Tensor]:
        file = inside(self.path, name)
        if not is_file(file) or file_sha256(file) != self.files.get(name):
            why = "resuming needs it; " if name == FILES[1] else ""
            raise CheckpointError(f"{file}: missing or damaged; {why}use an earlier checkpoint")
        try:
            return load_file(file)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{file}: cannot be read: {error}") from error


def save(
    folder: Path,
    *,
    step: int,
    recipe: dict[str, Any],
    statistics: Statistics,
    data: str,
    revision: str | None,
    gate_sample: list[float],
    computed: dict[str, str],
    weights: dict[str, Tensor],
    training_state: dict[str, Tensor],
) -> Path:
    """Files first, the card last, then one rename: killed at any point, the checkpoint is whole or absent."""
    final = folder / f"step_{step:08d}"
    folder = _own(folder)
    make_folder(folder)
    draft = inside(folder, f".draft_step_{step:08d}.{os.getpid()}")
    for leftover in incomplete(folder):  # a run has one writer, so whoever began these is dead
        remove(leftover)
    try:
        draft.mkdir()
        for name, tensors in zip(FILES, (weights, training_state), strict=True):
            save_file({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, draft / name)
            sync_file(draft / name)
        card = {
            "format": FORMAT,
            "step": step,
            "recipe": recipe,
            "statistics": statistics_to_json(statistics),
            "data": data,
            "revision": revision,
            "gate_sample": gate_sample,
            "computed": computed,
            "files": {name: file_sha256(draft / name) for name in FILES},
        }
        write_file(draft / CARD, with_checksum(card))
        replaced = draft.with_name(f"{draft.name}.replaced")
        if exists(final):  # a run that went back to an older checkpoint comes here again
            final.rename(replaced)  # not removed in its place: killed halfway, it would look like a checkpoint
        draft.rename(final)
        sync_directory(folder)
        if exists(replaced):
            remove(replaced)
    except (OSError, SafetensorError, StoreError) as error:
        with suppress(OSError):
            remove(draft)  # on a full disk its room is wanted
        raise CheckpointError(
            f"{final}: cannot be saved: {error}; earlier checkpoints are intact; free space, then use --resume"
        ) from error
    return final


def open_checkpoint(path: Path) -> Checkpoint:
    """Reads and checks the card. A run's folder means its latest checkpoint."""
    if is_folder(path / "checkpoints"):
        path = latest(path / "checkpoints") or path
    if not exists(path / CARD):
        raise CheckpointError(_no_checkpoint(path))
    try:
        card = read_checksummed(inside(path, CARD))
    except StoreDamaged as error:
        raise CheckpointError(f"{error}; use an earlier checkpoint") from None
    if card.get("format") != FORMAT:
        raise CheckpointError(f"{path}: format is {card.get('format')!r}, this version reads {FORMAT!r}")
    card = from_json(CheckpointCard, card, f"{path / CARD}: ", CheckpointError, "use an earlier checkpoint")
    statistics = statistics_from_json(card["statistics"])
    require_plausible_statistics(statistics, path / CARD)
    return Checkpoint(
        path=path,
        step=card["step"],
        recipe=dict(card["recipe"]),
        statistics=statistics,
        data=card["data"],
        revision=card["revision"],
        gate_sample=list(map(float, card["gate_sample"])),
        files=dict(card["files"]),
        computed=dict(card.get("computed", {})),
    )


def _no_checkpoint(path: Path) -> str:
    """What lies there instead, and what would help."""
    if not path.exists():
        return f"{path} does not exist; name a run or a checkpoint"
    hint = "name a training run or one of its checkpoints" + (within(path, "run") or around(path))
    if exists(path / "store.json"):
        made = beside(path, "run") or "; 'egorecovery train' makes one"
        return f"{path} is a store of episodes, not a training run: name the run of a policy trained on it{made}"
    if exists(path / "recipe.json"):
        again = f"'egorecovery train STORE --run {shlex.quote(str(path))} --resume'"
        hint = f"it is a training run that has saved none yet: {again} trains on"
    return f"{path}: there is no checkpoint here (no {CARD}): {hint}"


def latest(folder: Path) -> Path | None:
    """The checkpoint of the highest step that was committed."""
    steps = [name for name in names_in(_own(folder)) if is_step(name) and exists(folder / name / CARD)]
    return inside(folder, steps[-1]) if steps else None


def is_step(name: str) -> bool:
    """Whether a folder of this name is a checkpoint; people keep copies beside them, such as step_00001200_backup."""
    return name.startswith("step_") and name.removeprefix("step_").isdecimal()


def incomplete(folder: Path) -> list[Path]:
    """What a kill during a save left behind."""
    return [folder / name for name in names_in(_own(folder)) if name.startswith(".draft_step_")]


def _own(folder: Path) -> Path:
    """A run's `checkpoints/`, which is no link to another folder."""
    return inside(folder.parent, folder.name)


def load_into(module: torch.nn.Module, weights: dict[str, Tensor], where: Path) -> None:
    own = module.state_dict()
    wrong = [name for name in {**own, **weights} if name not in own or name not in weights]
    wrong += [name for name in own if name in weights and weights[name].shape != own[name].shape]
    if wrong:
        raise CheckpointError(f"{where}: {wrong[0]} does not fit the policy of its recipe")
    module.load_state_dict(weights)
