"""The two-layer network of a transformer block, its GELU inside the products on either side of it.

Alone, GELU is a pass over the widest tensors of the network: 4 reads and 4 writes of the stream's size forward, 8 and
4 backward. Here the first product writes the activation and beside it GELU's slope, which the backward pass only has
to multiply with: half the bytes of keeping the product itself, and no exponential in that pass. Both come from one
float32 sum before it is rounded, so they belong together. The other products are the library's.

A slope lies between -0.13 and 1.13, so a byte holds it in steps of 1/200, as exact as bfloat16 where it matters, and
0 and 1 without any error. Tiles travel by the GPU's copy engine; one without (before Hopper) leaves all to torch.
"""

# B samples, N tokens, D width, H hidden width, R rows = B x N (in kernels, of one tile), C columns of one tile
from dataclasses import dataclass
from typing import Any, no_type_check

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from egorecovery.acceleration.kernels.deferred_gradients import weight_gradient
from egorecovery.acceleration.kernels.dispatch import (
    INTERPRETED,
    ceil_div,
    has_copy_engine,
    is_power_of_two,
    jit,
    power_of_two_from,
    runs_fused,
    tiles_of,
    tl,
    warps_for,
)
from egorecovery.policy import attention as plain


@dataclass
class Tile:
    """How much one program holds at a time. Mutable, so that a benchmark can sweep it."""

    rows: int
    columns: int  # of the hidden width
    depth: int  # numbers of the width at a time
    warps: int
    stages: int  # fetched tiles in shared memory


# At a width of 256, compiled for sm_90: 125 and 90 registers, 96 KB of shared memory, two programs per multiprocessor
# (one stores while the other multiplies), and nothing spilled. Rows that stay on chip while a program walks over the
# columns were slower.
TILE = Tile(rows=128, columns=128, depth=64, warps=8, stages=3)
INTERPRETED_KERNELS = tl.constexpr(INTERPRETED)
STEPS, ZERO = 200.0, 26.0  # of a slope's byte: how many from slope 0 to 1, and which one is slope 0
SLOPE_STEPS, SLOPE_ZERO = tl.constexpr(STEPS), tl.constexpr(ZERO)
# The last byte of the float32 2^23 + n is n: adding it rounds to a byte, and putting it in front of a byte makes a
# number of it. Instructions that convert are four times slower than those that add.
BYTES_FROM, BITS_OF_BYTES_FROM = tl.constexpr(2.0**23), tl.constexpr(0x4B000000)


def mlp(
    tokens: Float[Tensor, "*rows D"], rise_HD: Float[Tensor, "H D"], fall_DH: Float[Tensor, "D H"]
) -> Float[Tensor, "*rows D"]:
    """Up to the hidden width, GELU in its tanh form, and down again."""
    if not _fits(tokens, rise_HD, fall_DH):
        return plain.mlp(tokens, rise_HD, fall_DH)
    if torch.is_grad_enabled() and (tokens.requires_grad or rise_HD.requires_grad or fall_DH.requires_grad):
        return _Mlp.apply(tokens, rise_HD, fall_DH)
    act_RH, _ = rise_gelu(_rows(tokens), rise_HD, with_slope=False)
    return linear(act_RH, fall_DH).view(tokens.shape)


def _fits(tokens: Tensor, rise_HD: Tensor, fall_DH: Tensor) -> bool:
    hidden, width = rise_HD.shape
    return (
        runs_fused(tokens, rise_HD, fall_DH)
        and has_copy_engine(tokens)
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
) -> tuple[Float[Tensor, "R H"], UInt8[Tensor, "R H"] | None]:
    """GELU of tokens x rise^T, and its derivative there: byte / STEPS - ZERO / STEPS."""
    (rows, width), hidden = tokens_RD.shape, rise_HD.shape[0]
    act_RH = torch.empty((rows, hidden), dtype=tokens_RD.dtype, device=tokens_RD.device)
    slope_RH = torch.empty((rows, hidden), dtype=torch.uint8, device=tokens_RD.device) if with_slope else None
    programs, sizes = _sizes(rows, width, hidden)
    tile, columns, depth = sizes["ROWS"], sizes["COLUMNS"], sizes["DEPTH"]
    _mlp_forward_kernel[programs](
        tiles_of(tokens_RD, tile, depth),
        tiles_of(rise_HD.contiguous(), columns, depth),
        tiles_of(act_RH, tile, columns),
        None if slope_RH is None else tiles_of(slope_RH, tile, columns),
        **sizes,
    )
    return act_RH, slope_RH


