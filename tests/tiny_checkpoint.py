"""Real checkpoints of tiny policies on disk, without training."""

from pathlib import Path
from typing import Any

from egorecovery.episodes import Camera
from egorecovery.policy import checkpoint
from egorecovery.storage.typed_json import to_json
from egorecovery.training.recipe import demo
from tiny_policy import statistics, tiny_policy


def save_tiny(run: Path, step: int = 20, seed: int = 0, recipe: dict[str, Any] | None = None, **changes: Any) -> Path:
    """A run whose latest checkpoint looks through all three cameras."""
    policy = tiny_policy(seed=seed, **{"cameras": tuple(Camera), **changes})
    return checkpoint.save(
        run / "checkpoints",
        step=step,
        recipe={**to_json(demo("cube_stack")), "policy": to_json(policy.config), **(recipe or {})},
        statistics=statistics(spread=0.1, dimensions=policy.config.action_dim),
        data="abc",
        revision=None,
        gate_sample=[],
        computed={},
        weights=policy.state_dict(),
        training_state={},
    )
