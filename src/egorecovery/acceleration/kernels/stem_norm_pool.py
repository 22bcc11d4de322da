"""The whole stem on cells: convolution, group norm, ReLU and max pooling, and a backward pass that stays on chip.

Pictures want no gradient, so the gradient of the stem's map, the largest tensor of the network, would be written only
to be multiplied with the cells. Here it never is: a program makes a tile of it from the map and the pooled gradient
and multiplies it at once. Tiles hold every second column and every fourth row of a patch, so which of its windows an
input can have won is the same for a whole tile, and nine comparisons serve four inputs.
"""

# B pictures, C = 16 channels of a cell, h x w outputs of the convolution, O (OUT) output channels, Q pooled pixels or
# programs, T = 4 tap rows, K = 64 numbers of a tap row, P pixels of a tile, S parts of a picture
from typing import Any, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from egorecovery.acceleration.kernels.deferred_gradients import norm_gradients
from egorecovery.acceleration.kernels.dispatch import ceil_div, jit, runs_fused, tl
from egorecovery.acceleration.kernels.group_norm import channels_last, group_norm_fits
from egorecovery.acceleration.kernels.group_norm_max_pool import (
    group_norm_relu_max_pool,
    pooled_and_winners,
    sums_of_pooled_gradient,
)
from egorecovery.acceleration.kernels.group_norm_parts import gradient_means
from egorecovery.acceleration.kernels.stem import stem_convolution_and_sums, stem_fits, stem_maps_and_sums
from egorecovery.acceleration.kernels.stem_gradient import total_of_partials
from egorecovery.acceleration.kernels.stem_tiles import WARPS, GradientTile, add_tap_rows, store_tap_rows

# Compiled for sm_90: 253 registers and 26 KB of shared memory, so two programs per multiprocessor of an H200. With 32
# pixels registers spill; with two stages all loads bypass the L1 cache, in which most of them find their neighbours'.
GRADIENT_TILE = GradientTile(pixels=16, stages=1, programs=264)


def stem_norm_pool(
    cells_BChw: Float[Tensor, "B 16 _ _"],
    weight_O377: Float[Tensor, "O 3 7 7"],
    groups: int,
    norm_weight_O: Float[Tensor, " O"],
    norm_bias_O: Float[Tensor, " O"],
) -> Float[Tensor, "B O p q"]:
    """max_pool2d(relu(GN(stem_convolution(cells))), kernel 3, stride 2, padding 1), channels last."""
    if (
        stem_fits(cells_BChw, weight_O377)
        and runs_fused(cells_BChw, norm_weight_O, norm_bias_O)
        and group_norm_fits(weight_O377.transpose(0, 1), groups)  # it looks at the channels alone
    ):
        return _StemNormPool.apply(cells_BChw, weight_O377, groups, norm_weight_O, norm_bias_O)
    maps_BOhw, sums_BS2O = stem_convolution_and_sums(cells_BChw, weight_O377)
    return group_norm_relu_max_pool(maps_BOhw, groups, norm_weight_O, norm_bias_O, sums_BS2O)


