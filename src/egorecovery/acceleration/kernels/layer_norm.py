"""Layer norm, alone or fused with the residual add before it.

Between two branches of a pre-norm block the stream is read once and written once: add, drop path and norm in one
kernel, and in the backward pass the gradients that reach the stream and its norm in one more.
"""

# B samples, N tokens, D width, R rows = B x N, P partial sums, one from each warp of the backward pass
from typing import Any, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from egorecovery.acceleration.kernels.deferred_gradients import norm_gradients
from egorecovery.acceleration.kernels.dispatch import (
    ceil_div,
    is_power_of_two,
    jit,
    runs_fused,
    tl,
)
from egorecovery.policy import attention as plain

WIDEST = 1024
TILE_NUMBERS = 4096  # of one program at a time: 32 per thread of four warps
BACKWARD_PROGRAMS = 396  # three per multiprocessor of an H200; each warp leaves a partial sum of parameter gradients
BACKWARD_STAGES = 3  # rows fetched ahead
WARPS = 4


def layer_norm(
    stream: Float[Tensor, "*rows D"], weight_D: Float[Tensor, " D"], bias_D: Float[Tensor, " D"]
) -> Float[Tensor, "*rows D"]:
    """Layer norm over the last axis, in the input's dtype; sums in float32."""
    if _fits(stream, None, None, weight_D, bias_D):
        return _AddLayerNorm.apply(stream, None, None, weight_D, bias_D)[1]
    return plain.layer_norm(stream, weight_D, bias_D)


def add_layer_norm(
    stream_BND: Float[Tensor, "B N D"],
    branch_BND: Float[Tensor, "B N D"],
    keep_B: Float[Tensor, " B"] | None,
    weight_D: Float[Tensor, " D"],
    bias_D: Float[Tensor, " D"],
) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B N D"]]:
    """The stream after a residual branch, and its norm for the next branch.

    `keep_B` is the drop-path factor of each sample (0 or 1/(1-p)); it gets no gradient. The stream keeps its dtype
    and the norm takes the branch's, so a float32 stream may run between bfloat16 branches.
    """
    if _fits(stream_BND, branch_BND, keep_B, weight_D, bias_D):
        return _AddLayerNorm.apply(stream_BND, branch_BND, keep_B, weight_D, bias_D)
    return plain.add_layer_norm(stream_BND, branch_BND, keep_B, weight_D, bias_D)


def _fits(stream: Tensor, branch: Tensor | None, keep_B: Tensor | None, weight_D: Tensor, bias_D: Tensor) -> bool:
    width = stream.shape[-1]
    return runs_fused(stream, branch, keep_B, weight_D, bias_D) and is_power_of_two(width) and 16 <= width <= WIDEST


class _AddLayerNorm(torch.autograd.Function):
    """With no branch, the sum is the stream itself and only the norm is written."""

    @staticmethod
    def forward(
        ctx: Any, stream: Tensor, branch: Tensor | None, keep_B: Tensor | None, weight_D: Tensor, bias_D: Tensor
    ) -> tuple[Tensor | None, Tensor]:
        stream = stream.contiguous()
        branch = None if branch is None else branch.contiguous()
        width, rows = stream.shape[-1], stream.numel() // stream.shape[-1]
        added = None if branch is None else torch.empty_like(stream)
        normed = torch.empty_like(stream if branch is None else branch)
        mean_R, rstd_R = torch.empty((2, rows), dtype=torch.float32, device=stream.device)
        tile_rows = TILE_NUMBERS // width
        tokens = stream.shape[-2] if stream.ndim > 1 else 1
        _layer_norm_forward_kernel[(ceil_div(rows, tile_rows),)](
            stream, branch, keep_B, weight_D, bias_D, added, normed, mean_R, rstd_R, rows, tokens, plain.EPSILON,
            D=width, ROWS=tile_rows, HAS_BRANCH=branch is not None, HAS_KEEP=keep_B is not None, num_warps=WARPS,
        )  # fmt: skip
        ctx.save_for_backward(stream if added is None else added, keep_B, weight_D, bias_D, mean_R, rstd_R)
        ctx.branch_dtype = None if branch is None else branch.dtype
        ctx.set_materialize_grads(False)  # a stream that ends here sends no gradient: do not write and read zeros
        return added, normed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_added: Tensor | None, d_normed: Tensor | None) -> tuple[Tensor | None, ...]:  # type: ignore[reportIncompatibleMethodOverride]  # torch types it *Any
        added, keep_B, weight_D, bias_D, mean_R, rstd_R = ctx.saved_tensors
        width, rows = added.shape[-1], added.numel() // added.shape[-1]
        d_added = None if d_added is None else d_added.contiguous()
        d_normed = torch.zeros_like(added) if d_normed is None else d_normed.contiguous()
        d_stream = torch.empty_like(added)
        # Without drop path both summands have the same gradient, and one tensor serves both.
        apart = ctx.branch_dtype is not None and (keep_B is not None or ctx.branch_dtype != added.dtype)
        d_branch = torch.empty_like(added, dtype=ctx.branch_dtype) if apart else None
        steps = ceil_div(rows, WARPS * BACKWARD_PROGRAMS)
        programs = ceil_div(rows, WARPS * steps)  # no more than finish in as many steps
        partial_P2D = torch.empty((programs * WARPS, 2, width), dtype=torch.float32, device=added.device)
        tokens = added.shape[-2] if added.ndim > 1 else 1
        _layer_norm_backward_kernel[(programs,)](
            added, keep_B, weight_D, mean_R, rstd_R, d_added, d_normed, d_stream, d_branch, partial_P2D, rows, tokens,
            D=width, ROWS=WARPS, STEPS=steps, STAGES=BACKWARD_STAGES,
            HAS_STREAM_GRADIENT=d_added is not None, HAS_BRANCH=apart, HAS_KEEP=keep_B is not None, num_warps=WARPS,
        )  # fmt: skip
        d_weight_D, d_bias_D = norm_gradients(weight_D, bias_D, partial_P2D)
        d_branch = d_stream if d_branch is None and ctx.branch_dtype is not None else d_branch
        return d_stream, d_branch, None, d_weight_D, d_bias_D


