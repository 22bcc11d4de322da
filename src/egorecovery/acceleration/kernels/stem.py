"""The stem's 7x7 stride-2 convolution on pictures cut into 2x2 cells, where it is 4x4 taps over 16 channels.

The four cells of one tap row lie side by side in memory, so a tap row is a matrix product over 64 numbers. A program
computes patches of outputs, 16 wide and in four tiles: tile i holds rows i, i + 4, i + 8, .. of the patch. Tiles of
cells laid out the same way serve up to four of them, one for every tap row: seven are read where tap by tap it would
be sixteen. Tiles leave with their sums, for which the norm that
follows would read the whole map again.
"""

# B pictures, C = 16 channels of a cell, h x w outputs (and one more row and column of cells), O (OUT) output channels,
# T = 4 tap rows, K = 64 numbers of a tap row, P pixels of a tile, S parts of a picture
from typing import Any, no_type_check

import torch
from jaxtyping import Float, Float32
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv2d

from egorecovery.acceleration.kernels.augment import CELL_STEM_PADDING, stem_weight_space_to_depth
from egorecovery.acceleration.kernels.dispatch import ceil_div, is_power_of_two, jit, power_of_two_from, runs_fused, tl
from egorecovery.acceleration.kernels.group_norm_parts import MOST_PARTS
from egorecovery.acceleration.kernels.stem_gradient import stem_weight_gradient
from egorecovery.acceleration.kernels.stem_tiles import WARPS, cells_of, patch_sizes, pixels_of, tap

# Compiled for sm_90: up to 250 registers and 40 KB of shared memory, so two programs per multiprocessor of an H200.
PIXELS = 64  # of a tile: the rows of a tensor-core product. A patch is then 16 x 16, which divides 48 and 112
WIDEST = 64  # output channels: four tiles in float32 are then 128 registers of every thread


def stem_convolution(
    cells_BChw: Float[Tensor, "B 16 _ _"], weight_O377: Float[Tensor, "O 3 7 7"]
) -> Float[Tensor, "B O h w"]:
    """What the 7x7 weight, with stride 2 and padding 3, makes of the pictures that these cells were cut from."""
    if stem_fits(cells_BChw, weight_O377):
        return _StemConvolution.apply(cells_BChw, weight_O377, False)[0]
    return plain_stem_convolution(cells_BChw, weight_O377)


def stem_convolution_and_sums(
    cells_BChw: Float[Tensor, "B 16 _ _"], weight_O377: Float[Tensor, "O 3 7 7"]
) -> tuple[Float[Tensor, "B O h w"], Float32[Tensor, "B S 2 O"] | None]:
    """The same, with the sum and the sum of squares of every channel over parts of each picture if a kernel ran."""
    if stem_fits(cells_BChw, weight_O377):
        return _StemConvolution.apply(cells_BChw, weight_O377, True)
    return plain_stem_convolution(cells_BChw, weight_O377), None


def plain_stem_convolution(
    cells_BChw: Float[Tensor, "B 16 _ _"], weight_O377: Float[Tensor, "O 3 7 7"]
) -> Float[Tensor, "B O h w"]:
    """What the kernels compute."""
    return conv2d(cells_BChw, stem_weight_space_to_depth(weight_O377), padding=CELL_STEM_PADDING)


def stem_fits(cells_BChw: Tensor, weight_O377: Tensor) -> bool:
    """Whether the kernels take these."""
    channels = weight_O377.shape[0]
    return (
        runs_fused(cells_BChw, weight_O377)
        and cells_BChw.dtype == weight_O377.dtype
        and cells_BChw.element_size() == 2  # float32 is left to torch
        and not cells_BChw.requires_grad  # pictures never do
        and cells_BChw.numel() > 0
        and min(cells_BChw.shape[2:]) > 1
        and is_power_of_two(channels)
        and 16 <= channels <= WIDEST  # tensor cores want it
    )


