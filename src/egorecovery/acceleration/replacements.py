"""What replaces the plain operations of a training step (see `training.backend`)."""

# B batch, V views, S picture side

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from egorecovery.acceleration import kernels
from egorecovery.acceleration.kernels.adamw import adamw_
from egorecovery.acceleration.modules import PARTS, Part, accelerate
from egorecovery.acceleration.streams import HIGH_PRIORITY, launch_async, run_concurrently, tensors_in
from egorecovery.errors import RecipeError
from egorecovery.policy.augmentation import augmented
from egorecovery.policy.config import LossWeights
from egorecovery.policy.objective import Targets, summed, terms_of
from egorecovery.policy.policy import Prediction


def replacements(device: torch.device, parts: Collection[Part] = PARTS) -> dict[str, Any]:
    """By the name of the operation. One set belongs to one training: it keeps that training's ledger."""
    replaced: dict[str, Any] = {"prepare": partial(accelerate, parts=parts)}
    in_cells = "stem" in parts and device.type == "cuda"
    if in_cells or "augmentation" in parts:
        gather = _gathered_by_kernel if "augmentation" in parts else _gathered_by_torch
        replaced["augmented"] = partial(gather, in_cells=in_cells)
    if "optimiser" in parts:
        replaced["adamw_"] = adamw_
    if "deferred_gradients" in parts:
        replaced["backward"] = DeferringBackward()
    if "streams" in parts:
        replaced |= {
            "launch": lambda purpose, work, *given: launch_async(purpose, device, work, *given),
            "objective": concurrent_objective,
            "stream_priority": HIGH_PRIORITY,
        }
    return replaced


def chosen_parts(names: Collection[str] | None) -> Collection[Part]:
    """All, where none are named."""
    unknown = sorted(set(names or ()) - set(PARTS))
    if unknown:
        raise RecipeError(f"acceleration has no part '{unknown[0]}'; its parts are {', '.join(PARTS)}")
    return PARTS if names is None else tuple(part for part in PARTS if part in names)


class DeferringBackward:
    """A backward pass that computes its weight gradients together, at its end."""

    def __init__(self) -> None:
        self._ledger: kernels.Ledger | None = None

    def __call__(self, loss: Tensor, destinations: Mapping[int, Tensor]) -> None:
        if self._ledger is None or self._ledger.destinations is not destinations:
            self._ledger = kernels.Ledger(destinations)
        with kernels.deferring(self._ledger):
            loss.backward()


def concurrent_objective(prediction: Prediction, targets: Targets, weights: LossWeights) -> dict[str, Tensor]:
    """`policy.objective.objective` of a whole batch, every term on a stream of its own."""
    terms = terms_of(prediction, targets, weights)
    branches: list[Callable[[], tuple[Tensor, Tensor]]] = [term.with_share for term in terms.values()]
    losses = run_concurrently(branches, *tensors_in(prediction), *tensors_in(targets))
    return summed(dict(zip(terms, losses, strict=True)))


def _gathered_by_kernel(
    frames_FVHW3: Tensor,
    index_B: Tensor,
    colour_B34: Tensor,
    crop_BV5: Tensor,
    mean_3: Tensor,
    deviation_3: Tensor,
    dtype: torch.dtype,
    *,
    in_cells: bool,
) -> Tensor:
    return kernels.gather_augmented(
        frames_FVHW3, index_B, colour_B34, crop_BV5, mean_3, deviation_3, dtype=dtype, space_to_depth=in_cells
    )


def _gathered_by_torch(*given: Any, in_cells: bool) -> Tensor:
    images_VB3SS = augmented(*given)
    return kernels.in_cells(images_VB3SS) if in_cells else images_VB3SS