def fall_gelu_backward(
    d_out_RD: Float[Tensor, "R D"], fall_DH: Float[Tensor, "D H"], slope_RH: UInt8[Tensor, "R H"]
) -> Float[Tensor, "R H"]:
    """The gradient in front of GELU: (d_out x fall) times its derivative."""
    (rows, width), hidden = d_out_RD.shape, fall_DH.shape[1]
    d_pre_RH = torch.empty((rows, hidden), dtype=d_out_RD.dtype, device=d_out_RD.device)
    programs, sizes = _sizes(rows, width, hidden)
    tile, columns, depth = sizes["ROWS"], sizes["COLUMNS"], sizes["DEPTH"]
    _mlp_backward_kernel[programs](
        tiles_of(d_out_RD, tile, depth),
        tiles_of(fall_DH.contiguous(), depth, columns),
        tiles_of(slope_RH, tile, columns),
        tiles_of(d_pre_RH, tile, columns),
        **sizes,
    )
    return d_pre_RH


def _sizes(rows: int, width: int, hidden: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """How many programs, and the compile-time sizes of each."""
    tile_rows = min(TILE.rows, max(16, power_of_two_from(rows)))
    columns = min(TILE.columns, hidden)
    # Neighbouring programs share their rows, which one of them fetches from memory; the weight is always in the cache.
    return (hidden // columns, ceil_div(rows, tile_rows)), {
        "D": width,
        "ROWS": tile_rows,
        "COLUMNS": columns,
        "DEPTH": min(TILE.depth, width),
        "num_stages": TILE.stages,
        "num_warps": warps_for(tile_rows, TILE.warps),
    }


@jit
@no_type_check
def _tanh(value):
    """One instruction, right to 11 bits: more than what is stored has."""
    if INTERPRETED_KERNELS:
        return 1.0 - 2.0 / (1.0 + tl.exp(2.0 * value))
    return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [value], tl.float32, is_pure=True, pack=1)


@jit
@no_type_check
def _mlp_forward_kernel(
    tokens_tiles, rise_tiles, act_tiles, slope_tiles,
    D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(0) * COLUMNS
    r = tl.program_id(1) * ROWS
    pre_RC = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for d in range(0, D, DEPTH):
        pre_RC = tl.dot(tokens_tiles.load([r, d]), rise_tiles.load([c, d]).T, pre_RC)
    # gelu(x) = x share with share = (1 + tanh(u)) / 2 and u = sqrt(2 / pi) (x + 0.044715 x^3). Its derivative is
    # share + x share (1 - share) 2 du/dx.
    square_RC = pre_RC * pre_RC
    share_RC = 0.5 * _tanh(pre_RC * (square_RC * 0.035677408 + 0.7978846)) + 0.5
    act_RC = pre_RC * share_RC
    act_tiles.store([r, c], act_RC.to(act_tiles.dtype))
    if slope_tiles is not None:
        steep_RC = act_RC * (square_RC * 0.21406445 + 1.5957691)
        slope_RC = share_RC + steep_RC * (1.0 - share_RC)
        byte_RC = slope_RC * SLOPE_STEPS + (BYTES_FROM + SLOPE_ZERO)
        slope_tiles.store([r, c], byte_RC.to(tl.uint32, bitcast=True).to(tl.uint8))


@jit
@no_type_check
def _mlp_backward_kernel(
    d_out_tiles, fall_tiles, slope_tiles, d_pre_tiles,
    D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(0) * COLUMNS
    r = tl.program_id(1) * ROWS
    d_act_RC = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for d in range(0, D, DEPTH):
        d_act_RC = tl.dot(d_out_tiles.load([r, d]), fall_tiles.load([d, c]), d_act_RC)
    byte_RC = (slope_tiles.load([r, c]).to(tl.uint32) | BITS_OF_BYTES_FROM).to(tl.float32, bitcast=True)
    slope_RC = (byte_RC - (BYTES_FROM + SLOPE_ZERO)) * (1.0 / SLOPE_STEPS)
    d_pre_tiles.store([r, c], (d_act_RC * slope_RC).to(d_pre_tiles.dtype))
