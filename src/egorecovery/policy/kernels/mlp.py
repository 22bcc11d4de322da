"""The two-layer network of a transformer block, its GELU inside the products on either side of it.

Alone, GELU is a pass over the widest tensors of the network: 4 reads and 4 writes of the stream's size forward, 8 and
4 backward. Here the first product writes the activation and beside it GELU's slope, which the backward pass only has
to multiply with: as many bytes as keeping the product itself, and no exponential in that pass. Both come from one
float32 sum before it is rounded, so they belong together.

The products are shallow (a width of 256), so what counts is how often they fetch and whether anything waits. Where a
tile's depth is the whole width, its rows stay on chip and a program walks over columns of the weight, two tiles
fetched ahead; where it is less, a program makes one tile and several share a multiprocessor, one storing while
another multiplies. The other products are the library's.
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
    ceil_div,
    is_power_of_two,
    jit,
    power_of_two_from,
    runs_fused,
    tl,
)

PROGRAMS = 264  # two per multiprocessor of an H200: a program makes no more tiles than leaves as many programs
SHARED_BYTES = 227 * 1024  # that a program of an H200 may have


@dataclass
class Tile:
    """How much one program holds at a time. Mutable, so that a benchmark can sweep it."""

    rows: int
    columns: int  # of the hidden width
    steps: int  # tiles that one program makes at most, side by side
    depth: int  # numbers of the width at a time
    warps: int
    stages: int  # fetched tiles in shared memory


# At a width of 256, compiled for sm_90: 128 and 78 registers, 96 and 208 KB of shared memory, two programs and one per
# multiprocessor, and nothing spilled. Forward, two programs hide each other's exponentials; backward, there are none.
FORWARD_TILE = Tile(rows=128, columns=128, steps=1, depth=64, warps=8, stages=3)
BACKWARD_TILE = Tile(rows=128, columns=64, steps=16, depth=256, warps=8, stages=3)


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
        and _shared_bytes(BACKWARD_TILE, width, hidden, tokens.element_size()) <= SHARED_BYTES
        and _shared_bytes(FORWARD_TILE, width, hidden, tokens.element_size()) <= SHARED_BYTES
    )


def _shared_bytes(tile: Tile, width: int, hidden: int, number_bytes: int) -> int:
    """Rows, tiles of the weight and the slope, and one on its way to memory; no less than a program takes."""
    columns, depth = min(tile.columns, hidden), min(tile.depth, width)
    if depth < width:
        return tile.stages * depth * (tile.rows + columns) * number_bytes
    return (width * (tile.rows + tile.stages * columns) + tile.stages * tile.rows * columns) * number_bytes


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
        d_fall_DH = d_out_RD.t() @ act_RH if fall_wanted else None
        d_pre_RH = fall_gelu_backward(d_out_RD, fall_DH, slope_RH)
        d_tokens = (d_pre_RH @ rise_HD).view(d_out.shape) if tokens_wanted else None
        d_rise_HD = d_pre_RH.t() @ tokens_RD if rise_wanted else None
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
    programs, sizes = _sizes(rows, width, hidden, FORWARD_TILE)
    _mlp_forward_kernel[(programs,)](
        tokens_RD, rise_HD.contiguous(), act_RH, slope_RH, rows,
        HAS_SLOPE=with_slope, **sizes,
    )  # fmt: skip
    return act_RH, slope_RH


def fall_gelu_backward(
    d_out_RD: Float[Tensor, "R D"], fall_DH: Float[Tensor, "D H"], slope_RH: Float[Tensor, "R H"]
) -> Float[Tensor, "R H"]:
    """The gradient in front of GELU: (d_out x fall) times its derivative."""
    (rows, width), hidden = d_out_RD.shape, fall_DH.shape[1]
    d_pre_RH = torch.empty_like(slope_RH)
    programs, sizes = _sizes(rows, width, hidden, BACKWARD_TILE)
    _mlp_backward_kernel[(programs,)](d_out_RD, fall_DH.contiguous(), slope_RH, d_pre_RH, rows, **sizes)
    return d_pre_RH


def _sizes(rows: int, width: int, hidden: int, tile: Tile) -> tuple[int, dict[str, Any]]:
    """How many programs, and the compile-time sizes of each."""
    tile_rows = min(tile.rows, max(16, power_of_two_from(rows)))
    columns = min(tile.columns, hidden)
    steps = min(tile.steps, hidden // columns)
    while steps > 1 and ceil_div(rows, tile_rows) * (hidden // (columns * steps)) < PROGRAMS:
        steps //= 2
    return ceil_div(rows, tile_rows) * (hidden // (columns * steps)), {
        "D": width,
        "H": hidden,
        "ROWS": tile_rows,
        "COLUMNS": columns,
        "STEPS": steps,
        "DEPTH": min(tile.depth, width),
        "STAGES": tile.stages,
        "num_stages": tile.stages,
        "num_warps": tile.warps,
    }


@jit
@no_type_check
def _product(
    rows_ptr, weight_ptr, row_at, column,
    WEIGHT_D: tl.constexpr, WEIGHT_H: tl.constexpr,
    D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Rows times columns of the weight, a part of their width at a time."""
    sum_RC = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, D, DEPTH):
        d = start + tl.arange(0, DEPTH)
        row_RD = tl.load(rows_ptr + row_at[:, None] + d[None, :])
        weight_DC = tl.load(weight_ptr + d[:, None] * WEIGHT_D + column[None, :] * WEIGHT_H)
        sum_RC = tl.dot(row_RD, weight_DC, sum_RC)
    return sum_RC


