"""AdamW over all weights at once, laid end to end in one row, without a number that the host has to know.

So a CUDA graph can hold the update. `torch.optim.AdamW` to rounding, plus clipping, a working copy in another precision
and a running average in the same pass.
"""

# W all trained weights, in one row

from math import log

import torch
from jaxtyping import Float, Float32
from torch import Tensor

BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-8


def pace_and_spread(
    step: Float32[Tensor, ""], rate: Float32[Tensor, ""]
) -> tuple[Float32[Tensor, ""], Float32[Tensor, ""]]:
    """Of the update after so many: the rate and the root of the second moment's scale, corrected for the start at 0."""
    counted = step + 1
    # 1 - beta^count, by expm1: in float32 the plain difference has lost three digits at beta 0.999.
    return rate / -torch.expm1(counted * log(BETA_1)), (-torch.expm1(counted * log(BETA_2))).sqrt()


@torch.no_grad()
def adamw_(
    master_W: Float32[Tensor, " W"],
    gradient_W: Float[Tensor, " W"],
    first_W: Float32[Tensor, " W"],
    second_W: Float32[Tensor, " W"],
    step: Float32[Tensor, ""],
    *,
    rate: Float32[Tensor, ""],
    factor: Float32[Tensor, ""],
    stopped: Float32[Tensor, ""],
    pace: Float32[Tensor, ""],
    spread: Float32[Tensor, ""],
    betas: tuple[float, float],
    epsilon: float,
    weight_decay: float,
    working_W: Float[Tensor, " W"] | None = None,
    average_W: Float32[Tensor, " W"] | None = None,
    average_decay: float = 0.0,
) -> None:
    """One update of `master_W` and its moments with `factor` times the gradient; `step` counts the updates made.

    The working copy and the running average follow. Where `stopped` is not 0 nothing changes: it chooses by `where`,
    since a captured graph cannot branch. `pace` and `spread` are `pace_and_spread` of this step and rate.
    """
    clipped_W = gradient_W.float() * factor
    new_first_W = first_W + (clipped_W - first_W) * (1 - betas[0])
    new_second_W = second_W * betas[1] + clipped_W.square() * (1 - betas[1])
    # One subtraction, since 1 - rate * decay is exactly 1 in float32 at the paper's rate and decay.
    change_W = pace * new_first_W / (new_second_W.sqrt() / spread + epsilon)
    new_master_W = master_W - (change_W + rate * weight_decay * master_W)
    changes = [(first_W, new_first_W), (second_W, new_second_W), (master_W, new_master_W)]
    if working_W is not None:
        changes.append((working_W, new_master_W.to(working_W.dtype)))
    if average_W is not None:
        changes.append((average_W, average_W + (new_master_W - average_W) * (1 - average_decay)))
    for old_W, new_W in changes:
        old_W.copy_(torch.where(stopped == 0, new_W, old_W))
    step.add_(stopped == 0)
