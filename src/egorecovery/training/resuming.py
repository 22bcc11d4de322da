"""What a resumed run must have in common with the interrupted one, and how it restores its state."""

import subprocess
from pathlib import Path

import torch
from torch import Tensor

from egorecovery.errors import CheckpointError, RecipeError
from egorecovery.policy.checkpoint import Checkpoint, incomplete, latest, load_into, open_checkpoint
from egorecovery.policy.config_json import differences
from egorecovery.storage.bounded_json import BadJson, parse_json
from egorecovery.storage.containment import exists, inside, read_bytes
from egorecovery.storage.typed_json import from_json
from egorecovery.training.recipe import Recipe
from egorecovery.training.runtime import Runtime
from egorecovery.training.step import TrainingStep
from egorecovery.training.weights import Weights


def saved_recipe(run: Path) -> Recipe | None:
    """What a run trains with: of its latest checkpoint, or of a run that has none yet; None where there is no run."""
    if latest(run / "checkpoints") is not None:
        return from_json(Recipe, open_checkpoint(run).recipe, "recipe", RecipeError)
    path = inside(run, "recipe.json")
    if not exists(path):
        return None
    try:
        return from_json(Recipe, parse_json(read_bytes(path)), f"{path}: ", RecipeError)
    except BadJson as error:
        raise CheckpointError(f"{path} is not JSON ({error}); remove the run and train again") from None


def revision() -> str | None:
    """The code's git revision, where it runs from a checkout."""
    asked = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None


def checkpoint_to_resume(run: Path, recipe: Recipe, data: str, resume: bool, runtime: Runtime) -> Checkpoint | None:
    folder = run / "checkpoints"
    there = latest(folder)
    if there and not resume:
        raise CheckpointError(f"{run} already has a checkpoint ({there.name}); use --resume, or another --run")
    for leftover in incomplete(folder) if runtime.first else ():
        print(f"{leftover}: an incomplete checkpoint, left by a save that was killed; it is not used")
    if there is None:
        return None
    checkpoint = open_checkpoint(there)
    unlike = differences(from_json(Recipe, checkpoint.recipe, "recipe", RecipeError), recipe)
    if unlike:
        raise CheckpointError(
            f"{there} was trained with another recipe: {'; '.join(unlike)}. With --resume leave these options out: the "
            "run has its recipe; or train anew with another --run"
        )
    if checkpoint.data != data:
        raise CheckpointError(
            f"{there} was trained on other data: episodes or labels of the store have changed since; "
            "train anew with another --run"
        )
    now = runtime.words
    known = [(name, before) for name, before in checkpoint.computed.items() if name in now]
    changed = [f"{name} {before}, now {now[name]}" for name, before in known if now[name] != before]
    if changed and runtime.first:
        print(f"{there} was computed with {'; '.join(changed)}: it continues, but not bit for bit")
    return checkpoint


def restore(found: Checkpoint, weights: Weights, step: TrainingStep) -> None:
    state = found.training_state()
    try:
        _restore(found, state, weights, step)
    except (KeyError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{found.path}: its training state does not fit this recipe ({error})") from None


def _restore(found: Checkpoint, state: dict[str, Tensor], weights: Weights, step: TrainingStep) -> None:
    master = {name.removeprefix("master."): value for name, value in state.items() if name.startswith("master.")}
    load_into(weights.master, master, found.path)
    with torch.no_grad():
        for index, value in enumerate(weights.average or []):
            value.copy_(state[f"average.{index:04d}"])
    if not weights.shared:
        weights.working.load_state_dict(weights.master.state_dict())
    step.load(state)