@jit
@no_type_check
def _store_gelu(pre_RC, act_ptr, slope_ptr, at, inside, HAS_SLOPE: tl.constexpr):
    # gelu(x) = x / (1 + exp2(-a (x + 0.044715 x^3) log2(e))) with a = 2 sqrt(2 / pi): the tanh form in what the
    # hardware has. Its derivative is share + x share (1 - share) a (1 + 3 x 0.044715 x^2).
    square_RC = pre_RC * pre_RC
    power_RC = pre_RC * (square_RC * -0.10294324 - 2.3022082)
    # 1 / y as the square of 1 / sqrt(y): one instruction and a product, where a division is a handful
    root_RC = tl.rsqrt(1.0 + tl.exp2(power_RC))
    share_RC = root_RC * root_RC
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
    D: tl.constexpr, H: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEPS: tl.constexpr,
    DEPTH: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    # Neighbouring programs share their rows, which one of them fetches from memory; the weight is always in the cache.
    parts: tl.constexpr = H // (COLUMNS * STEPS)
    first_row = (tl.program_id(0) // parts).to(tl.int64) * ROWS
    first_column = tl.program_id(0) % parts * (COLUMNS * STEPS)
    tokens_ptr += first_row * D
    act_ptr += first_row * H
    if HAS_SLOPE:
        slope_ptr += first_row * H
    r = tl.arange(0, ROWS)
    left = (rows - first_row).to(tl.int32)
    inside = r[:, None] < left
    row_at = tl.minimum(r, left - 1) * D  # rows past the end repeat the last one, and are not stored
    d = tl.arange(0, D)
    if DEPTH == D:
        token_RD = tl.load(tokens_ptr + row_at[:, None] + d[None, :])
    for step in tl.range(0, STEPS, num_stages=STAGES):
        column = first_column + step * COLUMNS + tl.arange(0, COLUMNS)
        if DEPTH == D:
            pre_RC = tl.dot(token_RD, tl.load(rise_ptr + d[:, None] + column[None, :] * D))
        else:
            pre_RC = _product(tokens_ptr, rise_ptr, row_at, column, 1, D, D, ROWS, COLUMNS, DEPTH)
        _store_gelu(pre_RC, act_ptr, slope_ptr, r[:, None] * H + column[None, :], inside, HAS_SLOPE)


@jit
@no_type_check
def _mlp_backward_kernel(
    d_out_ptr, fall_ptr, slope_ptr, d_pre_ptr, rows,
    D: tl.constexpr, H: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEPS: tl.constexpr,
    DEPTH: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    parts: tl.constexpr = H // (COLUMNS * STEPS)
    first_row = (tl.program_id(0) // parts).to(tl.int64) * ROWS
    first_column = tl.program_id(0) % parts * (COLUMNS * STEPS)
    d_out_ptr += first_row * D
    slope_ptr += first_row * H
    d_pre_ptr += first_row * H
    r = tl.arange(0, ROWS)
    left = (rows - first_row).to(tl.int32)
    row = tl.minimum(r, left - 1)
    d = tl.arange(0, D)
    if DEPTH == D:
        d_out_RD = tl.load(d_out_ptr + row[:, None] * D + d[None, :])
    for step in tl.range(0, STEPS, num_stages=STAGES):
        column = first_column + step * COLUMNS + tl.arange(0, COLUMNS)
        if DEPTH == D:
            fall_DC = tl.load(fall_ptr + d[:, None] * H + column[None, :])
            d_act_RC = tl.dot(d_out_RD, fall_DC)
        else:
            d_act_RC = _product(d_out_ptr, fall_ptr, row * D, column, H, 1, D, ROWS, COLUMNS, DEPTH)
        slope_RC = tl.load(slope_ptr + row[:, None] * H + column[None, :], eviction_policy="evict_first")
        d_pre_RC = (d_act_RC * slope_RC.to(tl.float32)).to(d_pre_ptr.dtype.element_ty)
        tl.store(d_pre_ptr + r[:, None] * H + column[None, :], d_pre_RC, mask=r[:, None] < left)
