"""The two-layer network of a transformer block, its GELU inside the products on either side of it.

Alone, GELU is a pass over the widest tensors of the network: 4 reads and 4 writes of the stream's size forward, 8 and
4 backward. Here the first product writes the activation and beside it GELU's slope, which the backward pass only has
to multiply with: as many bytes as keeping the product itself, and no exponential in that pass. Both come from one
float32 sum before it is rounded, so they belong together. The other products are the library's.
"""

# B samples, N tokens, D width, H hidden width, R rows = B x N (in kernels, of one tile), C columns of one tile
from dataclasses import dataclass
from typing import Any, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import gelu, linear

from egorecovery.policy.kernels.dispatch import (
    INTERPRETED,
    ceil_div,
    is_power_of_two,
    jit,
    power_of_two_from,
    runs_fused,
    tl,
    warps_for,
)
from egorecovery.policy.kernels.owed import weight_gradient


@dataclass
class Tile:
    """How much one program holds at a time. Mutable, so that a benchmark can sweep it."""

    rows: int
    columns: int  # of the hidden width
    depth: int  # numbers of the width at a time
    warps: int
    stages: int  # fetched tiles in shared memory


# At a width of 256, compiled for sm_90: 128 and 123 registers, 96 KB of shared memory, two programs per multiprocessor
# (one stores while the other multiplies), and nothing spilled. Rows that stay on chip while a program walks over the
# columns were slower.
TILE = Tile(rows=128, columns=128, depth=64, warps=8, stages=3)
INTERPRETED_KERNELS = tl.constexpr(INTERPRETED)


def mlp(
    tokens: Float[Tensor, "*rows D"], rise_HD: Float[Tensor, "H D"], fall_DH: Float[Tensor, "D H"]
) -> Float[Tensor, "*rows D"]:
    """Up to the hidden width, GELU in its tanh form, and down again."""
    if not _fits(tokens, rise_HD, fall_DH):
        return plain_mlp(tokens, rise_HD, fall_DH)
    if torch.is_grad_enabled() and (tokens.requires_grad or rise_HD.requires_grad or fall_DH.requires_grad):
        return _Mlp.apply(tokens, rise_HD, fall_DH)
    act_RH, _ = rise_gelu(_rows(tokens), rise_HD, with_slope=False)
    return linear(act_RH, fall_DH).view(tokens.shape)


def plain_mlp(
    tokens: Float[Tensor, "*rows D"], rise_HD: Float[Tensor, "H D"], fall_DH: Float[Tensor, "D H"]
) -> Float[Tensor, "*rows D"]:
    """What the kernels and the products around them compute."""
    return linear(gelu(linear(tokens, rise_HD), approximate="tanh"), fall_DH)


def _fits(tokens: Tensor, rise_HD: Tensor, fall_DH: Tensor) -> bool:
    hidden, width = rise_HD.shape
    return (
        runs_fused(tokens, rise_HD, fall_DH)
        and tokens.dtype == rise_HD.dtype == fall_DH.dtype
        and tokens.element_size() == 2  # float32 is left to torch
        and tokens.numel() > 0
        and is_power_of_two(width)
        and is_power_of_two(hidden)
        and min(width, hidden) >= 16  # tensor cores want it
    )


