"""Eq. 2 in one pass over the feature, and in one more its gradient.

A program has all steps of one sample and some of the columns, so that the sums over the steps which are the gradients
of Gamma and B never leave it.
"""

# B samples, H horizon (in kernels, of one tile), D width (in kernels, columns of one tile)
from typing import Any, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from egorecovery.acceleration.kernels.dispatch import is_power_of_two, jit, power_of_two_from, runs_fused, tl
from egorecovery.policy import modulation as plain

STEPS_AT_ONCE = 128  # of the horizon: all 100 of a chunk, so their loads wait once
COLUMNS = 64  # 128 bytes of bfloat16, one line of the cache
WARPS = 8


def modulate(
    feature_BHD: Float[Tensor, "B H D"],
    scale_BD: Float[Tensor, "B D"],
    shift_BD: Float[Tensor, "B D"],
    alpha_B: Float[Tensor, " B"],
) -> Float[Tensor, "B H D"]:
    """H + alpha (H * Gamma + B), in the feature's dtype; alpha gets no gradient."""
    if _fits(feature_BHD, scale_BD, shift_BD, alpha_B):
        return _Modulate.apply(feature_BHD, scale_BD, shift_BD, alpha_B)
    return plain.modulate(feature_BHD, scale_BD, shift_BD, alpha_B)


def _fits(feature_BHD: Tensor, scale_BD: Tensor, shift_BD: Tensor, alpha_B: Tensor) -> bool:
    width = feature_BHD.shape[-1]
    return (
        runs_fused(feature_BHD, scale_BD, shift_BD, alpha_B)
        and feature_BHD.numel() > 0
        and is_power_of_two(width)
        and width >= 16
    )


class _Modulate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, feature_BHD: Tensor, scale_BD: Tensor, shift_BD: Tensor, alpha_B: Tensor) -> Tensor:
        feature_BHD, alpha_B = feature_BHD.contiguous(), alpha_B.contiguous()
        scale_BD, shift_BD = _rows_in_a_row(scale_BD), _rows_in_a_row(shift_BD)
        out_BHD = torch.empty_like(feature_BHD)
        programs, sizes = _sizes(feature_BHD)
        _modulate_kernel[programs](
            feature_BHD, scale_BD, shift_BD, alpha_B, out_BHD, scale_BD.stride(0), shift_BD.stride(0), **sizes
        )  # fmt: skip
        ctx.save_for_backward(feature_BHD, scale_BD, alpha_B)
        ctx.shift_dtype = shift_BD.dtype
        return out_BHD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out_BHD: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[reportIncompatibleMethodOverride]  # torch types it *Any
        feature_BHD, scale_BD, alpha_B = ctx.saved_tensors
        d_feature_BHD = torch.empty_like(feature_BHD)
        d_scale_BD = torch.empty(scale_BD.shape, dtype=scale_BD.dtype, device=scale_BD.device)
        d_shift_BD = torch.empty(scale_BD.shape, dtype=ctx.shift_dtype, device=scale_BD.device)
        programs, sizes = _sizes(feature_BHD)
        _modulate_backward_kernel[programs](
            d_out_BHD.contiguous(), feature_BHD, scale_BD, alpha_B, d_feature_BHD, d_scale_BD, d_shift_BD,
            scale_BD.stride(0), **sizes,
        )  # fmt: skip
        return d_feature_BHD, d_scale_BD, d_shift_BD, None


def _rows_in_a_row(terms_BD: Tensor) -> Tensor:
    """As it is where each row lies in a row: Gamma and B are halves of one product."""
    return terms_BD if terms_BD.stride(1) == 1 else terms_BD.contiguous()


def _sizes(feature_BHD: Tensor) -> tuple[tuple[int, int], dict[str, int]]:
    """How many programs, and the compile-time sizes of each."""
    samples, horizon, width = feature_BHD.shape
    columns = min(COLUMNS, width)
    rows = min(STEPS_AT_ONCE, power_of_two_from(horizon))
    sizes = {"HORIZON": horizon, "WIDTH": width, "ROWS": rows, "COLUMNS": columns, "num_warps": WARPS}
    return (samples, width // columns), sizes


@jit
@no_type_check
def _modulate_kernel(
    feature_ptr, scale_ptr, shift_ptr, alpha_ptr, out_ptr, scale_stride, shift_stride,
    HORIZON: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    feature_ptr += sample * (HORIZON * WIDTH)
    out_ptr += sample * (HORIZON * WIDTH)
    alpha = tl.load(alpha_ptr + sample).to(tl.float32)
    scale_D = tl.load(scale_ptr + sample * scale_stride + d).to(tl.float32)
    shift_D = tl.load(shift_ptr + sample * shift_stride + d).to(tl.float32)
    for start in range(0, HORIZON, ROWS):
        h = start + tl.arange(0, ROWS)
        at = h[:, None] * WIDTH + d[None, :]
        inside = h[:, None] < HORIZON
        feature_HD = tl.load(feature_ptr + at, mask=inside, other=0.0).to(tl.float32)
        # Not H (1 + alpha Gamma) + alpha B: in this order a closed gate, or no intent, adds a plain zero.
        out_HD = feature_HD + alpha * (feature_HD * scale_D[None, :] + shift_D[None, :])
        tl.store(out_ptr + at, out_HD.to(out_ptr.dtype.element_ty), mask=inside)


@jit
@no_type_check
def _modulate_backward_kernel(
    d_out_ptr, feature_ptr, scale_ptr, alpha_ptr, d_feature_ptr, d_scale_ptr, d_shift_ptr, scale_stride,
    HORIZON: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    sample = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    d_out_ptr += sample * (HORIZON * WIDTH)
    feature_ptr += sample * (HORIZON * WIDTH)
    d_feature_ptr += sample * (HORIZON * WIDTH)
    alpha = tl.load(alpha_ptr + sample).to(tl.float32)
    scale_D = tl.load(scale_ptr + sample * scale_stride + d).to(tl.float32)
    d_scale_HD = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    d_shift_HD = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, HORIZON, ROWS):
        h = start + tl.arange(0, ROWS)
        at = h[:, None] * WIDTH + d[None, :]
        inside = h[:, None] < HORIZON
        d_out_HD = tl.load(d_out_ptr + at, mask=inside, other=0.0).to(tl.float32)
        feature_HD = tl.load(feature_ptr + at, mask=inside, other=0.0).to(tl.float32)
        d_feature_HD = d_out_HD + d_out_HD * (alpha * scale_D)[None, :]
        tl.store(d_feature_ptr + at, d_feature_HD.to(d_feature_ptr.dtype.element_ty), mask=inside)
        d_scale_HD += d_out_HD * feature_HD
        d_shift_HD += d_out_HD
    d_scale_D = alpha * tl.sum(d_scale_HD, axis=0)
    d_shift_D = alpha * tl.sum(d_shift_HD, axis=0)
    tl.store(d_scale_ptr + sample * WIDTH + d, d_scale_D.to(d_scale_ptr.dtype.element_ty))
    tl.store(d_shift_ptr + sample * WIDTH + d, d_shift_D.to(d_shift_ptr.dtype.element_ty))