class _StemNormPool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, cells_BChw: Tensor, weight_O377: Tensor, groups: int, norm_weight_O: Tensor, norm_bias_O: Tensor
    ) -> Tensor:
        cells_BChw = channels_last(cells_BChw)
        maps_BOhw, sums_BS2O = stem_maps_and_sums(cells_BChw, weight_O377, with_sums=True)
        pooled_BOQ, winner_BOQ, code_BOQ, moments_B2O = pooled_and_winners(
            maps_BOhw, groups, norm_weight_O, norm_bias_O, sums_BS2O
        )
        ctx.save_for_backward(
            cells_BChw, weight_O377, norm_weight_O, norm_bias_O, maps_BOhw, moments_B2O, winner_BOQ, code_BOQ
        )
        ctx.groups = groups
        return pooled_BOQ

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_pooled_BOQ: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[reportIncompatibleMethodOverride]  # torch types it *Any
        cells, weight_O377, norm_weight_O, norm_bias_O, maps_BOhw, moments_B2O, winner_BOQ, code_BOQ = ctx.saved_tensors
        d_pooled_BOQ = channels_last(d_pooled_BOQ)
        sums_BS2O = sums_of_pooled_gradient(maps_BOhw, ctx.groups, moments_B2O, winner_BOQ, code_BOQ, d_pooled_BOQ)
        pictures, channels, height, width = maps_BOhw.shape
        affine_B3O = torch.empty((pictures, 3, channels), device=maps_BOhw.device)
        _affine_kernel[(pictures,)](
            norm_weight_O, moments_B2O, sums_BS2O, affine_B3O,
            HW=height * width, C=channels, GROUP=channels // ctx.groups, PARTS=sums_BS2O.shape[1], num_warps=WARPS,
        )  # fmt: skip
        patches = pictures * ceil_div(height, GRADIENT_TILE.pixels // 2) * ceil_div(width, 16)
        programs = min(GRADIENT_TILE.programs, patches)
        partial_QTKO = torch.empty((programs, 4, 64, channels), device=maps_BOhw.device)
        _stem_norm_pool_gradient_kernel[(programs,)](
            cells, maps_BOhw, code_BOQ, d_pooled_BOQ, affine_B3O, partial_QTKO, patches,
            H=height, W=width, OUT=channels, TILE=GRADIENT_TILE.pixels,
            num_stages=GRADIENT_TILE.stages, num_warps=WARPS,
        )  # fmt: skip
        d_weight_O377 = total_of_partials(partial_QTKO, weight_O377)
        d_bias_O, d_scale_O = norm_gradients(norm_bias_O, norm_weight_O, sums_BS2O.flatten(0, 1))
        return None, d_weight_O377, None, d_scale_O, d_bias_O


@jit
@no_type_check
def _affine_kernel(
    weight_ptr, moments_ptr, sums_ptr, affine_ptr,
    HW: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """The norm's backward pass of one picture, per channel: d_map = first * d_normed + second * map + third."""
    image = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, C)
    mean_C = tl.load(moments_ptr + image * 2 * C + c)
    rstd_C = tl.load(moments_ptr + image * 2 * C + C + c)
    weight_C = tl.load(weight_ptr + c).to(tl.float32)
    mean_d_C, along_C = gradient_means(sums_ptr, weight_C, image, HW, C, GROUP, PARTS)
    slope_C = along_C * rstd_C * rstd_C
    tl.store(affine_ptr + image * 3 * C + c, weight_C * rstd_C)
    tl.store(affine_ptr + image * 3 * C + C + c, -slope_C)
    tl.store(affine_ptr + image * 3 * C + 2 * C + c, mean_C * slope_C - mean_d_C * rstd_C)


@jit
@no_type_check
def _cells_of(at_PK, y, x, ROW: tl.constexpr, H: tl.constexpr, W: tl.constexpr):
    """For pixels of even and of odd columns, the four cells around each so many rows below; zeros past the edges."""
    column_PK = x[:, None] - 1 + tl.arange(0, 64)[None, :] // 16
    row = ((y + ROW >= 0) & (y + ROW <= H))[:, None]
    at_PK += ROW * (W + 1) * 16
    even_PK = tl.load(at_PK, mask=row & (column_PK >= 0) & (column_PK <= W), other=0.0)
    return even_PK, tl.load(at_PK + 16, mask=row & (column_PK + 1 <= W), other=0.0)


@jit
@no_type_check
def _maps_of(at_PO, y, x, ROW: tl.constexpr, H: tl.constexpr, W: tl.constexpr, OUT: tl.constexpr, TILE: tl.constexpr):
    """The map in even and in odd columns."""
    at_PO += ROW * W * OUT
    if H % (TILE // 2) == 0 and W % 16 == 0:
        even_PO, odd_PO = tl.load(at_PO), tl.load(at_PO + OUT)
    else:
        even_PO = tl.load(at_PO, mask=((y + ROW < H) & (x < W))[:, None], other=0.0)
        odd_PO = tl.load(at_PO + OUT, mask=((y + ROW < H) & (x + 1 < W))[:, None], other=0.0)
    return even_PO, odd_PO


@jit
@no_type_check
def _windows_of(code_at_PO, d_at_PO, oy, ox, ROW: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, OUT: tl.constexpr):
    """Who won the windows of pooled pixels so many rows below and of those to their right, and their gradients."""
    inside = ((oy + ROW < OH) & (ox < OW))[:, None]
    right = ((oy + ROW < OH) & (ox + 1 < OW))[:, None]
    return (
        tl.load(code_at_PO + ROW * OW * OUT, mask=inside, other=9),  # past the edge nobody won
        tl.load(d_at_PO + ROW * OW * OUT, mask=inside, other=0.0),
        tl.load(code_at_PO + (ROW * OW + 1) * OUT, mask=right, other=9),
        tl.load(d_at_PO + (ROW * OW + 1) * OUT, mask=right, other=0.0),
    )


@jit
@no_type_check
def _won(windows, TAP: tl.constexpr, ODD: tl.constexpr):
    """The gradient of inputs that are this tap of their windows; in odd columns the next, and the one before of the
    windows to the right."""
    d_PO = tl.where(windows[0] == TAP + ODD, windows[1].to(tl.float32), 0.0)
    if ODD:
        d_PO += tl.where(windows[2] == TAP - 1, windows[3].to(tl.float32), 0.0)
    return d_PO


@jit
@no_type_check
def _d_map_of(d_normed_PO, map_PO, affine, y, x, H: tl.constexpr, W: tl.constexpr, TILE: tl.constexpr):
    d_map_PO = d_normed_PO * affine[0][None, :] + (map_PO.to(tl.float32) * affine[1][None, :] + affine[2][None, :])
    if H % (TILE // 2) != 0 or W % 16 != 0:
        d_map_PO = tl.where(((y < H) & (x < W))[:, None], d_map_PO, 0.0)
    return d_map_PO.to(map_PO.dtype)


@jit
@no_type_check
def _first_of(patch, H: tl.constexpr, W: tl.constexpr, TILE: tl.constexpr):
    """The picture of a patch, and row and column of the pixels of its first tile."""
    ACROSS: tl.constexpr = (W + 15) // 16
    PATCHES: tl.constexpr = ACROSS * ((H + TILE // 2 - 1) // (TILE // 2))
    p = tl.arange(0, TILE)
    y = patch % PATCHES // ACROSS * (TILE // 2) + p // 8 * 4
    return tl.cast(patch // PATCHES, tl.int64), y, patch % PATCHES % ACROSS * 16 + p % 8 * 2


@jit
@no_type_check
def _map_at(maps_ptr, image, y, x, H: tl.constexpr, W: tl.constexpr, OUT: tl.constexpr):
    return maps_ptr + image * (H * W * OUT) + ((y * W + x) * OUT)[:, None] + tl.arange(0, OUT)[None, :]


@jit
@no_type_check
def _stem_norm_pool_gradient_kernel(
    cells_ptr, maps_ptr, code_ptr, d_pooled_ptr, affine_ptr, partial_ptr, patches,
    H: tl.constexpr, W: tl.constexpr, OUT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    # A patch has 8 pairs of columns; its tiles are one column of each, and rows i, i + 4, i + 8, .. for i from 0 to 3.
    # Windows of pooled pixel (oy, ox) have taps 3 ky + kx from corner (2oy-1, 2ox-1): see group_norm_max_pool.
    # Loads stand where their latency passes behind products, and no earlier: the sums alone take half the registers.
    OH: tl.constexpr = (H + 1) // 2
    OW: tl.constexpr = (W + 1) // 2
    o = tl.arange(0, OUT)
    k = tl.arange(0, 64)
    none = tl.zeros((64, OUT), dtype=tl.float32)
    d = (none, none, none, none)
    image, y, x = _first_of(tl.program_id(0), H, W, TILE)
    even_PO, odd_PO = _maps_of(_map_at(maps_ptr, image, y, x, H, W, OUT), y, x, 0, H, W, OUT, TILE)
    for patch in range(tl.program_id(0), patches, tl.num_programs(0)):
        image, y, x = _first_of(patch, H, W, TILE)
        oy, ox = y // 2, x // 2
        map_at_PO = _map_at(maps_ptr, image, y, x, H, W, OUT)
        code_at_PO = _map_at(code_ptr, image, oy, ox, OH, OW, OUT)
        d_at_PO = _map_at(d_pooled_ptr, image, oy, ox, OH, OW, OUT)
        cells_at_PK = cells_ptr + image * ((H + 1) * (W + 1) * 16) + ((y * (W + 1) + x - 1) * 16)[:, None] + k[None, :]
        # Sums over one row: what is made of plain loads alone would be turned for the product before it is computed.
        affine_at = affine_ptr + image * (3 * OUT) + o[None, :] + tl.arange(0, 1)[:, None]
        affine = (
            tl.sum(tl.load(affine_at), axis=0),
            tl.sum(tl.load(affine_at + OUT), axis=0),
            tl.sum(tl.load(affine_at + 2 * OUT), axis=0),
        )
        windows = _windows_of(code_at_PO, d_at_PO, oy, ox, 0, OH, OW, OUT)
        even0_PK, odd0_PK = _cells_of(cells_at_PK, y, x, -1, H, W)
        even1_PK, odd1_PK = _cells_of(cells_at_PK, y, x, 0, H, W)
        even2_PK, odd2_PK = _cells_of(cells_at_PK, y, x, 1, H, W)
        even3_PK, odd3_PK = _cells_of(cells_at_PK, y, x, 2, H, W)

        d_even_PO = _d_map_of(_won(windows, 4, 0), even_PO, affine, y, x, H, W, TILE)
        d_odd_PO = _d_map_of(_won(windows, 4, 1), odd_PO, affine, y, x + 1, H, W, TILE)
        also_even_PO, also_odd_PO = _won(windows, 7, 0), _won(windows, 7, 1)
        windows = _windows_of(code_at_PO, d_at_PO, oy, ox, 1, OH, OW, OUT)
        even_PO, odd_PO = _maps_of(map_at_PO, y, x, 1, H, W, OUT, TILE)
        even4_PK, odd4_PK = _cells_of(cells_at_PK, y, x, 3, H, W)
        d = add_tap_rows(d, d_even_PO, even0_PK, even1_PK, even2_PK, even3_PK)
        d = add_tap_rows(d, d_odd_PO, odd0_PK, odd1_PK, odd2_PK, odd3_PK)

        d_even_PO = _d_map_of(also_even_PO + _won(windows, 1, 0), even_PO, affine, y + 1, x, H, W, TILE)
        d_odd_PO = _d_map_of(also_odd_PO + _won(windows, 1, 1), odd_PO, affine, y + 1, x + 1, H, W, TILE)
        even_PO, odd_PO = _maps_of(map_at_PO, y, x, 2, H, W, OUT, TILE)
        even5_PK, odd5_PK = _cells_of(cells_at_PK, y, x, 4, H, W)
        d = add_tap_rows(d, d_even_PO, even1_PK, even2_PK, even3_PK, even4_PK)
        d = add_tap_rows(d, d_odd_PO, odd1_PK, odd2_PK, odd3_PK, odd4_PK)

        d_even_PO = _d_map_of(_won(windows, 4, 0), even_PO, affine, y + 2, x, H, W, TILE)
        d_odd_PO = _d_map_of(_won(windows, 4, 1), odd_PO, affine, y + 2, x + 1, H, W, TILE)
        also_even_PO, also_odd_PO = _won(windows, 7, 0), _won(windows, 7, 1)
        windows = _windows_of(code_at_PO, d_at_PO, oy, ox, 2, OH, OW, OUT)
        even_PO, odd_PO = _maps_of(map_at_PO, y, x, 3, H, W, OUT, TILE)
        even6_PK, odd6_PK = _cells_of(cells_at_PK, y, x, 5, H, W)
        d = add_tap_rows(d, d_even_PO, even2_PK, even3_PK, even4_PK, even5_PK)
        d = add_tap_rows(d, d_odd_PO, odd2_PK, odd3_PK, odd4_PK, odd5_PK)

        d_even_PO = _d_map_of(also_even_PO + _won(windows, 1, 0), even_PO, affine, y + 3, x, H, W, TILE)
        d_odd_PO = _d_map_of(also_odd_PO + _won(windows, 1, 1), odd_PO, affine, y + 3, x + 1, H, W, TILE)
        image, y, x = _first_of(tl.minimum(patch + tl.num_programs(0), patches - 1), H, W, TILE)
        even_PO, odd_PO = _maps_of(_map_at(maps_ptr, image, y, x, H, W, OUT), y, x, 0, H, W, OUT, TILE)
        d = add_tap_rows(d, d_even_PO, even3_PK, even4_PK, even5_PK, even6_PK)
        d = add_tap_rows(d, d_odd_PO, odd3_PK, odd4_PK, odd5_PK, odd6_PK)
    store_tap_rows(partial_ptr, d, OUT)
