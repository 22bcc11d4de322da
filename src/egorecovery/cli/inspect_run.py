"""`egorecovery inspect` of what `train` wrote."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from egorecovery.cli.console import console, print_json
from egorecovery.cli.words import PLURALS, command
from egorecovery.errors import RecipeError

if TYPE_CHECKING:
    from egorecovery.cli.inspect import Inspect
    from egorecovery.policy.checkpoint import Checkpoint


def is_run(path: Path) -> bool:
    return (path / "checkpoints").is_dir() or any(
        (path / name).is_file() for name in ("checkpoint.json", "recipe.json")
    )


def inspect_run(asked: "Inspect") -> int:
    """A run or one of its checkpoints, in the words of its recipe."""
    from egorecovery.policy.checkpoint import open_checkpoint
    from egorecovery.policy.policy_name import policy_name

    if asked.episode is not None or asked.rollout is not None or asked.sheet or asked.film or asked.rerun:
        raise RecipeError(
            f"{asked.store} is a training run: it has no episodes, and no rollouts before 'egorecovery evaluate'"
        )
    saved = open_checkpoint(asked.store)
    if asked.json:
        print_json({"checkpoint": str(saved.path), "step": saved.step, "recipe": saved.recipe, "data": saved.data})
        return 0
    console.print(f"{asked.store}: {policy_name(saved.recipe, saved.step)}", soft_wrap=True)
    for line in _lines(asked.store, saved):
        console.print(f"  {line}", soft_wrap=True)
    console.print(f"next: {command('evaluate', asked.store)}", soft_wrap=True)
    return 0


def _lines(path: Path, saved: "Checkpoint") -> Iterator[str]:
    from egorecovery.policy.checkpoint import is_step

    config, recipe = saved.config, saved.recipe
    budget = recipe.get("budget") or {}
    trained_on = [f"{budget[source]} {words}" for source, words in PLURALS.items() if budget.get(source)]
    yield f"recipe {recipe.get('name')}, seed {recipe.get('seed')}; trained on {', '.join(trained_on)}"
    yield f"looks through {', '.join(config.cameras)}, {config.image_size} x {config.image_size} pixels"
    yield f"answers chunks of {config.horizon} steps at 25 Hz, in {config.action_space} space"
    yield f"gate and intent: {'yes' if config.correction else 'none'}"
    names = (each.name for each in (path / "checkpoints").glob("step_*"))
    steps = sorted(int(name.removeprefix("step_")) for name in names if is_step(name))
    if steps:
        yield f"checkpoints: {', '.join(f'{step:,}' for step in steps[-8:])}"