def stem_maps_and_sums(cells_BChw: Tensor, weight_O377: Tensor, with_sums: bool) -> tuple[Tensor, Tensor | None]:
    """The kernels of the forward pass, on channels-last cells."""
    pictures, channels, device = cells_BChw.shape[0], weight_O377.shape[0], cells_BChw.device
    patches, sizes = patch_sizes(cells_BChw, weight_O377, PIXELS)
    per_program = ceil_div(patches, MOST_PARTS)
    programs = ceil_div(patches, per_program)
    parts = power_of_two_from(programs)
    weight_TKO = torch.empty((4, 64, channels), dtype=weight_O377.dtype, device=device)
    maps_BOhw = torch.empty(
        (pictures, channels, sizes["H"], sizes["W"]),
        dtype=cells_BChw.dtype,
        device=device,
        memory_format=torch.channels_last,
    )
    sums_BS2O = torch.empty((pictures, parts, 2, channels), device=device) if with_sums else None
    _weight_kernel[(4, 4)](weight_O377, weight_TKO, *weight_O377.stride(), OUT=channels, num_warps=WARPS)
    _stem_kernel[(programs, pictures)](
        cells_BChw.view(torch.int16), weight_TKO, maps_BOhw, sums_BS2O,
        PER_PROGRAM=per_program, PARTS=parts, HAS_SUMS=with_sums, num_stages=1, **sizes,
    )  # fmt: skip
    return maps_BOhw, sums_BS2O


class _StemConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, cells_BChw: Tensor, weight_O377: Tensor, with_sums: bool) -> tuple[Tensor, Tensor | None]:
        cells_BChw = cells_BChw.contiguous(memory_format=torch.channels_last)
        maps_BOhw, sums_BS2O = stem_maps_and_sums(cells_BChw, weight_O377, with_sums)
        ctx.save_for_backward(cells_BChw, weight_O377)
        ctx.set_materialize_grads(False)
        if sums_BS2O is not None:
            ctx.mark_non_differentiable(sums_BS2O)
        return maps_BOhw, sums_BS2O

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_maps_BOhw: Tensor | None, _: None) -> tuple[None, Tensor | None, None]:  # type: ignore[reportIncompatibleMethodOverride]  # torch types it *Any
        cells_BChw, weight_O377 = ctx.saved_tensors
        if d_maps_BOhw is None:
            return None, None, None
        return None, stem_weight_gradient(cells_BChw, weight_O377, d_maps_BOhw), None


@jit
@no_type_check
def _weight_kernel(weight_ptr, out_ptr, stride_o, stride_c, stride_y, stride_x, OUT: tl.constexpr):
    t = tl.program_id(0)
    k = tl.program_id(1) * 16 + tl.arange(0, 16)
    o = tl.arange(0, OUT)
    colour, ky, kx, real = tap(t, k)
    at = (colour * stride_c + ky * stride_y + kx * stride_x)[:, None] + o[None, :] * stride_o
    weight_KO = tl.load(weight_ptr + at, mask=real[:, None], other=0.0)
    tl.store(out_ptr + (t * 64 + k)[:, None] * OUT + o[None, :], weight_KO)


