"""From the resident frames to one augmented, normalised batch per view, in one pass.

Gather by index, random shift with replicated edges, a hidden square, colour matrix, clamp, normalisation and the cast
happen between one read of bytes and one write. Optionally the write is already cut into 2x2 cells (space to depth), on
which the 7x7 stride-2 stem convolution over 3 channels becomes a 4x4 stride-1 one over 16: the same sums, in a shape
that tensor cores take.
"""

# F frames, V views, B samples, H x W pixels, O output channels
from typing import no_type_check

import torch
from jaxtyping import Float, Float32, Int32, Int64, UInt8
from torch import Tensor
from torch.nn.functional import pad

from egorecovery.acceleration.kernels.dispatch import ceil_div, jit, runs_fused, tl
from egorecovery.errors import RecipeError
from egorecovery.policy.augmentation import augmented

CELL_CHANNELS = 16  # 2 x 2 x 3 colours and 4 zeros: 32 bytes a cell
CELL_STEM_PADDING = 1  # `padding` of the 4x4 convolution; the other leading row and column are in the cells already
BLOCK = 512  # cells or pixels of one program: four per thread, which share what is computed once per sample
WARPS = 4


def gather_augmented(
    frames_FVHW3: UInt8[Tensor, "F V H W 3"],
    index_B: Int64[Tensor, " B"],
    colour_B34: Float32[Tensor, "B 3 4"],
    crop_BV5: Int32[Tensor, "B V 5"],
    mean_3: Float32[Tensor, " 3"],
    std_3: Float32[Tensor, " 3"],
    *,
    view: int | None = None,
    space_to_depth: bool = False,
    dtype: torch.dtype = torch.bfloat16,
) -> Float[Tensor, "*shown B C h w"]:
    """`policy.augmentation.augmented` of all views (V, B, 3, H, W), or of one (B, 3, H, W), in one launch.

    With `space_to_depth` the images are (.., 16, H/2 + 1, W/2 + 1): see `stem_weight_space_to_depth`.
    """
    height, width = frames_FVHW3.shape[2:4]
    if space_to_depth and (height % 2 or width % 2):
        raise RecipeError(f"space to depth cuts images into 2x2 cells: {height}x{width} pixels must both be even")
    views = list(range(frames_FVHW3.shape[1])) if view is None else [view]
    if runs_fused(colour_B34, mean_3, std_3) and frames_FVHW3.device == colour_B34.device:
        images = _gather(frames_FVHW3, index_B, colour_B34, crop_BV5, mean_3, std_3, views, space_to_depth, dtype)
    else:
        images = augmented(frames_FVHW3[:, views], index_B, colour_B34, crop_BV5[:, views], mean_3, std_3, dtype)
        images = in_cells(images) if space_to_depth else images
    return images if view is None else images[0]


