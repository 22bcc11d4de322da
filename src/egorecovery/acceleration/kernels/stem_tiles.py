"""How pictures cut into 2x2 cells are cut once more, into patches and tiles, by the kernels of the stem."""

# B pictures, C = 16 channels of a cell, h x w outputs (and one more row and column of cells), O (OUT) output channels,
# K = 64 numbers of a tap row, P pixels of a tile
from dataclasses import dataclass
from typing import no_type_check

from torch import Tensor

from egorecovery.acceleration.kernels.dispatch import ceil_div, jit, tl

WARPS = 4


@dataclass
class GradientTile:
    """How the gradient of the weight is cut. Mutable, so that a benchmark can sweep it."""

    pixels: int
    stages: int
    programs: int  # at most; each leaves a partial sum of 64 KB


def patch_sizes(cells_BChw: Tensor, weight_O377: Tensor, pixels: int) -> tuple[int, dict[str, int]]:
    """How many patches a picture has, and the compile-time sizes of the kernels."""
    height, width = cells_BChw.shape[2] - 1, cells_BChw.shape[3] - 1
    sizes = {"H": height, "W": width, "OUT": weight_O377.shape[0], "TILE": pixels, "num_warps": WARPS}
    return ceil_div(height, pixels // 4) * ceil_div(width, 16), sizes


@jit
@no_type_check
def tap(t, k):
    """Colour and place in the 7x7 weight of number k of tap row t; not every number has one."""
    channel = k % 16
    ky, kx = 2 * t + channel // 6 - 1, 2 * (k // 16) + channel // 3 % 2 - 1
    return channel % 3, ky, kx, (channel < 12) & (ky >= 0) & (kx >= 0)


@jit
@no_type_check
def pixels_of(patch, H: tl.constexpr, W: tl.constexpr, TILE: tl.constexpr):
    """Row and column of the first tile's pixels; the others are one, two and three rows below."""
    ACROSS: tl.constexpr = (W + 15) // 16
    p = tl.arange(0, TILE)
    return patch // ACROSS * (TILE // 4) + p // 16 * 4, patch % ACROSS * 16 + p % 16


@jit
@no_type_check
def cells_of(cells_ptr, y, x, H: tl.constexpr, W: tl.constexpr):
    """For every pixel (y, x), cells (y, x - 1) to (y, x + 2): 64 numbers in a row, and zeros past the edges."""
    k = tl.arange(0, 64)
    column = x[:, None] - 1 + k[None, :] // 16
    inside = ((y >= 0) & (y <= H))[:, None] & (column >= 0) & (column <= W)
    return tl.load(cells_ptr + ((y * (W + 1) + x - 1) * 16)[:, None] + k[None, :], mask=inside, other=0)


@jit
@no_type_check
def add_tap_rows(d, d_map_PO, cells0_PK, cells1_PK, cells2_PK, cells3_PK):
    """What one tile of the map adds to the gradients of the tap rows."""
    d0 = tl.dot(tl.trans(cells0_PK), d_map_PO, d[0])
    d1 = tl.dot(tl.trans(cells1_PK), d_map_PO, d[1])
    d2 = tl.dot(tl.trans(cells2_PK), d_map_PO, d[2])
    d3 = tl.dot(tl.trans(cells3_PK), d_map_PO, d[3])
    return d0, d1, d2, d3


@jit
@no_type_check
def store_tap_rows(partial_ptr, d, OUT: tl.constexpr):
    """This program's part of all four."""
    at = tl.program_id(0) * (256 * OUT) + tl.arange(0, 64)[:, None] * OUT + tl.arange(0, OUT)[None, :]
    tl.store(partial_ptr + at, d[0])
    tl.store(partial_ptr + at + 64 * OUT, d[1])
    tl.store(partial_ptr + at + 128 * OUT, d[2])
    tl.store(partial_ptr + at + 192 * OUT, d[3])