@jit
@no_type_check
def _store(
    maps_ptr, out_PO, y, x, sum_PO, square_PO,
    HAS_SUMS: tl.constexpr, H: tl.constexpr, W: tl.constexpr, OUT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    at = ((y * W + x) * OUT)[:, None] + tl.arange(0, OUT)[None, :]
    inside = ((y < H) & (x < W))[:, None]
    out_PO = out_PO.to(maps_ptr.dtype.element_ty)
    tl.store(maps_ptr + at, out_PO, mask=inside)
    if HAS_SUMS:  # of what is stored
        out_PO = out_PO.to(tl.float32)
        if H % (TILE // 4) != 0 or W % 16 != 0:
            out_PO = tl.where(inside, out_PO, 0.0)
        # Pixels 8 apart are in one thread: adding these alone needs no exchange, and halves the registers.
        sum_PO += tl.sum(tl.reshape(out_PO, (TILE // 16, 2, 8, OUT)), axis=1)
        square_PO += tl.sum(tl.reshape(out_PO * out_PO, (TILE // 16, 2, 8, OUT)), axis=1)
    return sum_PO, square_PO


@jit
@no_type_check
def _stem_kernel(
    cells_ptr, weight_ptr, maps_ptr, sums_ptr,
    PER_PROGRAM: tl.constexpr, PARTS: tl.constexpr, HAS_SUMS: tl.constexpr,
    H: tl.constexpr, W: tl.constexpr, OUT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    # Cells come as integers of their size: a product whose input is no plain load takes it from registers, so the
    # next tile is fetched while this one is multiplied, and shared memory is read for the weight alone.
    PATCHES: tl.constexpr = (W + 15) // 16 * ((H + TILE // 4 - 1) // (TILE // 4))
    part = tl.program_id(0)
    image = tl.program_id(1).to(tl.int64)
    cells_ptr += image * ((H + 1) * (W + 1) * 16)
    maps_ptr += image * (H * W * OUT)
    o = tl.arange(0, OUT)
    weight_at = tl.arange(0, 64)[:, None] * OUT + o[None, :]
    w0_KO = tl.load(weight_ptr + weight_at)
    w1_KO = tl.load(weight_ptr + weight_at + 64 * OUT)
    w2_KO = tl.load(weight_ptr + weight_at + 128 * OUT)
    w3_KO = tl.load(weight_ptr + weight_at + 192 * OUT)
    sum_PO = tl.zeros((TILE // 16, 8, OUT), dtype=tl.float32)
    square_PO = tl.zeros((TILE // 16, 8, OUT), dtype=tl.float32)
    for patch in range(part * PER_PROGRAM, tl.minimum(part * PER_PROGRAM + PER_PROGRAM, PATCHES)):
        y, x = pixels_of(patch, H, W, TILE)
        next_PK = cells_of(cells_ptr, y - 1, x, H, W)
        in_PK, next_PK = next_PK.to(w0_KO.dtype, bitcast=True), cells_of(cells_ptr, y, x, H, W)
        out0_PO = tl.dot(in_PK, w0_KO)
        in_PK, next_PK = next_PK.to(w0_KO.dtype, bitcast=True), cells_of(cells_ptr, y + 1, x, H, W)
        out0_PO = tl.dot(in_PK, w1_KO, out0_PO)
        out1_PO = tl.dot(in_PK, w0_KO)
        in_PK, next_PK = next_PK.to(w0_KO.dtype, bitcast=True), cells_of(cells_ptr, y + 2, x, H, W)
        out0_PO = tl.dot(in_PK, w2_KO, out0_PO)
        out1_PO = tl.dot(in_PK, w1_KO, out1_PO)
        out2_PO = tl.dot(in_PK, w0_KO)
        in_PK, next_PK = next_PK.to(w0_KO.dtype, bitcast=True), cells_of(cells_ptr, y + 3, x, H, W)
        out0_PO = tl.dot(in_PK, w3_KO, out0_PO)
        out1_PO = tl.dot(in_PK, w2_KO, out1_PO)
        out2_PO = tl.dot(in_PK, w1_KO, out2_PO)
        out3_PO = tl.dot(in_PK, w0_KO)
        sum_PO, square_PO = _store(maps_ptr, out0_PO, y, x, sum_PO, square_PO, HAS_SUMS, H, W, OUT, TILE)
        in_PK, next_PK = next_PK.to(w0_KO.dtype, bitcast=True), cells_of(cells_ptr, y + 4, x, H, W)
        out1_PO = tl.dot(in_PK, w3_KO, out1_PO)
        out2_PO = tl.dot(in_PK, w2_KO, out2_PO)
        out3_PO = tl.dot(in_PK, w1_KO, out3_PO)
        sum_PO, square_PO = _store(maps_ptr, out1_PO, y + 1, x, sum_PO, square_PO, HAS_SUMS, H, W, OUT, TILE)
        in_PK, next_PK = next_PK.to(w0_KO.dtype, bitcast=True), cells_of(cells_ptr, y + 5, x, H, W)
        out2_PO = tl.dot(in_PK, w3_KO, out2_PO)
        out3_PO = tl.dot(in_PK, w2_KO, out3_PO)
        sum_PO, square_PO = _store(maps_ptr, out2_PO, y + 2, x, sum_PO, square_PO, HAS_SUMS, H, W, OUT, TILE)
        out3_PO = tl.dot(next_PK.to(w0_KO.dtype, bitcast=True), w3_KO, out3_PO)
        sum_PO, square_PO = _store(maps_ptr, out3_PO, y + 3, x, sum_PO, square_PO, HAS_SUMS, H, W, OUT, TILE)
    if HAS_SUMS:
        sums_ptr += (image * PARTS + part) * 2 * OUT
        tl.store(sums_ptr + o, tl.sum(tl.reshape(sum_PO, (TILE // 2, OUT)), axis=0))
        tl.store(sums_ptr + OUT + o, tl.sum(tl.reshape(square_PO, (TILE // 2, OUT)), axis=0))
        if part + tl.num_programs(0) < PARTS:  # the norm reads a power of two of parts: nobody has this one
            both = tl.num_programs(0) * 2 * OUT + tl.arange(0, 2 * OUT)
            tl.store(sums_ptr + both, tl.zeros((2 * OUT,), dtype=tl.float32))