@jit
@no_type_check
def _layer_norm_forward_kernel(
    stream_ptr, branch_ptr, keep_ptr, weight_ptr, bias_ptr, added_ptr, normed_ptr, mean_ptr, rstd_ptr,
    rows, tokens, epsilon,
    D: tl.constexpr, ROWS: tl.constexpr, HAS_BRANCH: tl.constexpr, HAS_KEEP: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.arange(0, D)
    inside = r[:, None] < rows
    at = r[:, None].to(tl.int64) * D + d[None, :]
    added_RD = tl.load(stream_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if HAS_BRANCH:
        branch_RD = tl.load(branch_ptr + at, mask=inside, other=0.0).to(tl.float32)
        if HAS_KEEP:
            branch_RD *= tl.load(keep_ptr + r // tokens, mask=r < rows, other=0.0).to(tl.float32)[:, None]
        rounded_RD = (added_RD + branch_RD).to(added_ptr.dtype.element_ty)
        tl.store(added_ptr + at, rounded_RD, mask=inside)
        added_RD = rounded_RD.to(tl.float32)  # the backward pass will read the rounded sum: norm that one
    mean_R = tl.sum(added_RD, axis=1) / D
    centred_RD = added_RD - mean_R[:, None]
    rstd_R = 1.0 / tl.sqrt(tl.sum(centred_RD * centred_RD, axis=1) / D + epsilon)
    weight_D = tl.load(weight_ptr + d).to(tl.float32)
    bias_D = tl.load(bias_ptr + d).to(tl.float32)
    normed_RD = centred_RD * rstd_R[:, None] * weight_D[None, :] + bias_D[None, :]
    tl.store(normed_ptr + at, normed_RD.to(normed_ptr.dtype.element_ty), mask=inside)
    tl.store(mean_ptr + r, mean_R, mask=r < rows)
    tl.store(rstd_ptr + r, rstd_R, mask=r < rows)


@jit
@no_type_check
def _layer_norm_backward_kernel(
    added_ptr, keep_ptr, weight_ptr, mean_ptr, rstd_ptr, d_added_ptr, d_normed_ptr, d_stream_ptr, d_branch_ptr,
    partial_ptr, rows, tokens,
    D: tl.constexpr, ROWS: tl.constexpr, STEPS: tl.constexpr, STAGES: tl.constexpr,
    HAS_STREAM_GRADIENT: tl.constexpr, HAS_BRANCH: tl.constexpr, HAS_KEEP: tl.constexpr,
):  # fmt: skip
    d = tl.arange(0, D)
    weight_D = tl.load(weight_ptr + d).to(tl.float32)
    d_weight_RD = tl.zeros((ROWS, D), dtype=tl.float32)
    d_bias_RD = tl.zeros((ROWS, D), dtype=tl.float32)
    for step in tl.range(0, STEPS, num_stages=STAGES):
        r = (step * tl.num_programs(0) + tl.program_id(0)) * ROWS + tl.arange(0, ROWS)
        inside = r[:, None] < rows
        at = r[:, None].to(tl.int64) * D + d[None, :]
        added_RD = tl.load(added_ptr + at, mask=inside, other=0.0).to(tl.float32)
        d_normed_RD = tl.load(d_normed_ptr + at, mask=inside, other=0.0).to(tl.float32)
        mean_R = tl.load(mean_ptr + r, mask=r < rows, other=0.0)
        rstd_R = tl.load(rstd_ptr + r, mask=r < rows, other=0.0)
        hat_RD = (added_RD - mean_R[:, None]) * rstd_R[:, None]
        d_weight_RD += d_normed_RD * hat_RD
        d_bias_RD += d_normed_RD
        d_hat_RD = d_normed_RD * weight_D[None, :]
        along_R = tl.sum(d_hat_RD * hat_RD, axis=1) / D
        mean_d_R = tl.sum(d_hat_RD, axis=1) / D
        d_stream_RD = (d_hat_RD - mean_d_R[:, None] - hat_RD * along_R[:, None]) * rstd_R[:, None]
        if HAS_STREAM_GRADIENT:
            d_stream_RD += tl.load(d_added_ptr + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(d_stream_ptr + at, d_stream_RD.to(d_stream_ptr.dtype.element_ty), mask=inside)
        if HAS_BRANCH:
            if HAS_KEEP:
                d_stream_RD *= tl.load(keep_ptr + r // tokens, mask=r < rows, other=0.0).to(tl.float32)[:, None]
            tl.store(d_branch_ptr + at, d_stream_RD.to(d_branch_ptr.dtype.element_ty), mask=inside)
    # Each warp's row of sums goes out as it is: adding them up here, across warps, took as long as a third of the rest.
    partial_at = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None] * 2 * D + d[None, :]
    tl.store(partial_ptr + partial_at, d_weight_RD)
    tl.store(partial_ptr + partial_at + D, d_bias_RD)
