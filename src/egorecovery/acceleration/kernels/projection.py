"""From a bfloat16 feature to a few float32 numbers: a product with a narrow weight.

Products of bfloat16 numbers are exact in float32, in which they are summed, so tensor cores lose nothing that the
operands had. Backward the arriving gradient is float32 as well: it goes in as two bfloat16 numbers, one that is near
it and one that is the rest.
"""

# R rows = samples x steps (in kernels, of one tile), D width (in kernels, some columns of it), A actions (in kernels,
# padded to what tensor cores want), P parts of the rows, each of which leaves a partial sum
from typing import Any, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from egorecovery.acceleration.kernels.dispatch import (
    INTERPRETED,
    ceil_div,
    is_power_of_two,
    jit,
    power_of_two_from,
    runs_fused,
    tl,
)
from egorecovery.policy import action_head as plain

ROWS = 64  # of one tile: the rows of a tensor-core product over four warps
DEPTH = 256  # numbers of the width at a time, forward
COLUMNS = 64  # of a backward program: 128 bytes, one line of the cache
PARTS = 80  # of the rows, at most: of 9600 a part has two tiles, and with 256 columns there are 300 programs
MOST_ACTIONS = 64
WARPS = 4
STAGES = 2  # where there is a next tile, it is fetched while this one is multiplied


def project(
    feature: Float[Tensor, "*rows D"], weight_AD: Float[Tensor, "A D"], bias_A: Float[Tensor, " A"]
) -> Float[Tensor, "*rows A"]:
    """feature x weight^T + bias, in float32 whatever they come in."""
    if _fits(feature, weight_AD, bias_A):
        return _Project.apply(feature, weight_AD, bias_A)
    return plain.project(feature, weight_AD, bias_A)


