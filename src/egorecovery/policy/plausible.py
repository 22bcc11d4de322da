"""Whether a configuration can be that of the weights beside it, found out before anything of its size is made."""

from pathlib import Path

import numpy as np

from egorecovery.errors import CheckpointError
from egorecovery.policy.config import PolicyConfig
from egorecovery.policy.normaliser import Normaliser, Statistics

LEAST_BYTES = 2  # per weight: half precision
MOST_PLACES = 1 << 27  # numbers that say where the cells of a picture lie; computed, not stored


def require_plausible_size(config: PolicyConfig, weights: Path) -> None:
    """A lower bound of each part must fit into the file, or the configuration is another policy's, or hostile."""
    try:
        room = weights.stat().st_size // LEAST_BYTES
    except OSError as error:
        raise CheckpointError(f"{weights}: cannot be read: {error}; use another checkpoint") from None
    width, vision = config.width, config.vision
    parts = {
        "blocks": config.blocks * width * width,
        "decoder_layers": config.decoder_layers * width * width,
        "mlp_ratio": config.mlp_ratio * width * width,
        "stem_tokens": config.stem_tokens * width,
        "action_tokens": config.action_tokens * width,
        "horizon": config.horizon * width,
        "action_dim": config.action_dim * width,
        "intent_dim": (config.correction.intent_dim if config.correction else 1) * width,
        "vision": len(config.cameras) * sum(n * w * w // 4 for n, w in zip(vision.depths, vision.widths, strict=True)),
        "vision.stem_width": vision.stem_width,
    }
    for name, least in parts.items():
        if least > room:
            raise CheckpointError(
                f"{weights}: policy.{name} asks for at least {least:.3g} weights, the file has room for {room:.3g}: "
                "the checkpoint's configuration is not that of its weights; use another checkpoint"
            )
    if config.cells_along_side**2 * width > MOST_PLACES:
        raise CheckpointError(
            f"{weights}: policy.image_size {config.image_size} is larger than any this program trains"
        )


def require_plausible_statistics(statistics: Statistics, where: Path) -> None:
    """Finite numbers, positive where something is divided by them."""
    for kind in ("state", "action"):
        for who, normaliser in getattr(statistics, kind).items():
            if not _usable(normaliser):
                raise CheckpointError(f"{where}: statistics.{kind}.{who} are not finite numbers with positive spread")
    intent = statistics.intent
    if intent is not None:
        divisor = intent.normaliser.divisor
        scales = [float(scale) for scale in intent.scale_m.values()]
        if divisor.ndim != 1 or not (np.isfinite(divisor) & (divisor > 0)).all() or not all(map(_positive, scales)):
            raise CheckpointError(f"{where}: statistics.intent are not positive finite numbers")
    if not _positive(statistics.speed_ratio):
        raise CheckpointError(f"{where}: statistics.speed_ratio is not a positive finite number")


def require_fitting_statistics(statistics: Statistics, config: PolicyConfig, where: Path) -> None:
    """As many numbers as the policy's states and actions have."""
    for kind in ("state", "action"):
        for who, normaliser in getattr(statistics, kind).items():
            if len(normaliser.centre_A) != config.action_dim:
                raise CheckpointError(
                    f"{where}: statistics.{kind}.{who} are of {len(normaliser.centre_A)} numbers, the policy of "
                    f"{config.action_dim}"
                )


def _usable(each: Normaliser) -> bool:
    centre_A, spread_A = each.centre_A, each.spread_A
    same = centre_A.ndim == 1 and centre_A.shape == spread_A.shape
    return same and bool(np.isfinite(centre_A).all() and (np.isfinite(spread_A) & (spread_A > 0)).all())


def _positive(value: float) -> bool:
    return 0 < value < 1e300  # a whole number may be too large for `math.isfinite`