def in_cells(images_VB3HW: Float[Tensor, "V B 3 H W"]) -> Float[Tensor, "V B 16 h w"]:
    """Pictures cut into 2x2 cells, as the kernel writes them."""
    height, width = images_VB3HW.shape[-2:]
    images_VBHW3 = images_VB3HW.permute(0, 1, 3, 4, 2)
    cells = images_VBHW3.unflatten(3, (width // 2, 2)).unflatten(2, (height // 2, 2))  # V B h 2 w 2 3
    cells_VBhwC = cells.permute(0, 1, 2, 4, 3, 5, 6).flatten(-3)
    return pad(cells_VBhwC, (0, CELL_CHANNELS - 12, 1, 0, 1, 0)).permute(0, 1, 4, 2, 3)


def stem_weight_space_to_depth(weight_O377: Float[Tensor, "O 3 7 7"]) -> Float[Tensor, "O 16 4 4"]:
    """The 4x4 kernel that does on cells what a 7x7 stride-2 padding-3 kernel does on pixels. Differentiable.

    Pixel 2 o + k - 3 of tap k lies in cell o + floor((k - 3) / 2): four cells, two before o and one after. The cells
    carry one zero row and column in front, so `conv2d(cells, weight, padding=1)` gives the H/2 x W/2 outputs exactly.
    Call it on the trained 7x7 weight: the 4x4 one has 1 tap in 8 per axis that must stay zero.
    """
    padded_O388 = pad(weight_O377, (1, 0, 1, 0))  # tap k = 2 t + d - 1 of cell tap t: the first is no tap at all
    cells = padded_O388.unflatten(3, (4, 2)).unflatten(2, (4, 2))  # O 3 ty dy tx dx
    weight_OC44 = cells.permute(0, 3, 5, 1, 2, 4).flatten(1, 3)
    return pad(weight_OC44, (0, 0, 0, 0, 0, CELL_CHANNELS - 12)).contiguous(memory_format=torch.channels_last)


def _gather(
    frames_FVHW3: Tensor,
    index_B: Tensor,
    colour_B34: Tensor,
    crop_BV5: Tensor,
    mean_3: Tensor,
    std_3: Tensor,
    views: list[int],
    space_to_depth: bool,
    dtype: torch.dtype,
) -> Tensor:
    height, width = frames_FVHW3.shape[2:4]
    shape = (height // 2 + 1, width // 2 + 1, CELL_CHANNELS) if space_to_depth else (height, width, 3)
    images = torch.empty((len(views), len(index_B), *shape), dtype=dtype, device=frames_FVHW3.device)
    _gather_kernel[(ceil_div(shape[0] * shape[1], BLOCK), len(index_B), len(views))](
        frames_FVHW3.contiguous(), index_B.contiguous(), colour_B34.contiguous(), crop_BV5.contiguous(), mean_3, std_3,
        images, views[0], V=frames_FVHW3.shape[1], H=height, W=width, CELLS=space_to_depth, BLOCK=BLOCK,
        num_warps=WARPS,
    )  # fmt: skip
    return images.permute(0, 1, 4, 2, 3)


@jit
@no_type_check
def _gather_kernel(
    frames_ptr, index_ptr, colour_ptr, crop_ptr, mean_ptr, std_ptr, images_ptr, first_view,
    V: tl.constexpr, H: tl.constexpr, W: tl.constexpr, CELLS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # One lane per cell or pixel: it finds its place once, and reads every byte that it shows once.
    sample = tl.program_id(1)
    view = tl.program_id(2)
    crop = crop_ptr + (sample * V + first_view + view) * 5
    down, right = tl.load(crop), tl.load(crop + 1)
    top, left, side = tl.load(crop + 2), tl.load(crop + 3), tl.load(crop + 4)
    frame = tl.load(index_ptr + sample) * V + first_view + view  # int64: the frames exceed 2^31 bytes
    frame_ptr = frames_ptr + frame * (H * W * 3)
    matrix = colour_ptr + 12 * sample
    rows = (
        _row(matrix, mean_ptr, std_ptr),
        _row(matrix + 4, mean_ptr + 1, std_ptr + 1),
        _row(matrix + 8, mean_ptr + 2, std_ptr + 2),
    )
    image = (view * tl.num_programs(1) + sample).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if CELLS:
        PLACES: tl.constexpr = (H // 2 + 1) * (W // 2 + 1)
        y, x = place // (W // 2 + 1) * 2 - 2, place % (W // 2 + 1) * 2 - 2
        drawn = (y >= 0) & (x >= 0)  # the first row and column of cells are zeros
        upper, upper_hidden = _source(y, down, top, side, H)
        lower, lower_hidden = _source(y + 1, down, top, side, H)
        before, before_hidden = _source(x, right, left, side, W)
        after, after_hidden = _source(x + 1, right, left, side, W)
        n0, n1, n2 = _pixel(frame_ptr, upper * W + before, drawn & (upper_hidden & before_hidden == 0), rows)
        n3, n4, n5 = _pixel(frame_ptr, upper * W + after, drawn & (upper_hidden & after_hidden == 0), rows)
        n6, n7, n8 = _pixel(frame_ptr, lower * W + before, drawn & (lower_hidden & before_hidden == 0), rows)
        n9, n10, n11 = _pixel(frame_ptr, lower * W + after, drawn & (lower_hidden & after_hidden == 0), rows)
        # A lane's numbers become neighbours in memory: the pair joined last lies closest.
        none = tl.zeros_like(n0)
        even = tl.join(tl.join(tl.join(n0, n8), tl.join(n4, none)), tl.join(tl.join(n2, n10), tl.join(n6, none)))
        odd = tl.join(tl.join(tl.join(n1, n9), tl.join(n5, none)), tl.join(tl.join(n3, n11), tl.join(n7, none)))
        cells = tl.reshape(tl.join(even, odd), (BLOCK, 16)).to(images_ptr.dtype.element_ty)
        at = image * (PLACES * 16) + place[:, None] * 16 + tl.arange(0, 16)[None, :]
        tl.store(images_ptr + at, cells, mask=place[:, None] < PLACES)
    else:
        row, row_hidden = _source(place // W, down, top, side, H)
        column, column_hidden = _source(place % W, right, left, side, W)
        red, green, blue = _pixel(frame_ptr, row * W + column, row_hidden & column_hidden == 0, rows)
        out = images_ptr + image * (H * W * 3) + place * 3
        tl.store(out, red.to(images_ptr.dtype.element_ty), mask=place < H * W)
        tl.store(out + 1, green.to(images_ptr.dtype.element_ty), mask=place < H * W)
        tl.store(out + 2, blue.to(images_ptr.dtype.element_ty), mask=place < H * W)


@jit
@no_type_check
def _row(row_ptr, mean_ptr, std_ptr):
    """Of one output colour: its shares of the three bytes, its offset, and its bounds, all of them normalised.

    Normalising keeps the order of numbers, so the clamp may come after it, and then it is a part of the matrix.
    """
    scale = 1.0 / tl.load(std_ptr)
    least = -tl.load(mean_ptr) * scale
    share = scale * (1.0 / 255.0)
    red, green, blue = tl.load(row_ptr) * share, tl.load(row_ptr + 1) * share, tl.load(row_ptr + 2) * share
    return red, green, blue, tl.load(row_ptr + 3) * scale + least, least, scale + least


@jit
@no_type_check
def _source(at, shift, hidden_from, hidden_size, SIZE: tl.constexpr):
    """Along one axis: the input pixel that is shown, always inside the frame, and whether the square covers it."""
    hidden = (at >= hidden_from) & (at < hidden_from + hidden_size)
    return tl.minimum(tl.maximum(at + shift, 0), SIZE - 1), hidden


@jit
@no_type_check
def _pixel(frame_ptr, pixel, seen, rows):
    """Its three output numbers."""
    byte = frame_ptr + pixel * 3
    red, green, blue = tl.load(byte).to(tl.float32), tl.load(byte + 1).to(tl.float32), tl.load(byte + 2).to(tl.float32)
    return (
        _normalised(red, green, blue, seen, rows[0]),
        _normalised(red, green, blue, seen, rows[1]),
        _normalised(red, green, blue, seen, rows[2]),
    )


@jit
@no_type_check
def _normalised(red, green, blue, seen, row):
    mixed = red * row[0] + (green * row[1] + (blue * row[2] + row[3]))
    return tl.where(seen, tl.minimum(tl.maximum(mixed, row[4]), row[5]), 0.0)