class _Mlp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, rise_HD: Tensor, fall_DH: Tensor) -> Tensor:
        tokens_RD = _rows(tokens)
        act_RH, slope_RH = rise_gelu(tokens_RD, rise_HD)
        ctx.save_for_backward(tokens_RD, rise_HD, fall_DH, act_RH, slope_RH)
        return linear(act_RH, fall_DH).view(tokens.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[reportIncompatibleMethodOverride]  # torch types it *Any
        tokens_RD, rise_HD, fall_DH, act_RH, slope_RH = ctx.saved_tensors
        tokens_wanted, rise_wanted, fall_wanted = ctx.needs_input_grad
        d_out_RD = _rows(d_out)
        d_fall_DH = weight_gradient(fall_DH, d_out_RD, act_RH) if fall_wanted else None
        if not (tokens_wanted or rise_wanted):
            return None, None, d_fall_DH
        d_pre_RH = fall_gelu_backward(d_out_RD, fall_DH, slope_RH)
        d_tokens = (d_pre_RH @ rise_HD).view(d_out.shape) if tokens_wanted else None
        d_rise_HD = weight_gradient(rise_HD, d_pre_RH, tokens_RD) if rise_wanted else None
        return d_tokens, d_rise_HD, d_fall_DH


def _rows(tokens: Tensor) -> Tensor:
    return tokens.reshape(-1, tokens.shape[-1]).contiguous()


def rise_gelu(
    tokens_RD: Float[Tensor, "R D"], rise_HD: Float[Tensor, "H D"], *, with_slope: bool = True
) -> tuple[Float[Tensor, "R H"], Float[Tensor, "R H"] | None]:
    """GELU of tokens x rise^T, and its derivative there."""
    (rows, width), hidden = tokens_RD.shape, rise_HD.shape[0]
    act_RH = torch.empty((rows, hidden), dtype=tokens_RD.dtype, device=tokens_RD.device)
    slope_RH = torch.empty_like(act_RH) if with_slope else None
    programs, sizes = _sizes(rows, width, hidden)
    _mlp_forward_kernel[programs](
        tokens_RD, rise_HD.contiguous(), act_RH, slope_RH, rows, HAS_SLOPE=with_slope, **sizes
    )  # fmt: skip
    return act_RH, slope_RH


def fall_gelu_backward(
    d_out_RD: Float[Tensor, "R D"], fall_DH: Float[Tensor, "D H"], slope_RH: Float[Tensor, "R H"]
) -> Float[Tensor, "R H"]:
    """The gradient in front of GELU: (d_out x fall) times its derivative."""
    (rows, width), hidden = d_out_RD.shape, fall_DH.shape[1]
    d_pre_RH = torch.empty_like(slope_RH)
    programs, sizes = _sizes(rows, width, hidden)
    _mlp_backward_kernel[programs](d_out_RD, fall_DH.contiguous(), slope_RH, d_pre_RH, rows, **sizes)
    return d_pre_RH


def _sizes(rows: int, width: int, hidden: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """How many programs, and the compile-time sizes of each."""
    tile_rows = min(TILE.rows, max(16, power_of_two_from(rows)))
    columns = min(TILE.columns, hidden)
    # Neighbouring programs share their rows, which one of them fetches from memory; the weight is always in the cache.
    return (hidden // columns, ceil_div(rows, tile_rows)), {
        "D": width,
        "H": hidden,
        "ROWS": tile_rows,
        "COLUMNS": columns,
        "DEPTH": min(TILE.depth, width),
        "num_stages": TILE.stages,
        "num_warps": warps_for(tile_rows, TILE.warps),
    }


@jit
@no_type_check
def _product(
    rows_ptr, weight_ptr, r, c,
    WEIGHT_D: tl.constexpr, WEIGHT_H: tl.constexpr,
    D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Rows times columns of a weight, a part of their width at a time."""
    sum_RC = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, D, DEPTH):
        d = start + tl.arange(0, DEPTH)
        row_RD = tl.load(rows_ptr + r[:, None] * D + d[None, :])
        weight_DC = tl.load(weight_ptr + d[:, None] * WEIGHT_D + c[None, :] * WEIGHT_H)
        sum_RC = tl.dot(row_RD, weight_DC, sum_RC)
    return sum_RC


@jit
@no_type_check
def _tanh(value):
    """One instruction, right to 11 bits: more than what is stored has."""
    if INTERPRETED_KERNELS:
        return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * value))
    return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [value], tl.float32, is_pure=True, pack=1)


@jit
@no_type_check
def _store_gelu(pre_RC, act_ptr, slope_ptr, at, inside, HAS_SLOPE: tl.constexpr):
    # gelu(x) = x share with share = (1 + tanh(u)) / 2 and u = sqrt(2 / pi) (x + 0.044715 x^3). Its derivative is
    # share + x share (1 - share) 2 du/dx.
    square_RC = pre_RC * pre_RC
    share_RC = 0.5 * _tanh(pre_RC * (square_RC * 0.035677408 + 0.7978846)) + 0.5
    act_RC = pre_RC * share_RC
    tl.store(act_ptr + at, act_RC.to(act_ptr.dtype.element_ty), mask=inside)
    if HAS_SLOPE:
        steep_RC = act_RC * (square_RC * 0.21406445 + 1.5957691)
        slope_RC = share_RC + steep_RC * (1.0 - share_RC)
        # Not read before the backward pass: it leaves the cache first, and the next product finds the activation.
        tl.store(slope_ptr + at, slope_RC.to(slope_ptr.dtype.element_ty), mask=inside, cache_modifier=".cs")


@jit
@no_type_check
def _mlp_forward_kernel(
    tokens_ptr, rise_ptr, act_ptr, slope_ptr, rows,
    HAS_SLOPE: tl.constexpr,
    D: tl.constexpr, H: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    first_row = tl.program_id(1).to(tl.int64) * ROWS
    tokens_ptr += first_row * D
    act_ptr += first_row * H
    if HAS_SLOPE:
        slope_ptr += first_row * H
    r = tl.arange(0, ROWS)
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    left = (rows - first_row).to(tl.int32)
    row = tl.minimum(r, left - 1)  # past the end the last one is computed again, and not stored
    pre_RC = _product(tokens_ptr, rise_ptr, row, c, 1, D, D, ROWS, COLUMNS, DEPTH)
    _store_gelu(pre_RC, act_ptr, slope_ptr, r[:, None] * H + c[None, :], r[:, None] < left, HAS_SLOPE)


@jit
@no_type_check
def _mlp_backward_kernel(
    d_out_ptr, fall_ptr, slope_ptr, d_pre_ptr, rows,
    D: tl.constexpr, H: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    first_row = tl.program_id(1).to(tl.int64) * ROWS
    d_out_ptr += first_row * D
    slope_ptr += first_row * H
    d_pre_ptr += first_row * H
    r = tl.arange(0, ROWS)
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    left = (rows - first_row).to(tl.int32)
    row = tl.minimum(r, left - 1)
    d_act_RC = _product(d_out_ptr, fall_ptr, row, c, H, 1, D, ROWS, COLUMNS, DEPTH)
    slope_RC = tl.load(slope_ptr + row[:, None] * H + c[None, :], eviction_policy="evict_first").to(tl.float32)
    d_pre_RC = (d_act_RC * slope_RC).to(d_pre_ptr.dtype.element_ty)
    tl.store(d_pre_ptr + r[:, None] * H + c[None, :], d_pre_RC, mask=r[:, None] < left)
