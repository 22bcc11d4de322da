"""The real architecture at a size that answers in milliseconds, with inputs and statistics to go with it."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from egorecovery.episodes import Camera, Embodiment
from egorecovery.intent import IntentNormaliser, PoolStatistics
from egorecovery.policy import CorrectionConfig, PolicyConfig, VisionConfig
from egorecovery.policy.normaliser import Normaliser, Statistics
from egorecovery.policy.policy import Policy

ROBOTS, HUMANS = 3, 2


def tiny_config(correction: CorrectionConfig | None = None, **changes: Any) -> PolicyConfig:
    sizes: dict[str, Any] = {
        "cameras": (Camera.HEAD, Camera.LEFT_WRIST),
        "image_size": 16,
        "vision": VisionConfig(stem_width=8, widths=(8, 16), depths=(1, 1), group_channels=4),
        "width": 32,
        "heads": 2,
        "mlp_ratio": 2,
        "stem_tokens": 3,
        "action_tokens": 4,
        "blocks": 2,
        "decoder_layers": 2,
        "horizon": 5,
        "correction": correction or CorrectionConfig(film_std=0.5),
    }
    return PolicyConfig(**{**sizes, **changes})


def tiny_policy(correction: CorrectionConfig | None = None, seed: int = 0, **changes: Any) -> Policy:
    """Modulation is strong (film_std 0.5), so that a path through it shows."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Policy(tiny_config(correction, **changes))


def observations(config: PolicyConfig, count: int = ROBOTS + HUMANS, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    side = config.image_size
    images_VB3SS = torch.randn(len(config.cameras), count, 3, side, side, generator=generator)
    return images_VB3SS, torch.randn(count, config.action_dim, generator=generator)


def pictures_and_states(config: PolicyConfig, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """What a robot gives: bytes and radians."""
    rng = np.random.default_rng(seed)
    side = config.image_size
    pictures = rng.integers(0, 256, (count, len(config.cameras), side, side, 3), dtype=np.uint8)
    return pictures, rng.normal(size=(count, config.action_dim)).astype(np.float32)


def statistics(centre: float = 0.0, spread: float = 1.0, dimensions: int = 14) -> Statistics:
    """States as they are; actions with another centre and spread in each dimension, unless these are 0 and 1."""
    along = np.arange(1, dimensions + 1, dtype=np.float32)
    unit = Normaliser(np.zeros(dimensions, np.float32), np.ones(dimensions, np.float32))
    actions = Normaliser(centre * along, np.full(dimensions, spread, np.float32))
    return Statistics(
        state=dict.fromkeys(Embodiment, unit),
        action=dict.fromkeys(Embodiment, actions),
        intent=PoolStatistics(
            scale_m={Embodiment.ROBOT: 0.1, Embodiment.HUMAN: 0.3},
            normaliser=IntentNormaliser(np.array([1.0, 0.5, 0.25, 0.125])),
            windows={Embodiment.ROBOT: 40, Embodiment.HUMAN: 90},
        ),
    )
