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

from egorecovery.errors import RecipeError
from egorecovery.policy.kernels.dispatch import ceil_div, jit, runs_fused, tl

CELL_CHANNELS = 16  # 2 x 2 x 3 colours and 4 zeros: 32 bytes a cell
CELL_STEM_PADDING = 1  # `padding` of the 4x4 convolution; the other leading row and column are in the cells already
BLOCK = 2048  # output numbers of one program
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
    """Images (V, B, 3, H, W), or (B, 3, H, W) of one view; each view a contiguous channels-last batch.

    A crop is (down, right, top, left, side): output pixel (y, x) shows input pixel (y + down, x + right), the nearest
    one past the edge, except in the square from (top, left) of that side, which shows the mean colour. Colours in 0..1
    become clamp(M rgb + t, 0, 1) with (M | t) the sample's colour matrix, then (rgb - mean) / std. With
    `space_to_depth` the images are (.., 16, H/2 + 1, W/2 + 1): see `stem_weight_space_to_depth`.
    """
    height, width = frames_FVHW3.shape[2:4]
    if space_to_depth and (height % 2 or width % 2):
        raise RecipeError(f"space to depth cuts images into 2x2 cells: {height}x{width} pixels must both be even")
    views = list(range(frames_FVHW3.shape[1])) if view is None else [view]
    if runs_fused(colour_B34, mean_3, std_3) and frames_FVHW3.device == colour_B34.device:
        images = _gather(frames_FVHW3, index_B, colour_B34, crop_BV5, mean_3, std_3, views, space_to_depth, dtype)
    else:
        images = plain_gather_augmented(
            frames_FVHW3, index_B, colour_B34, crop_BV5, mean_3, std_3, views, space_to_depth, dtype
        )
    return images if view is None else images[0]


