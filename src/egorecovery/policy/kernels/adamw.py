"""AdamW over all weights at once, laid end to end in one row: one kernel reads and writes every number once.

Nothing that changes from step to step is a host number, so a CUDA graph can hold the update.
"""

# W all trained weights, in one row
from math import log
from typing import no_type_check

import torch
from jaxtyping import Float, Float32
from torch import Tensor

from egorecovery.policy.kernels.dispatch import ceil_div, jit, runs_fused, tl

BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-8
BLOCK = 1024  # weights of one program: 8 per thread, so that bfloat16 too is read 16 bytes at a time
WARPS = 4


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
    weight_decay: float,
    working_W: Float[Tensor, " W"] | None = None,
    average_W: Float32[Tensor, " W"] | None = None,
    average_decay: float = 0.0,
    ahead: tuple[Float32[Tensor, ""], Float32[Tensor, ""]] | None = None,
) -> None:
    """One update of `master_W` and its moments with `factor` times the gradient; `step` counts the updates made.

    The working copy and the running average follow in the same pass. Where `stopped` is not 0 nothing changes.
    `ahead` is what `pace_and_spread` said of this step and rate, where that was asked early.
    """
    pace, spread = ahead or pace_and_spread(step, rate)
    row = (master_W, gradient_W, first_W, second_W, working_W, average_W)
    if runs_fused(*row, rate, factor, stopped):
        assert all(each is None or each.is_contiguous() for each in row), "weights must lie in one row"
        _adamw_kernel[(ceil_div(len(master_W), BLOCK),)](
            *row, step, rate, factor, stopped, pace, spread, len(master_W),
            BETA_1=BETA_1, BETA_2=BETA_2, EPSILON=EPSILON, DECAY=weight_decay, AVERAGE_DECAY=average_decay,
            HAS_WORKING=working_W is not None, HAS_AVERAGE=average_W is not None, BLOCK=BLOCK, num_warps=WARPS,
        )  # fmt: skip
    else:
        _plain_adamw_(*row, rate, factor, stopped, pace, spread, weight_decay, average_decay)
        step.add_(stopped == 0)


def pace_and_spread(
    step: Float32[Tensor, ""], rate: Float32[Tensor, ""]
) -> tuple[Float32[Tensor, ""], Float32[Tensor, ""]]:
    """Of the update after so many: the rate and the root of the second moment's scale, corrected for the start at 0."""
    counted = step + 1
    # 1 - beta^count, by expm1: in float32 the plain difference has lost three digits at beta 0.999.
    return rate / -torch.expm1(counted * log(BETA_1)), (-torch.expm1(counted * log(BETA_2))).sqrt()


def _plain_adamw_(
    master_W: Tensor,
    gradient_W: Tensor,
    first_W: Tensor,
    second_W: Tensor,
    working_W: Tensor | None,
    average_W: Tensor | None,
    rate: Tensor,
    factor: Tensor,
    stopped: Tensor,
    pace: Tensor,
    spread: Tensor,
    weight_decay: float,
    average_decay: float,
) -> None:
    """What the kernel computes. It chooses by `where`, since a captured graph cannot branch."""
    clipped_W = gradient_W.float() * factor
    new_first_W = first_W + (clipped_W - first_W) * (1 - BETA_1)
    new_second_W = second_W * BETA_2 + clipped_W.square() * (1 - BETA_2)
    # One subtraction, since 1 - rate * decay is exactly 1 in float32 at the paper's rate and decay.
    change_W = pace * new_first_W / (new_second_W.sqrt() / spread + EPSILON)
    new_master_W = master_W - (change_W + rate * weight_decay * master_W)
    changes = [(first_W, new_first_W), (second_W, new_second_W), (master_W, new_master_W)]
    if working_W is not None:
        changes.append((working_W, new_master_W.to(working_W.dtype)))
    if average_W is not None:
        changes.append((average_W, average_W + (new_master_W - average_W) * (1 - average_decay)))
    for old_W, new_W in changes:
        old_W.copy_(torch.where(stopped == 0, new_W, old_W))


@jit
@no_type_check
def _adamw_kernel(
    master_ptr, gradient_ptr, first_ptr, second_ptr, working_ptr, average_ptr,
    step_ptr, rate_ptr, factor_ptr, stopped_ptr, pace_ptr, spread_ptr, size,
    BETA_1: tl.constexpr, BETA_2: tl.constexpr, EPSILON: tl.constexpr, DECAY: tl.constexpr,
    AVERAGE_DECAY: tl.constexpr, HAS_WORKING: tl.constexpr, HAS_AVERAGE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # Betas are compile-time numbers: 1 - beta is then taken in double, not from a beta rounded to float32.
    if tl.load(stopped_ptr) == 0.0:
        if tl.program_id(0) == 0:
            tl.store(step_ptr, tl.load(step_ptr) + 1.0)
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = at < size
        master_W = tl.load(master_ptr + at, mask=inside, other=0.0)
        gradient_W = tl.load(gradient_ptr + at, mask=inside, other=0.0).to(tl.float32) * tl.load(factor_ptr)
        first_W = tl.load(first_ptr + at, mask=inside, other=0.0)
        second_W = tl.load(second_ptr + at, mask=inside, other=0.0)
        first_W += (gradient_W - first_W) * (1 - BETA_1)
        second_W = second_W * BETA_2 + gradient_W * gradient_W * (1 - BETA_2)
        change_W = tl.load(pace_ptr) * first_W / (tl.sqrt(second_W) / tl.load(spread_ptr) + EPSILON)
        master_W -= change_W + tl.load(rate_ptr) * DECAY * master_W
        tl.store(first_ptr + at, first_W, mask=inside)
        tl.store(second_ptr + at, second_W, mask=inside)
        tl.store(master_ptr + at, master_W, mask=inside)
        if HAS_WORKING:
            tl.store(working_ptr + at, master_W.to(working_ptr.dtype.element_ty), mask=inside)
        if HAS_AVERAGE:
            average_W = tl.load(average_ptr + at, mask=inside, other=0.0)
            average_W += (master_W - average_W) * (1 - AVERAGE_DECAY)
            tl.store(average_ptr + at, average_W, mask=inside)
