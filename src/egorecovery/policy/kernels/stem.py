"""The stem's 7x7 stride-2 convolution on pictures cut into 2x2 cells, where it is 4x4 taps over 16 channels.

The four cells of one tap row lie side by side in memory, so a tap row is a matrix product over 64 numbers. A program
computes patches of outputs, 16 wide and in four tiles: tile i holds rows i, i + 4, i + 8, .. of the patch. Tiles of
cells laid out the same way serve up to four of them, one for every tap row: seven are read where tap by tap it would
be sixteen. The gradient of the weight pairs the same tiles. Tiles leave with their sums, for which the norm that
follows would read the whole map again.
"""

# B pictures, C = 16 channels of a cell, h x w outputs (and one more row and column of cells), O (OUT) output channels,
# T = 4 tap rows, K = 64 numbers of a tap row, P pixels of a tile, S parts of a picture, Q programs
from dataclasses import dataclass
from typing import Any, no_type_check

import torch
from jaxtyping import Float, Float32
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv2d

from egorecovery.policy.kernels.augment import CELL_STEM_PADDING, stem_weight_space_to_depth
from egorecovery.policy.kernels.dispatch import ceil_div, is_power_of_two, jit, power_of_two_from, runs_fused, tl
from egorecovery.policy.kernels.group_norm_parts import MOST_PARTS


@dataclass
class GradientTile:
    """How the gradient of the weight is cut. Mutable, so that a benchmark can sweep it."""

    pixels: int
    stages: int
    programs: int  # at most; each leaves a partial sum of 64 KB


# Compiled for sm_90: 159 registers and 88 KB of shared memory, so two programs per multiprocessor of an H200. Forward
# it is up to 250 registers and 40 KB, two again.
GRADIENT_TILE = GradientTile(pixels=32, stages=2, programs=264)
PIXELS = 64  # of a forward tile: the rows of a tensor-core product. A patch is then 16 x 16, which divides 48 and 112
WIDEST = 64  # output channels: four tiles in float32 are then 128 registers of every thread
TOTAL_ROWS = 128  # partial sums added at a time
WARPS = 4


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
    patches, sizes = _sizes(cells_BChw, weight_O377, PIXELS)
    each = ceil_div(patches, MOST_PARTS)
    programs = ceil_div(patches, each)
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
        EACH=each, PARTS=parts, HAS_SUMS=with_sums, num_stages=1, **sizes,
    )  # fmt: skip
    return maps_BOhw, sums_BS2O


def total_of_partials(partial_QTKO: Tensor, weight_O377: Tensor) -> Tensor:
    """The gradient of the weight that programs left in parts."""
    programs, channels = len(partial_QTKO), partial_QTKO.shape[3]
    d_weight_O377 = torch.empty_like(weight_O377)
    _total_kernel[(4, 64)](
        partial_QTKO, d_weight_O377, programs, *d_weight_O377.stride(),
        OUT=channels, ROWS=min(TOTAL_ROWS, power_of_two_from(programs)), num_warps=2 * WARPS,
    )  # fmt: skip
    return d_weight_O377


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
        channels = weight_O377.shape[0]
        patches, sizes = _sizes(cells_BChw, weight_O377, GRADIENT_TILE.pixels)
        programs = min(GRADIENT_TILE.programs, len(cells_BChw) * patches)
        partial_QTKO = torch.empty((programs, 4, 64, channels), device=cells_BChw.device)
        _stem_gradient_kernel[(programs,)](
            cells_BChw, d_maps_BOhw.contiguous(memory_format=torch.channels_last), partial_QTKO,
            len(cells_BChw) * patches, num_stages=GRADIENT_TILE.stages, **sizes,
        )  # fmt: skip
        return None, total_of_partials(partial_QTKO, weight_O377), None


