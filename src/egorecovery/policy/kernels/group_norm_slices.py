"""Group norm in one kernel per direction: a program owns a slice of channels of one whole image.

A small slice is held on chip. A larger one is walked twice, forwards for its sums and backwards for the result, so
that the second walk begins with what the caches got last: from memory every tensor is read once.
"""

# N images, C channels, P pixels
from dataclasses import dataclass
from typing import Any, no_type_check

from torch import Tensor

from egorecovery.policy.kernels.dispatch import ceil_div, jit, power_of_two_from, tl
from egorecovery.policy.kernels.group_norm_parts import total_of_group

NUMBERS_WANTED = 8192  # a smaller tile is better balanced over the multiprocessors, as long as it has the channels
CHANNELS_WANTED = 32  # 64 contiguous bytes per pixel
FEWEST_CHANNELS = 16  # 32 bytes: one memory sector


@dataclass(kw_only=True)
class Slices:
    """Which slices one program takes, and how. Mutable, so that a benchmark can sweep it.

    Where neither `held` nor `walked` finds sizes, an image goes in parts.
    """

    held_numbers: int = 16384  # the largest slice held on chip
    held_per_thread: int = 64
    walked_numbers: int = 65536  # the largest slice walked twice; 0: none
    fewest_programs: int = 132  # fewer walks would leave multiprocessors of an H200 idle
    wanted_programs: int = 768  # a walked slice has as many channels as leave this many,
    slice_numbers: int = 32768  # and no more than fit in this
    numbers_per_warp: int = 4096  # of a walked slice
    walked_per_thread: int = 16  # in one step: two loads of 16 bytes from every tensor
    stages: int = 1  # steps whose loads are under way at a time; beyond 1 they pass by the L1 cache

    def held(self, image_NCHW: Tensor, groups: int) -> dict[str, Any] | None:
        """Compile-time sizes where a slice fits on chip."""
        _, channels, height, width = image_NCHW.shape
        group = channels // groups
        pixels = power_of_two_from(height * width)
        block = min(channels, max(CHANNELS_WANTED, group, NUMBERS_WANTED // pixels))
        while pixels * block > self.held_numbers and block > max(FEWEST_CHANNELS, group):
            block //= 2
        if pixels * block > self.held_numbers:
            return None
        return {
            "HW": height * width,
            "C": channels,
            "GROUP": group,
            "BLOCK_HW": pixels,
            "BLOCK_C": block,
            "num_warps": min(16, max(1, pixels * block // (32 * self.held_per_thread))),
        }

    def walked(self, image_NCHW: Tensor, groups: int) -> dict[str, Any] | None:
        """Compile-time sizes where a slice is walked twice."""
        images, channels, height, width = image_NCHW.shape
        group = channels // groups
        block = channels
        while block > max(FEWEST_CHANNELS, group) and (
            height * width * block > self.slice_numbers or images * channels // block < self.wanted_programs
        ):
            block //= 2
        numbers = height * width * block
        if numbers > self.walked_numbers or images * channels // block < self.fewest_programs:
            return None
        warps = min(16, max(4, power_of_two_from(ceil_div(numbers, self.numbers_per_warp))))
        return {
            "HW": height * width,
            "C": channels,
            "GROUP": group,
            "ROWS": max(1, 32 * warps * self.walked_per_thread // block),
            "BLOCK_C": block,
            "STAGES": self.stages,
            "num_warps": warps,
        }


@jit
@no_type_check
def held_forward_kernel(
    image_ptr, residual_ptr, weight_ptr, bias_ptr, out_ptr, moments_ptr, epsilon,
    HW: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, BLOCK_HW: tl.constexpr, BLOCK_C: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    p = tl.arange(0, BLOCK_HW)
    inside = p[:, None] < HW
    at = image * HW * C + p[:, None] * C + c[None, :]
    image_PC = tl.load(image_ptr + at, mask=inside, other=0.0).to(tl.float32)
    mean_C = total_of_group(tl.sum(image_PC, axis=0), GROUP, BLOCK_C) / (HW * GROUP)
    centred_PC = tl.where(inside, image_PC - mean_C[None, :], 0.0)
    rstd_C = 1.0 / tl.sqrt(
        total_of_group(tl.sum(centred_PC * centred_PC, axis=0), GROUP, BLOCK_C) / (HW * GROUP) + epsilon
    )
    scale_C = rstd_C * tl.load(weight_ptr + c).to(tl.float32)
    out_PC = centred_PC * scale_C[None, :] + tl.load(bias_ptr + c).to(tl.float32)[None, :]
    if HAS_RESIDUAL:
        out_PC += tl.load(residual_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if RELU:
        out_PC = tl.maximum(out_PC, 0.0)
    tl.store(out_ptr + at, out_PC.to(out_ptr.dtype.element_ty), mask=inside)
    tl.store(moments_ptr + image * 2 * C + c, mean_C)
    tl.store(moments_ptr + image * 2 * C + C + c, rstd_C)


@jit
@no_type_check
def held_backward_kernel(
    image_ptr, out_ptr, d_out_ptr, weight_ptr, bias_ptr, moments_ptr, d_image_ptr, d_masked_ptr, sums_ptr,
    HW: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, BLOCK_HW: tl.constexpr, BLOCK_C: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    p = tl.arange(0, BLOCK_HW)
    inside = p[:, None] < HW
    at = image * HW * C + p[:, None] * C + c[None, :]
    mean_C = tl.load(moments_ptr + image * 2 * C + c)
    rstd_C = tl.load(moments_ptr + image * 2 * C + C + c)
    weight_C = tl.load(weight_ptr + c).to(tl.float32)
    scale_C = weight_C * rstd_C
    centred_PC = tl.load(image_ptr + at, mask=inside, other=0.0).to(tl.float32) - mean_C[None, :]
    d_out_PC = tl.load(d_out_ptr + at, mask=inside, other=0.0).to(tl.float32)
    if HAS_RESIDUAL:
        d_out_PC = tl.where(tl.load(out_ptr + at, mask=inside, other=0.0).to(tl.float32) > 0.0, d_out_PC, 0.0)
        tl.store(d_masked_ptr + at, d_out_PC.to(d_masked_ptr.dtype.element_ty), mask=inside)
    elif RELU:
        out_PC = centred_PC * scale_C[None, :] + tl.load(bias_ptr + c).to(tl.float32)[None, :]
        d_out_PC = tl.where(out_PC > 0.0, d_out_PC, 0.0)
    d_bias_C = tl.sum(d_out_PC, axis=0)  # pixels past the end brought a gradient of 0
    d_weight_C = tl.sum(d_out_PC * centred_PC, axis=0) * rstd_C
    tl.store(sums_ptr + image * 2 * C + c, d_bias_C)
    tl.store(sums_ptr + image * 2 * C + C + c, d_weight_C)
    shift_C = rstd_C * total_of_group(weight_C * d_bias_C, GROUP, BLOCK_C) / (HW * GROUP)
    slope_C = rstd_C * rstd_C * total_of_group(weight_C * d_weight_C, GROUP, BLOCK_C) / (HW * GROUP)
    d_image_PC = d_out_PC * scale_C[None, :] - shift_C[None, :] - centred_PC * slope_C[None, :]
    tl.store(d_image_ptr + at, d_image_PC.to(d_image_ptr.dtype.element_ty), mask=inside)


@jit
@no_type_check
def sums_of_slice(image_ptr, c, HW: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr,
                  STAGES: tl.constexpr):  # fmt: skip
    """Sum and sum of squares of every channel of a slice, walking forwards."""
    sum_PC = tl.zeros((ROWS, BLOCK_C), dtype=tl.float32)
    square_PC = tl.zeros((ROWS, BLOCK_C), dtype=tl.float32)
    for start in tl.range(0, HW, ROWS, num_stages=STAGES):
        p = start + tl.arange(0, ROWS)
        image_PC = tl.load(image_ptr + p[:, None] * C + c[None, :], mask=p[:, None] < HW, other=0.0).to(tl.float32)
        sum_PC += image_PC
        square_PC += image_PC * image_PC
    return tl.sum(sum_PC, axis=0), tl.sum(square_PC, axis=0)


@jit
@no_type_check
def moments_of_slice(
    image_ptr, moments_ptr, c, epsilon, HW: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_C: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """For every channel, the mean and the inverse deviation of its group; both are also stored."""
    sum_C, square_C = sums_of_slice(image_ptr, c, HW, C, ROWS, BLOCK_C, STAGES)
    mean_C = total_of_group(sum_C, GROUP, BLOCK_C) / (HW * GROUP)
    variance_C = total_of_group(square_C, GROUP, BLOCK_C) / (HW * GROUP) - mean_C * mean_C
    rstd_C = 1.0 / tl.sqrt(tl.maximum(variance_C, 0.0) + epsilon)
    tl.store(moments_ptr + c, mean_C)
    tl.store(moments_ptr + C + c, rstd_C)
    return mean_C, rstd_C


@jit
@no_type_check
def walked_forward_kernel(
    image_ptr, residual_ptr, weight_ptr, bias_ptr, out_ptr, moments_ptr, epsilon,
    HW: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr,
    STAGES: tl.constexpr, HAS_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    LAST: tl.constexpr = (HW - 1) // ROWS * ROWS
    image = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    image_ptr += image * HW * C
    out_ptr += image * HW * C
    if HAS_RESIDUAL:
        residual_ptr += image * HW * C
    mean_C, rstd_C = moments_of_slice(
        image_ptr, moments_ptr + image * 2 * C, c, epsilon, HW, C, GROUP, ROWS, BLOCK_C, STAGES
    )
    scale_C = rstd_C * tl.load(weight_ptr + c).to(tl.float32)
    shift_C = tl.load(bias_ptr + c).to(tl.float32) - mean_C * scale_C
    for done in tl.range(0, HW, ROWS, num_stages=STAGES):
        p = LAST - done + tl.arange(0, ROWS)
        inside = p[:, None] < HW
        at = p[:, None] * C + c[None, :]
        image_PC = tl.load(image_ptr + at, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        out_PC = image_PC * scale_C[None, :] + shift_C[None, :]
        if HAS_RESIDUAL:
            out_PC += tl.load(residual_ptr + at, mask=inside, other=0.0).to(tl.float32)
        if RELU:
            out_PC = tl.maximum(out_PC, 0.0)
        tl.store(out_ptr + at, out_PC.to(out_ptr.dtype.element_ty), mask=inside)


@jit
@no_type_check
def walked_backward_kernel(
    image_ptr, out_ptr, d_out_ptr, weight_ptr, bias_ptr, moments_ptr, d_image_ptr, d_masked_ptr, sums_ptr,
    HW: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr,
    STAGES: tl.constexpr, HAS_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    LAST: tl.constexpr = (HW - 1) // ROWS * ROWS
    image = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    image_ptr += image * HW * C
    d_out_ptr += image * HW * C
    d_image_ptr += image * HW * C
    if HAS_RESIDUAL:
        out_ptr += image * HW * C
        d_masked_ptr += image * HW * C
    mean_C = tl.load(moments_ptr + image * 2 * C + c)
    rstd_C = tl.load(moments_ptr + image * 2 * C + C + c)
    weight_C = tl.load(weight_ptr + c).to(tl.float32)
    bias_C = tl.load(bias_ptr + c).to(tl.float32)
    scale_C = weight_C * rstd_C
    d_bias_PC = tl.zeros((ROWS, BLOCK_C), dtype=tl.float32)
    d_scale_PC = tl.zeros((ROWS, BLOCK_C), dtype=tl.float32)
    for start in tl.range(0, HW, ROWS, num_stages=STAGES):
        p = start + tl.arange(0, ROWS)
        inside = p[:, None] < HW
        at = p[:, None] * C + c[None, :]
        centred_PC = tl.load(image_ptr + at, mask=inside, other=0.0).to(tl.float32) - mean_C[None, :]
        d_out_PC = tl.load(d_out_ptr + at, mask=inside, other=0.0).to(tl.float32)
        if HAS_RESIDUAL:
            d_out_PC = tl.where(tl.load(out_ptr + at, mask=inside, other=0.0).to(tl.float32) > 0.0, d_out_PC, 0.0)
            tl.store(d_masked_ptr + at, d_out_PC.to(d_masked_ptr.dtype.element_ty), mask=inside)
        elif RELU:
            d_out_PC = tl.where(centred_PC * scale_C[None, :] + bias_C[None, :] > 0.0, d_out_PC, 0.0)
        d_bias_PC += d_out_PC
        d_scale_PC += d_out_PC * centred_PC
    d_bias_C = tl.sum(d_bias_PC, axis=0)
    d_weight_C = tl.sum(d_scale_PC, axis=0) * rstd_C
    tl.store(sums_ptr + image * 2 * C + c, d_bias_C)
    tl.store(sums_ptr + image * 2 * C + C + c, d_weight_C)
    shift_C = rstd_C * total_of_group(weight_C * d_bias_C, GROUP, BLOCK_C) / (HW * GROUP)
    slope_C = rstd_C * rstd_C * total_of_group(weight_C * d_weight_C, GROUP, BLOCK_C) / (HW * GROUP)
    tl.debug_barrier()  # the masked gradient, written above, saves reading the output a second time
    for done in tl.range(0, HW, ROWS, num_stages=STAGES):
        p = LAST - done + tl.arange(0, ROWS)
        inside = p[:, None] < HW
        at = p[:, None] * C + c[None, :]
        image_PC = tl.load(image_ptr + at, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        centred_PC = image_PC - mean_C[None, :]
        d_out_PC = tl.load((d_masked_ptr if HAS_RESIDUAL else d_out_ptr) + at, mask=inside, other=0.0).to(tl.float32)
        if RELU and not HAS_RESIDUAL:
            d_out_PC = tl.where(centred_PC * scale_C[None, :] + bias_C[None, :] > 0.0, d_out_PC, 0.0)
        d_image_PC = d_out_PC * scale_C[None, :] - shift_C[None, :] - centred_PC * slope_C[None, :]
        tl.store(d_image_ptr + at, d_image_PC.to(d_image_ptr.dtype.element_ty), mask=inside)
