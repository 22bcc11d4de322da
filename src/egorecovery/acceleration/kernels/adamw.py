"""AdamW over all weights at once, laid end to end in one row: one kernel reads and writes every number once.

Nothing that changes from step to step is a host number, so a CUDA graph can hold the update.
"""

# W all trained weights, in one row

from typing import no_type_check

import torch
from jaxtyping import Float, Float32
from torch import Tensor

from egorecovery.acceleration.kernels.dispatch import ceil_div, jit, runs_fused, tl

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
    pace: Float32[Tensor, ""],
    spread: Float32[Tensor, ""],
    betas: tuple[float, float],
    epsilon: float,
    weight_decay: float,
    working_W: Float[Tensor, " W"] | None = None,
    average_W: Float32[Tensor, " W"] | None = None,
    average_decay: float = 0.0,
) -> None:
    """What `training.adamw.adamw_` does, in one launch."""
    row = (master_W, gradient_W, first_W, second_W, working_W, average_W)
    assert runs_fused(*row, rate, factor, stopped), "a kernel was asked for where none can run"
    assert all(weight is None or weight.is_contiguous() for weight in row), "weights must lie in one row"
    _adamw_kernel[(ceil_div(len(master_W), BLOCK),)](
        *row, step, rate, factor, stopped, pace, spread, len(master_W),
        BETA_1=betas[0], BETA_2=betas[1], EPSILON=epsilon, DECAY=weight_decay, AVERAGE_DECAY=average_decay,
        HAS_WORKING=working_W is not None, HAS_AVERAGE=average_W is not None, BLOCK=BLOCK, num_warps=WARPS,
    )  # fmt: skip


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