def _sizes(cells_BChw: Tensor, weight_O377: Tensor, pixels: int) -> tuple[int, dict[str, int]]:
    """How many patches a picture has, and the compile-time sizes of the kernels."""
    height, width = cells_BChw.shape[2] - 1, cells_BChw.shape[3] - 1
    sizes = {"H": height, "W": width, "OUT": weight_O377.shape[0], "TILE": pixels, "num_warps": WARPS}
    return ceil_div(height, pixels // 4) * ceil_div(width, 16), sizes


@jit
@no_type_check
def _tap(t, k):
    """Colour and place in the 7x7 weight of number k of tap row t; not every number has one."""
    channel = k % 16
    ky, kx = 2 * t + channel // 6 - 1, 2 * (k // 16) + channel // 3 % 2 - 1
    return channel % 3, ky, kx, (channel < 12) & (ky >= 0) & (kx >= 0)


@jit
@no_type_check
def _weight_kernel(weight_ptr, out_ptr, stride_o, stride_c, stride_y, stride_x, OUT: tl.constexpr):
    t = tl.program_id(0)
    k = tl.program_id(1) * 16 + tl.arange(0, 16)
    o = tl.arange(0, OUT)
    colour, ky, kx, real = _tap(t, k)
    at = (colour * stride_c + ky * stride_y + kx * stride_x)[:, None] + o[None, :] * stride_o
    weight_KO = tl.load(weight_ptr + at, mask=real[:, None], other=0.0)
    tl.store(out_ptr + (t * 64 + k)[:, None] * OUT + o[None, :], weight_KO)


@jit
@no_type_check
def _pixels_of(patch, H: tl.constexpr, W: tl.constexpr, TILE: tl.constexpr):
    """Row and column of the first tile's pixels; the others are one, two and three rows below."""
    ACROSS: tl.constexpr = (W + 15) // 16
    p = tl.arange(0, TILE)
    return patch // ACROSS * (TILE // 4) + p // 16 * 4, patch % ACROSS * 16 + p % 16


@jit
@no_type_check
def _cells_of(cells_ptr, y, x, H: tl.constexpr, W: tl.constexpr):
    """For every pixel (y, x), cells (y, x - 1) to (y, x + 2): 64 numbers in a row, and zeros past the edges."""
    k = tl.arange(0, 64)
    column = x[:, None] - 1 + k[None, :] // 16
    inside = ((y >= 0) & (y <= H))[:, None] & (column >= 0) & (column <= W)
    return tl.load(cells_ptr + ((y * (W + 1) + x - 1) * 16)[:, None] + k[None, :], mask=inside, other=0)


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
    EACH: tl.constexpr, PARTS: tl.constexpr, HAS_SUMS: tl.constexpr,
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
    for patch in range(part * EACH, tl.minimum(part * EACH + EACH, PATCHES)):
        y, x = _pixels_of(patch, H, W, TILE)
        next_PK = _cells_of(cells_ptr, y - 1, x, H, W)
        in_PK, next_PK = next_PK.to(w0_KO.dtype, bitcast=True), _cells_of(cells_ptr, y, x, H, W)
        out0_PO = tl.dot(in_PK, w0_KO)
        in_PK, next_PK = next_PK.to(w0_KO.dtype, bitcast=True), _cells_of(cells_ptr, y + 1, x, H, W)
        out0_PO = tl.dot(in_PK, w1_KO, out0_PO)
        out1_PO = tl.dot(in_PK, w0_KO)
        in_PK, next_PK = next_PK.to(w0_KO.dtype, bitcast=True), _cells_of(cells_ptr, y + 2, x, H, W)
        out0_PO = tl.dot(in_PK, w2_KO, out0_PO)
        out1_PO = tl.dot(in_PK, w1_KO, out1_PO)
        out2_PO = tl.dot(in_PK, w0_KO)
        in_PK, next_PK = next_PK.to(w0_KO.dtype, bitcast=True), _cells_of(cells_ptr, y + 3, x, H, W)
        out0_PO = tl.dot(in_PK, w3_KO, out0_PO)
        out1_PO = tl.dot(in_PK, w2_KO, out1_PO)
        out2_PO = tl.dot(in_PK, w1_KO, out2_PO)
        out3_PO = tl.dot(in_PK, w0_KO)
        sum_PO, square_PO = _store(maps_ptr, out0_PO, y, x, sum_PO, square_PO, HAS_SUMS, H, W, OUT, TILE)
        in_PK, next_PK = next_PK.to(w0_KO.dtype, bitcast=True), _cells_of(cells_ptr, y + 4, x, H, W)
        out1_PO = tl.dot(in_PK, w3_KO, out1_PO)
        out2_PO = tl.dot(in_PK, w2_KO, out2_PO)
        out3_PO = tl.dot(in_PK, w1_KO, out3_PO)
        sum_PO, square_PO = _store(maps_ptr, out1_PO, y + 1, x, sum_PO, square_PO, HAS_SUMS, H, W, OUT, TILE)
        in_PK, next_PK = next_PK.to(w0_KO.dtype, bitcast=True), _cells_of(cells_ptr, y + 5, x, H, W)
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


@jit
@no_type_check
def _gradient_of(d_maps_ptr, y, x, H: tl.constexpr, W: tl.constexpr, OUT: tl.constexpr):
    inside = ((y < H) & (x < W))[:, None]
    return tl.load(d_maps_ptr + ((y * W + x) * OUT)[:, None] + tl.arange(0, OUT)[None, :], mask=inside, other=0.0)


@jit
@no_type_check
def _add_tap_rows(d, in0_KP, in1_KP, in2_KP, in3_KP, d_out_PO):
    """What one tile of outputs adds to the gradients of the tap rows."""
    return (
        tl.dot(in0_KP, d_out_PO, d[0]),
        tl.dot(in1_KP, d_out_PO, d[1]),
        tl.dot(in2_KP, d_out_PO, d[2]),
        tl.dot(in3_KP, d_out_PO, d[3]),
    )


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
        y, x = _pixels_of(patch % PATCHES, H, W, TILE)
        d_out0_PO = _gradient_of(d_maps, y, x, H, W, OUT)
        d_out1_PO = _gradient_of(d_maps, y + 1, x, H, W, OUT)
        d_out2_PO = _gradient_of(d_maps, y + 2, x, H, W, OUT)
        d_out3_PO = _gradient_of(d_maps, y + 3, x, H, W, OUT)
        in0_KP = tl.trans(_cells_of(cells, y - 1, x, H, W))
        in1_KP = tl.trans(_cells_of(cells, y, x, H, W))
        in2_KP = tl.trans(_cells_of(cells, y + 1, x, H, W))
        in3_KP = tl.trans(_cells_of(cells, y + 2, x, H, W))
        in4_KP = tl.trans(_cells_of(cells, y + 3, x, H, W))
        in5_KP = tl.trans(_cells_of(cells, y + 4, x, H, W))
        in6_KP = tl.trans(_cells_of(cells, y + 5, x, H, W))
        d = _add_tap_rows(d, in0_KP, in1_KP, in2_KP, in3_KP, d_out0_PO)
        d = _add_tap_rows(d, in1_KP, in2_KP, in3_KP, in4_KP, d_out1_PO)
        d = _add_tap_rows(d, in2_KP, in3_KP, in4_KP, in5_KP, d_out2_PO)
        d = _add_tap_rows(d, in3_KP, in4_KP, in5_KP, in6_KP, d_out3_PO)
    partial_ptr += tl.program_id(0) * (256 * OUT)
    at = tl.arange(0, 64)[:, None] * OUT + tl.arange(0, OUT)[None, :]
    tl.store(partial_ptr + at, d[0])
    tl.store(partial_ptr + at + 64 * OUT, d[1])
    tl.store(partial_ptr + at + 128 * OUT, d[2])
    tl.store(partial_ptr + at + 192 * OUT, d[3])


@jit
@no_type_check
def _total_kernel(
    partial_ptr, d_weight_ptr, programs, stride_o, stride_c, stride_y, stride_x, OUT: tl.constexpr, ROWS: tl.constexpr
):
    """The sum over all programs, always in the same order, at its place in the 7x7 weight."""
    t, k = tl.program_id(0), tl.program_id(1)
    colour, ky, kx, real = _tap(t, k)
    if real:
        o = tl.arange(0, OUT)
        sum_QO = tl.zeros((ROWS, OUT), dtype=tl.float32)
        for start in range(0, programs, ROWS):
            q = start + tl.arange(0, ROWS)
            at = q[:, None] * (256 * OUT) + (t * 64 + k) * OUT + o[None, :]
            sum_QO += tl.load(partial_ptr + at, mask=q[:, None] < programs, other=0.0)
        d_weight_ptr += colour * stride_c + ky * stride_y + kx * stride_x
        tl.store(d_weight_ptr + o * stride_o, tl.sum(sum_QO, axis=0).to(d_weight_ptr.dtype.element_ty))
