"""What group-norm kernels share: an image cut into parts, its sums by part, and what a group makes of them."""

# N images, C channels, P pixels, S parts of an image
from typing import Any, no_type_check

from torch import Tensor

from egorecovery.acceleration.kernels.dispatch import ceil_div, jit, power_of_two_from, tl

EPSILON = 1e-5
NUMBERS_PER_PART = 32768
MOST_PARTS = 16  # every program of the second kernel adds up all parts' sums again: cheaper than a third kernel
TILE_NUMBERS = 4096  # of one program at a time: 32 per thread of four warps
WARPS = 4


def map_parts(image_NCHW: Tensor) -> int:
    """How many programs share one image."""
    _, channels, height, width = image_NCHW.shape
    return min(MOST_PARTS, power_of_two_from(ceil_div(height * width * channels, NUMBERS_PER_PART)))


def part_sizes(image_NCHW: Tensor, groups: int, parts: int) -> dict[str, Any]:
    """Compile-time sizes of the kernels that work on parts of an image."""
    _, channels, height, width = image_NCHW.shape
    rows = max(1, TILE_NUMBERS // channels)
    return {
        "HW": height * width,
        "C": channels,
        "GROUP": channels // groups,
        "PARTS": parts,
        "PART": ceil_div(ceil_div(height * width, parts), rows) * rows,
        "ROWS": rows,
        "num_warps": WARPS,
    }


@jit
@no_type_check
def total_of_group(value_C, GROUP: tl.constexpr, C: tl.constexpr):
    """For every channel, the total over its group."""
    total_G = tl.sum(tl.reshape(value_C, (C // GROUP, GROUP)), axis=1)
    return tl.reshape(tl.broadcast_to(total_G[:, None], (C // GROUP, GROUP)), (C,))


@jit
@no_type_check
def stats_kernel(
    image_ptr, sums_ptr,
    HW: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr, PART: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """Sum and sum of squares of every channel over one part of one image."""
    image = tl.program_id(1).to(tl.int64)
    c = tl.arange(0, C)
    sum_PC = tl.zeros((ROWS, C), dtype=tl.float32)
    square_PC = tl.zeros((ROWS, C), dtype=tl.float32)
    for start in range(0, PART, ROWS):
        p = tl.program_id(0) * PART + start + tl.arange(0, ROWS)
        at = image * HW * C + p[:, None] * C + c[None, :]
        image_PC = tl.load(image_ptr + at, mask=p[:, None] < HW, other=0.0).to(tl.float32)
        sum_PC += image_PC
        square_PC += image_PC * image_PC
    sums_at = (image * PARTS + tl.program_id(0)) * 2 * C + c
    tl.store(sums_ptr + sums_at, tl.sum(sum_PC, axis=0))
    tl.store(sums_ptr + sums_at + C, tl.sum(square_PC, axis=0))


@jit
@no_type_check
def arriving(d_out_ptr, d_again_ptr, at, inside, TWICE: tl.constexpr):
    """The gradient of the output, of both readers where there are two."""
    d_out_PC = tl.load(d_out_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if TWICE:
        d_out_PC += tl.load(d_again_ptr + at, mask=inside, other=0.0).to(tl.float32)
    return d_out_PC


@jit
@no_type_check
def sums_of_image(sums_ptr, image, C: tl.constexpr, PARTS: tl.constexpr):
    """Both sums of every channel over the whole image."""
    s = tl.arange(0, PARTS)
    c = tl.arange(0, C)
    at = (image * PARTS + s[:, None]) * 2 * C + c[None, :]
    return tl.sum(tl.load(sums_ptr + at), axis=0), tl.sum(tl.load(sums_ptr + at + C), axis=0)


@jit
@no_type_check
def moments_of_sums(
    sums_ptr, image, epsilon, HW: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr
):
    """For every channel, the mean and the inverse deviation of its group."""
    sum_C, square_C = sums_of_image(sums_ptr, image, C, PARTS)
    mean_C = total_of_group(sum_C, GROUP, C) / (HW * GROUP)
    variance_C = total_of_group(square_C, GROUP, C) / (HW * GROUP) - mean_C * mean_C
    return mean_C, 1.0 / tl.sqrt(tl.maximum(variance_C, 0.0) + epsilon)


@jit
@no_type_check
def scale_and_shift(
    sums_ptr, weight_ptr, bias_ptr, moments_ptr, image, epsilon,
    HW: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """For every channel, what the norm does to it; the image's first program keeps the moments."""
    mean_C, rstd_C = moments_of_sums(sums_ptr, image, epsilon, HW, C, GROUP, PARTS)
    c = tl.arange(0, C)
    if tl.program_id(0) == 0:
        tl.store(moments_ptr + image * 2 * C + c, mean_C)
        tl.store(moments_ptr + image * 2 * C + C + c, rstd_C)
    scale_C = rstd_C * tl.load(weight_ptr + c).to(tl.float32)
    return scale_C, tl.load(bias_ptr + c).to(tl.float32) - mean_C * scale_C


@jit
@no_type_check
def masked(
    d_out_PC, hat_PC, out_ptr, d_masked_ptr, weight_C, bias_C, at, inside,
    HAS_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """The gradient where the ReLU let its input through; with a residual it is stored too, being that one's."""
    if RELU:
        if HAS_RESIDUAL:
            out_PC = tl.load(out_ptr + at, mask=inside, other=0.0).to(tl.float32)
        else:
            out_PC = hat_PC * weight_C[None, :] + bias_C[None, :]
        d_out_PC = tl.where(out_PC > 0.0, d_out_PC, 0.0)
    if HAS_RESIDUAL:
        tl.store(d_masked_ptr + at, d_out_PC.to(d_masked_ptr.dtype.element_ty), mask=inside)
    return d_out_PC


@jit
@no_type_check
def gradient_means(
    sums_ptr, weight_C, image, HW: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr
):
    """For every channel, its group's mean gradient and mean of gradient times normalised input."""
    d_bias_C, d_weight_C = sums_of_image(sums_ptr, image, C, PARTS)
    mean_d_C = total_of_group(weight_C * d_bias_C, GROUP, C) / (HW * GROUP)
    return mean_d_C, total_of_group(weight_C * d_weight_C, GROUP, C) / (HW * GROUP)
