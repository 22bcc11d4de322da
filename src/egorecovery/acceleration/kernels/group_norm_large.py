"""The kernels of group norm on maps too large for one program: programs share an image, each has a part of it."""

# N images, C channels, P pixels, S parts of an image
from typing import no_type_check

from egorecovery.acceleration.kernels.dispatch import jit, tl
from egorecovery.acceleration.kernels.group_norm_parts import arriving, gradient_means, masked, scale_and_shift


@jit
@no_type_check
def apply_kernel(
    image_ptr, residual_ptr, weight_ptr, bias_ptr, sums_ptr, out_ptr, moments_ptr, epsilon,
    HW: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr, PART: tl.constexpr,
    ROWS: tl.constexpr, HAS_RESIDUAL: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    # Backwards through the batch: the images summed last are still in the cache.
    image = (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    scale_C, shift_C = scale_and_shift(sums_ptr, weight_ptr, bias_ptr, moments_ptr, image, epsilon, HW, C, GROUP, PARTS)
    c = tl.arange(0, C)
    for start in range(0, PART, ROWS):
        p = tl.program_id(0) * PART + start + tl.arange(0, ROWS)
        inside = p[:, None] < HW
        at = image * HW * C + p[:, None] * C + c[None, :]
        out_PC = tl.load(image_ptr + at, mask=inside, other=0.0).to(tl.float32) * scale_C[None, :] + shift_C[None, :]
        if HAS_RESIDUAL:
            out_PC += tl.load(residual_ptr + at, mask=inside, other=0.0).to(tl.float32)
        if RELU:
            out_PC = tl.maximum(out_PC, 0.0)
        tl.store(out_ptr + at, out_PC.to(out_ptr.dtype.element_ty), mask=inside)


@jit
@no_type_check
def reduce_kernel(
    image_ptr, out_ptr, d_out_ptr, d_again_ptr, weight_ptr, bias_ptr, moments_ptr, d_masked_ptr, sums_ptr,
    HW: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr, PART: tl.constexpr,
    ROWS: tl.constexpr, HAS_RESIDUAL: tl.constexpr, RELU: tl.constexpr, TWICE: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(1).to(tl.int64)
    c = tl.arange(0, C)
    mean_C = tl.load(moments_ptr + image * 2 * C + c)
    rstd_C = tl.load(moments_ptr + image * 2 * C + C + c)
    weight_C = tl.load(weight_ptr + c).to(tl.float32)
    bias_C = tl.load(bias_ptr + c).to(tl.float32)
    d_bias_PC = tl.zeros((ROWS, C), dtype=tl.float32)
    d_weight_PC = tl.zeros((ROWS, C), dtype=tl.float32)
    for start in range(0, PART, ROWS):
        p = tl.program_id(0) * PART + start + tl.arange(0, ROWS)
        inside = p[:, None] < HW
        at = image * HW * C + p[:, None] * C + c[None, :]
        hat_PC = (tl.load(image_ptr + at, mask=inside, other=0.0).to(tl.float32) - mean_C[None, :]) * rstd_C[None, :]
        d_out_PC = arriving(d_out_ptr, d_again_ptr, at, inside, TWICE)
        d_out_PC = masked(d_out_PC, hat_PC, out_ptr, d_masked_ptr, weight_C, bias_C, at, inside, HAS_RESIDUAL, RELU)
        d_bias_PC += d_out_PC
        d_weight_PC += d_out_PC * hat_PC
    sums_at = (image * PARTS + tl.program_id(0)) * 2 * C + c
    tl.store(sums_ptr + sums_at, tl.sum(d_bias_PC, axis=0))
    tl.store(sums_ptr + sums_at + C, tl.sum(d_weight_PC, axis=0))


@jit
@no_type_check
def gradient_kernel(
    image_ptr, d_out_ptr, d_again_ptr, weight_ptr, bias_ptr, moments_ptr, sums_ptr, d_image_ptr,
    HW: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr, PART: tl.constexpr,
    ROWS: tl.constexpr, RELU: tl.constexpr, TWICE: tl.constexpr,
):  # fmt: skip
    image = (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    c = tl.arange(0, C)
    mean_C = tl.load(moments_ptr + image * 2 * C + c)
    rstd_C = tl.load(moments_ptr + image * 2 * C + C + c)
    weight_C = tl.load(weight_ptr + c).to(tl.float32)
    bias_C = tl.load(bias_ptr + c).to(tl.float32)
    mean_d_C, along_C = gradient_means(sums_ptr, weight_C, image, HW, C, GROUP, PARTS)
    for start in range(0, PART, ROWS):
        p = tl.program_id(0) * PART + start + tl.arange(0, ROWS)
        inside = p[:, None] < HW
        at = image * HW * C + p[:, None] * C + c[None, :]
        hat_PC = (tl.load(image_ptr + at, mask=inside, other=0.0).to(tl.float32) - mean_C[None, :]) * rstd_C[None, :]
        d_hat_PC = arriving(d_out_ptr, d_again_ptr, at, inside, TWICE) * weight_C[None, :]
        if RELU:
            d_hat_PC = tl.where(hat_PC * weight_C[None, :] + bias_C[None, :] > 0.0, d_hat_PC, 0.0)
        d_image_PC = (d_hat_PC - mean_d_C[None, :] - hat_PC * along_C[None, :]) * rstd_C[None, :]
        tl.store(d_image_ptr + at, d_image_PC.to(d_image_ptr.dtype.element_ty), mask=inside)