def plain_gather_augmented(
    frames_FVHW3: UInt8[Tensor, "F V H W 3"],
    index_B: Int64[Tensor, " B"],
    colour_B34: Float32[Tensor, "B 3 4"],
    crop_BV5: Int32[Tensor, "B V 5"],
    mean_3: Float32[Tensor, " 3"],
    std_3: Float32[Tensor, " 3"],
    views: list[int],
    space_to_depth: bool,
    dtype: torch.dtype,
) -> Float[Tensor, "shown B C h w"]:
    """What the kernel computes."""
    height, width = frames_FVHW3.shape[2:4]
    batches = []
    for view in views:
        down_B1, right_B1, top_B1, left_B1, side_B1 = crop_BV5[:, view, :, None].unbind(1)
        y_H, x_W = (torch.arange(size, device=crop_BV5.device) for size in (height, width))
        y_BH = (y_H + down_B1).clamp(0, height - 1)
        x_BW = (x_W + right_B1).clamp(0, width - 1)
        hidden_BHW = ((y_H >= top_B1) & (y_H < top_B1 + side_B1))[:, :, None]
        hidden_BHW = hidden_BHW & ((x_W >= left_B1) & (x_W < left_B1 + side_B1))[:, None]
        shown_BHW3 = frames_FVHW3[index_B[:, None, None], view, y_BH[:, :, None], x_BW[:, None, :]].float() / 255
        linear_B133, offset_B113 = colour_B34[:, None, :, :3], colour_B34[:, None, None, :, 3]
        mixed_BHW3 = (shown_BHW3 @ linear_B133.transpose(-1, -2) + offset_B113).clamp(0, 1)
        normed_BHW3 = (mixed_BHW3 - mean_3) / std_3
        batches.append(normed_BHW3.masked_fill(hidden_BHW[..., None], 0).to(dtype))
    images_VBHW3 = torch.stack(batches)
    if space_to_depth:
        cells = images_VBHW3.unflatten(3, (width // 2, 2)).unflatten(2, (height // 2, 2))  # V B h 2 w 2 3
        cells_VBhwC = cells.permute(0, 1, 2, 4, 3, 5, 6).flatten(-3)
        images_VBHW3 = pad(cells_VBhwC, (0, CELL_CHANNELS - 12, 1, 0, 1, 0))
    return images_VBHW3.permute(0, 1, 4, 2, 3)


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
    numbers = shape[0] * shape[1] * shape[2]
    _gather_kernel[(ceil_div(numbers, BLOCK), len(index_B), len(views))](
        frames_FVHW3.contiguous(), index_B.contiguous(), colour_B34.contiguous(), crop_BV5.contiguous(), mean_3, std_3,
        images, views[0], V=frames_FVHW3.shape[1], H=height, W=width, CELLS=space_to_depth, BLOCK=BLOCK,
        num_warps=WARPS,
    )  # fmt: skip
    return images.permute(0, 1, 4, 2, 3)


@jit
@no_type_check
def _of_colour(ptr, channel, STRIDE: tl.constexpr):
    """The number at its colour's place, for every output; three scalars and two selects, no gather."""
    red, green, blue = tl.load(ptr), tl.load(ptr + STRIDE), tl.load(ptr + 2 * STRIDE)
    return tl.where(channel == 0, red, tl.where(channel == 1, green, blue))


@jit
@no_type_check
def _gather_kernel(
    frames_ptr, index_ptr, colour_ptr, crop_ptr, mean_ptr, std_ptr, images_ptr, first_view,
    V: tl.constexpr, H: tl.constexpr, W: tl.constexpr, CELLS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    # One lane per output number, in memory order, so that stores are whole; its pixel's three bytes come from L1.
    sample = tl.program_id(1)
    view = tl.program_id(2)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if CELLS:
        NUMBERS: tl.constexpr = (H // 2 + 1) * (W // 2 + 1) * 16
        cell, place = at // 16, at % 16
        cell_y, cell_x = cell // (W // 2 + 1) - 1, cell % (W // 2 + 1) - 1
        y, x = 2 * cell_y + place // 6, 2 * cell_x + place // 3 % 2
        channel = place % 3
        shown = (cell_y >= 0) & (cell_x >= 0) & (place < 12) & (at < NUMBERS)
    else:
        NUMBERS: tl.constexpr = H * W * 3
        pixel, channel = at // 3, at % 3
        y, x = pixel // W, pixel % W
        shown = at < NUMBERS
    crop = crop_ptr + (sample * V + first_view + view) * 5
    top, left, side = tl.load(crop + 2), tl.load(crop + 3), tl.load(crop + 4)
    hidden = (y >= top) & (y < top + side) & (x >= left) & (x < left + side)
    y = tl.minimum(tl.maximum(y + tl.load(crop), 0), H - 1)
    x = tl.minimum(tl.maximum(x + tl.load(crop + 1), 0), W - 1)
    frame = tl.load(index_ptr + sample) * V + first_view + view  # int64: the frames exceed 2^31 bytes
    byte = frames_ptr + frame * (H * W * 3) + (y * W + x) * 3
    red = tl.load(byte, mask=shown, other=0).to(tl.float32)
    green = tl.load(byte + 1, mask=shown, other=0).to(tl.float32)
    blue = tl.load(byte + 2, mask=shown, other=0).to(tl.float32)
    row = colour_ptr + 12 * sample
    mixed = red * _of_colour(row, channel, 4) + green * _of_colour(row + 1, channel, 4)
    mixed = (mixed + blue * _of_colour(row + 2, channel, 4)) / 255.0 + _of_colour(row + 3, channel, 4)
    mixed = tl.minimum(tl.maximum(mixed, 0.0), 1.0)
    out = (mixed - _of_colour(mean_ptr, channel, 1)) / _of_colour(std_ptr, channel, 1)
    out = tl.where(shown & (hidden == 0), out, 0.0)
    image = (view * tl.num_programs(1) + sample).to(tl.int64)
    tl.store(images_ptr + image * NUMBERS + at, out.to(images_ptr.dtype.element_ty), mask=at < NUMBERS)
