"""Frames as a policy takes them: how many at once, and the one loop over recorded ones (validation, diagnostics)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from numpy import ndarray
from torch import Tensor

from egorecovery.episodes import Embodiment
from egorecovery.policy.pixels import plain_images

AT_ONCE = 64  # frames: enough for any device, little memory


def parts_at_once(frames: int) -> Iterator[slice]:
    return (slice(first, first + AT_ONCE) for first in range(0, frames, AT_ONCE))


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameBatch:
    """The first three arguments of a policy, of frames of one embodiment."""

    rows: Int64[ndarray, " B"]
    images_VB3SS: Tensor
    state_BA: Tensor
    robots: int


def frame_batches(
    rows: Int64[ndarray, " F"],
    embodiment: Embodiment,
    pictures: Callable[[Int64[ndarray, " B"]], Tensor],
    states: Callable[[Int64[ndarray, " B"]], Float[ndarray, "B A"]],
    device: torch.device,
    precision: torch.dtype,
) -> Iterator[FrameBatch]:
    """`pictures` and `states` give those of some rows; pictures are (B, V, S, S, 3), bytes."""
    for part in (rows[chosen] for chosen in parts_at_once(len(rows))):
        yield FrameBatch(
            rows=part,
            images_VB3SS=plain_images(pictures(part).to(device), precision),
            state_BA=torch.from_numpy(states(part)).to(device, precision),
            robots=len(part) if embodiment is Embodiment.ROBOT else 0,
        )
