"""The gradient of the stem's weight, from cells and the gradient of what the convolution made of them.

It pairs the tiles of the forward pass (see `stem`): seven of cells with four of outputs, sixteen products.
"""

# B pictures, C = 16 channels of a cell, h x w outputs, O (OUT) output channels, T = 4 tap rows, K = 64 numbers of a tap
# row, P pixels of a tile, Q programs
from typing import no_type_check

import torch
from torch import Tensor

from egorecovery.acceleration.kernels.dispatch import jit, power_of_two_from, tl
from egorecovery.acceleration.kernels.stem_tiles import (
    WARPS,
    GradientTile,
    add_tap_rows,
    cells_of,
    patch_sizes,
    pixels_of,
    store_tap_rows,
    tap,
)

# Compiled for sm_90: 159 registers and 88 KB of shared memory, so two programs per multiprocessor of an H200.
GRADIENT_TILE = GradientTile(pixels=32, stages=2, programs=264)
TOTAL_ROWS = 128  # partial sums added at a time


def stem_weight_gradient(cells_BChw: Tensor, weight_O377: Tensor, d_maps_BOhw: Tensor) -> Tensor:
    channels = weight_O377.shape[0]
    patches, sizes = patch_sizes(cells_BChw, weight_O377, GRADIENT_TILE.pixels)
    programs = min(GRADIENT_TILE.programs, len(cells_BChw) * patches)
    partial_QTKO = torch.empty((programs, 4, 64, channels), device=cells_BChw.device)
    _stem_gradient_kernel[(programs,)](
        cells_BChw, d_maps_BOhw.contiguous(memory_format=torch.channels_last), partial_QTKO,
        len(cells_BChw) * patches, num_stages=GRADIENT_TILE.stages, **sizes,
    )  # fmt: skip
    return total_of_partials(partial_QTKO, weight_O377)


def total_of_partials(partial_QTKO: Tensor, weight_O377: Tensor) -> Tensor:
    """The gradient of the weight that programs left in parts."""
    programs, channels = len(partial_QTKO), partial_QTKO.shape[3]
    d_weight_O377 = torch.empty_like(weight_O377)
    _total_kernel[(4, 64)](
        partial_QTKO, d_weight_O377, programs, *d_weight_O377.stride(),
        OUT=channels, ROWS=min(TOTAL_ROWS, power_of_two_from(programs)), num_warps=2 * WARPS,
    )  # fmt: skip
    return d_weight_O377


@jit
@no_type_check
def _gradient_of(d_maps_ptr, y, x, H: tl.constexpr, W: tl.constexpr, OUT: tl.constexpr):
    inside = ((y < H) & (x < W))[:, None]
    return tl.load(d_maps_ptr + ((y * W + x) * OUT)[:, None] + tl.arange(0, OUT)[None, :], mask=inside, other=0.0)


@jit
@no_type_check
def _stem_gradient_kernel(
    cells_ptr, d_maps_ptr, partial_ptr, patches,
    H: tl.constexpr, W: tl.constexpr, OUT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    PATCHES: tl.constexpr = (W + 15) // 16 * ((H + TILE // 4 - 1) // (TILE // 4))
    none_KO = tl.zeros((64, OUT), dtype=tl.float32)
    d = (none_KO, none_KO, none_KO, none_KO)
    for patch in range(tl.program_id(0), patches, tl.num_programs(0)):
        image = tl.cast(patch // PATCHES, tl.int64)
        cells = cells_ptr + image * ((H + 1) * (W + 1) * 16)
        d_maps = d_maps_ptr + image * (H * W * OUT)
        y, x = pixels_of(patch % PATCHES, H, W, TILE)
        d_out0_PO = _gradient_of(d_maps, y, x, H, W, OUT)
        d_out1_PO = _gradient_of(d_maps, y + 1, x, H, W, OUT)
        d_out2_PO = _gradient_of(d_maps, y + 2, x, H, W, OUT)
        d_out3_PO = _gradient_of(d_maps, y + 3, x, H, W, OUT)
        cells0_PK = cells_of(cells, y - 1, x, H, W)
        cells1_PK = cells_of(cells, y, x, H, W)
        cells2_PK = cells_of(cells, y + 1, x, H, W)
        cells3_PK = cells_of(cells, y + 2, x, H, W)
        cells4_PK = cells_of(cells, y + 3, x, H, W)
        cells5_PK = cells_of(cells, y + 4, x, H, W)
        cells6_PK = cells_of(cells, y + 5, x, H, W)
        d = add_tap_rows(d, d_out0_PO, cells0_PK, cells1_PK, cells2_PK, cells3_PK)
        d = add_tap_rows(d, d_out1_PO, cells1_PK, cells2_PK, cells3_PK, cells4_PK)
        d = add_tap_rows(d, d_out2_PO, cells2_PK, cells3_PK, cells4_PK, cells5_PK)
        d = add_tap_rows(d, d_out3_PO, cells3_PK, cells4_PK, cells5_PK, cells6_PK)
    store_tap_rows(partial_ptr, d, OUT)


@jit
@no_type_check
def _total_kernel(
    partial_ptr, d_weight_ptr, programs, stride_o, stride_c, stride_y, stride_x, OUT: tl.constexpr, ROWS: tl.constexpr
):
    """The sum over all programs, always in the same order, at its place in the 7x7 weight."""
    t, k = tl.program_id(0), tl.program_id(1)
    colour, ky, kx, real = tap(t, k)
    if real:
        o = tl.arange(0, OUT)
        sum_QO = tl.zeros((ROWS, OUT), dtype=tl.float32)
        for start in range(0, programs, ROWS):
            q = start + tl.arange(0, ROWS)
            at = q[:, None] * (256 * OUT) + (t * 64 + k) * OUT + o[None, :]
            sum_QO += tl.load(partial_ptr + at, mask=q[:, None] < programs, other=0.0)
        d_weight_ptr += colour * stride_c + ky * stride_y + kx * stride_x
        tl.store(d_weight_ptr + o * stride_o, tl.sum(sum_QO, axis=0).to(d_weight_ptr.dtype.element_ty))