def _fits(feature: Tensor, weight_AD: Tensor, bias_A: Tensor) -> bool:
    actions, width = weight_AD.shape
    return (
        runs_fused(feature, weight_AD, bias_A)
        and feature.dtype == weight_AD.dtype
        # Two float16 numbers would not hold the small gradients of a mean over a batch; float32 is left to torch.
        and (feature.dtype == torch.bfloat16 or INTERPRETED)
        and feature.numel() > 0
        and is_power_of_two(width)
        and width >= 16
        and actions <= MOST_ACTIONS
    )


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, feature: Tensor, weight_AD: Tensor, bias_A: Tensor) -> Tensor:
        feature, weight_AD, bias_A = feature.contiguous(), weight_AD.contiguous(), bias_A.contiguous()
        (actions, width), rows = weight_AD.shape, feature.numel() // feature.shape[-1]
        out = torch.empty((*feature.shape[:-1], actions), dtype=torch.float32, device=feature.device)
        _project_kernel[(ceil_div(rows, ROWS),)](
            feature, weight_AD, bias_A, out, rows,
            A=actions, D=width, ROWS=ROWS, DEPTH=min(DEPTH, width), ACTIONS=_padded(actions),
            num_warps=WARPS, num_stages=STAGES,
        )  # fmt: skip
        ctx.save_for_backward(feature, weight_AD)
        ctx.bias_dtype = bias_A.dtype
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[reportIncompatibleMethodOverride]  # torch types it *Any
        feature, weight_AD = ctx.saved_tensors
        (actions, width), rows = weight_AD.shape, feature.numel() // feature.shape[-1]
        columns, padded = min(COLUMNS, width), _padded(actions)
        tiles = ceil_div(rows, ROWS)
        steps = ceil_div(tiles, PARTS)
        parts = ceil_div(tiles, steps)  # no more than finish in as many steps
        d_feature = torch.empty_like(feature)
        d_weight_AD = torch.empty_like(weight_AD)
        d_bias_A = torch.empty(actions, dtype=ctx.bias_dtype, device=feature.device)
        partial = torch.empty((parts, width + 1, padded), dtype=torch.float32, device=feature.device)
        _project_backward_kernel[(parts, width // columns)](
            d_out.contiguous(), feature, weight_AD, d_feature, partial, rows,
            A=actions, D=width, ROWS=ROWS, COLUMNS=columns, ACTIONS=padded, STEPS=steps,
            num_warps=WARPS, num_stages=STAGES,
        )  # fmt: skip
        _project_totals_kernel[(width + 1,)](
            partial, d_weight_AD, d_bias_A, parts,
            A=actions, D=width, ACTIONS=padded, AT_ONCE=power_of_two_from(min(parts, PARTS)), num_warps=WARPS,
        )  # fmt: skip
        return d_feature, d_weight_AD, d_bias_A


def _padded(actions: int) -> int:
    return max(16, power_of_two_from(actions))


@jit
@no_type_check
def _project_kernel(
    feature_ptr, weight_ptr, bias_ptr, out_ptr, rows,
    A: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr, ACTIONS: tl.constexpr,
):  # fmt: skip
    first_row = tl.program_id(0).to(tl.int64) * ROWS
    feature_ptr += first_row * D
    out_ptr += first_row * A
    left = (rows - first_row).to(tl.int32)
    r = tl.arange(0, ROWS)
    a = tl.arange(0, ACTIONS)
    row = tl.minimum(r, left - 1)  # past the end the last one is computed again, and not stored
    out_RA = tl.zeros((ROWS, ACTIONS), dtype=tl.float32)
    for start in range(0, D, DEPTH):
        d = start + tl.arange(0, DEPTH)
        feature_RD = tl.load(feature_ptr + row[:, None] * D + d[None, :])
        weight_DA = tl.load(weight_ptr + a[None, :] * D + d[:, None], mask=a[None, :] < A, other=0.0)
        out_RA = tl.dot(feature_RD, weight_DA, out_RA)
    bias_A = tl.load(bias_ptr + a, mask=a < A, other=0.0).to(tl.float32)
    inside = (r[:, None] < left) & (a[None, :] < A)
    tl.store(out_ptr + r[:, None] * A + a[None, :], out_RA + bias_A[None, :], mask=inside)


@jit
@no_type_check
def _project_backward_kernel(
    d_out_ptr, feature_ptr, weight_ptr, d_feature_ptr, partial_ptr, rows,
    A: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ACTIONS: tl.constexpr,
    STEPS: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0)
    first_row = part.to(tl.int64) * (STEPS * ROWS)
    d_out_ptr += first_row * A
    feature_ptr += first_row * D
    d_feature_ptr += first_row * D
    left = (rows - first_row).to(tl.int32)
    d = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    a = tl.arange(0, ACTIONS)
    weight_AD = tl.load(weight_ptr + a[:, None] * D + d[None, :], mask=a[:, None] < A, other=0.0)
    d_weight_DA = tl.zeros((COLUMNS, ACTIONS), dtype=tl.float32)
    d_bias_RA = tl.zeros((ROWS, ACTIONS), dtype=tl.float32)
    for step in range(0, STEPS):
        r = step * ROWS + tl.arange(0, ROWS)
        inside = r[:, None] < left
        at = r[:, None] * D + d[None, :]
        d_out_RA = tl.load(d_out_ptr + r[:, None] * A + a[None, :], mask=inside & (a[None, :] < A), other=0.0)
        feature_RD = tl.load(feature_ptr + at, mask=inside, other=0.0)
        near_RA = d_out_RA.to(weight_AD.dtype)
        rest_RA = (d_out_RA - near_RA.to(tl.float32)).to(weight_AD.dtype)
        d_feature_RD = tl.dot(near_RA, weight_AD, tl.dot(rest_RA, weight_AD))
        tl.store(d_feature_ptr + at, d_feature_RD.to(d_feature_ptr.dtype.element_ty), mask=inside)
        feature_DR = tl.trans(feature_RD)
        d_weight_DA = tl.dot(feature_DR, rest_RA, d_weight_DA)
        d_weight_DA = tl.dot(feature_DR, near_RA, d_weight_DA)
        d_bias_RA += d_out_RA
    partial_ptr += part * ((D + 1) * ACTIONS)
    tl.store(partial_ptr + d[:, None] * ACTIONS + a[None, :], d_weight_DA)
    if tl.program_id(1) == 0:  # all columns see the same gradients: one of them adds these up
        tl.store(partial_ptr + D * ACTIONS + a, tl.sum(d_bias_RA, axis=0))


@jit
@no_type_check
def _project_totals_kernel(
    partial_ptr, d_weight_ptr, d_bias_ptr, parts,
    A: tl.constexpr, D: tl.constexpr, ACTIONS: tl.constexpr, AT_ONCE: tl.constexpr,
):  # fmt: skip
    """A column of the weight, or behind the last one the bias: the sum over all parts, always in the same order."""
    d = tl.program_id(0)
    p = tl.arange(0, AT_ONCE)
    a = tl.arange(0, ACTIONS)
    total_PA = tl.zeros((AT_ONCE, ACTIONS), dtype=tl.float32)
    for start in range(0, parts, AT_ONCE):
        at = (start + p)[:, None] * ((D + 1) * ACTIONS) + d * ACTIONS + a[None, :]
        total_PA += tl.load(partial_ptr + at, mask=p[:, None] < parts - start, other=0.0)
    total_A = tl.sum(total_PA, axis=0)
    if d < D:
        tl.store(d_weight_ptr + a * D + d, total_A.to(d_weight_ptr.dtype.element_ty), mask=a < A)
    else:
        tl.store(d_bias_ptr + a, total_A.to(d_bias_ptr.dtype.element_ty), mask=a < A)
