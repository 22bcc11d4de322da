"""Group norm with its residual and ReLU, in channels-last order from end to end.

Library group norms want the channels first: around a channels-last convolution that costs two more passes each way.
Small maps (a slice of one image on chip) are read once and written once. Large maps take two kernels: sums over
parts of an image, then the result from those sums. Every program covers whole groups and at least 32 contiguous
bytes per pixel, so a group of two channels costs no more than one of sixteen.
"""

# N images, C channels, H x W map, S parts of an image, G groups
from typing import Any, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from egorecovery.acceleration.kernels.deferred_gradients import norm_gradients
from egorecovery.acceleration.kernels.dispatch import is_power_of_two, jit, power_of_two_from, runs_fused, tl
from egorecovery.acceleration.kernels.group_norm_large import apply_kernel, gradient_kernel, reduce_kernel
from egorecovery.acceleration.kernels.group_norm_parts import (
    EPSILON,
    arriving,
    map_parts,
    masked,
    part_sizes,
    stats_kernel,
    total_of_group,
)
from egorecovery.policy import vision as plain

# Of one program: 64 per thread of four warps. With twice as many a map of 28 x 28 would fit by its 16 channels, but 32
# bytes a pixel keep the cache busy: in a whole step, reading it twice in whole lines is faster. (Its variance then is
# that of sums of squares: in float32 1e-4 off where the mean is fifty deviations.)
NUMBERS_ON_CHIP = 8192
CHANNELS_WANTED = 32  # 64 contiguous bytes per pixel
FEWEST_CHANNELS = 16  # 32 bytes: one memory sector


def group_norm_act(
    image_NCHW: Float[Tensor, "N C H W"],
    groups: int,
    weight_C: Float[Tensor, " C"],
    bias_C: Float[Tensor, " C"],
    residual_NCHW: Float[Tensor, "N C H W"] | None = None,
    relu: bool = True,
) -> Float[Tensor, "N C H W"]:
    """relu(GN(image) + residual), channels last."""
    if runs_fused(image_NCHW, weight_C, bias_C, residual_NCHW) and group_norm_fits(image_NCHW, groups):
        return _GroupNormAct.apply(image_NCHW, groups, weight_C, bias_C, residual_NCHW, relu, False)
    return plain.group_norm(image_NCHW, groups, weight_C, bias_C, residual_NCHW, relu)


def group_norm_act_twice(
    image_NCHW: Float[Tensor, "N C H W"],
    groups: int,
    weight_C: Float[Tensor, " C"],
    bias_C: Float[Tensor, " C"],
    residual_NCHW: Float[Tensor, "N C H W"] | None = None,
    relu: bool = True,
) -> tuple[Float[Tensor, "N C H W"], Float[Tensor, "N C H W"]]:
    """The same output for two readers, in the same memory: do not write to it.

    In a residual network those are the next convolution and its shortcut. Their gradients arrive apart and are summed
    while the backward pass reads them; autograd's own sum would be one more pass over three maps.
    """
    if runs_fused(image_NCHW, weight_C, bias_C, residual_NCHW) and group_norm_fits(image_NCHW, groups):
        return _GroupNormAct.apply(image_NCHW, groups, weight_C, bias_C, residual_NCHW, relu, True)
    out_NCHW = plain.group_norm(image_NCHW, groups, weight_C, bias_C, residual_NCHW, relu)
    return out_NCHW, out_NCHW


def group_norm_fits(image_NCHW: Tensor, groups: int) -> bool:
    """Whether the kernels can take an image batch of this shape."""
    channels = image_NCHW.shape[1]
    return is_power_of_two(channels) and FEWEST_CHANNELS <= channels <= 1024 and is_power_of_two(groups)


def channels_last(image_NCHW: Tensor) -> Tensor:
    return image_NCHW.contiguous(memory_format=torch.channels_last)


def _slice_sizes(image_NCHW: Tensor, groups: int) -> dict[str, Any] | None:
    """How one program holds a slice of channels of one whole image, or None where that does not fit."""
    _, channels, height, width = image_NCHW.shape
    group = channels // groups
    pixels = power_of_two_from(height * width)
    wanted = max(CHANNELS_WANTED, group, NUMBERS_ON_CHIP // pixels)
    block = min(channels, wanted)
    while pixels * block > NUMBERS_ON_CHIP and block > max(FEWEST_CHANNELS, group):
        block //= 2
    if pixels * block > NUMBERS_ON_CHIP:
        return None
    return {
        "HW": height * width,
        "C": channels,
        "GROUP": group,
        "BLOCK_HW": pixels,
        "BLOCK_C": block,
        "num_warps": max(1, pixels * block // 2048),  # 64 numbers per thread
    }


class _GroupNormAct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        image_NCHW: Tensor,
        groups: int,
        weight_C: Tensor,
        bias_C: Tensor,
        residual_NCHW: Tensor | None,
        relu: bool,
        twice: bool,
    ) -> Tensor | tuple[Tensor, Tensor]:
        image_NCHW = channels_last(image_NCHW)
        residual_NCHW = None if residual_NCHW is None else channels_last(residual_NCHW)
        images, channels = image_NCHW.shape[:2]
        out_NCHW = torch.empty_like(image_NCHW)
        moments_N2C = torch.empty((images, 2, channels), dtype=torch.float32, device=image_NCHW.device)
        flags = {"HAS_RESIDUAL": residual_NCHW is not None, "RELU": relu}
        sizes = _slice_sizes(image_NCHW, groups)
        if sizes is not None:
            _whole_forward_kernel[(channels // sizes["BLOCK_C"], images)](
                image_NCHW, residual_NCHW, weight_C, bias_C, out_NCHW, moments_N2C, EPSILON, **sizes, **flags
            )
        else:
            parts = map_parts(image_NCHW)
            sizes = part_sizes(image_NCHW, groups, parts)
            sums_NS2C = torch.empty((images, parts, 2, channels), dtype=torch.float32, device=image_NCHW.device)
            stats_kernel[(parts, images)](image_NCHW, sums_NS2C, **sizes)
            apply_kernel[(parts, images)](
                image_NCHW, residual_NCHW, weight_C, bias_C, sums_NS2C, out_NCHW, moments_N2C, EPSILON, **sizes, **flags
            )
        # The mask of a ReLU with no residual follows from the input; with one, the output is kept (and by the next
        # convolution anyway).
        kept_NCHW = out_NCHW if relu and residual_NCHW is not None else None
        ctx.save_for_backward(image_NCHW, weight_C, bias_C, moments_N2C, kept_NCHW)
        ctx.groups, ctx.relu = groups, relu
        ctx.residual_dtype = None if residual_NCHW is None else residual_NCHW.dtype
        ctx.set_materialize_grads(False)  # a reader without a gradient must not cost a map of zeros
        # A tensor of its own on the same memory: autograd gives one tensor returned twice a single gradient.
        return (out_NCHW, out_NCHW.detach()) if twice else out_NCHW

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *d_outs: Tensor | None) -> tuple[Tensor | None, ...]:  # type: ignore[reportIncompatibleMethodOverride]  # torch types it *Any
        image_NCHW, weight_C, bias_C, moments_N2C, out_NCHW = ctx.saved_tensors
        arrived = [channels_last(d_NCHW) for d_NCHW in d_outs if d_NCHW is not None]
        if not arrived:
            return (None,) * 7
        d_out_NCHW, d_again_NCHW = arrived if len(arrived) == 2 else (arrived[0], None)
        if d_again_NCHW is not None and ctx.residual_dtype is not None and not ctx.relu:
            # Here the residual wants the sum as it is, and no kernel below writes it.
            d_out_NCHW, d_again_NCHW = d_out_NCHW + d_again_NCHW, None
        twice = d_again_NCHW is not None
        images, channels = image_NCHW.shape[:2]
        d_image_NCHW = torch.empty_like(image_NCHW)
        # With a ReLU the residual's gradient is the masked one; without, it is the gradient that came in.
        d_masked_NCHW = None if out_NCHW is None else torch.empty_like(image_NCHW, dtype=ctx.residual_dtype)
        flags = {"HAS_RESIDUAL": out_NCHW is not None, "RELU": ctx.relu, "TWICE": twice}
        sizes = _slice_sizes(image_NCHW, ctx.groups)
        parts = 1 if sizes is not None else map_parts(image_NCHW)
        sums_NS2C = torch.empty((images, parts, 2, channels), dtype=torch.float32, device=image_NCHW.device)
        if sizes is not None:
            _whole_backward_kernel[(channels // sizes["BLOCK_C"], images)](
                image_NCHW, out_NCHW, d_out_NCHW, d_again_NCHW, weight_C, bias_C, moments_N2C,
                d_image_NCHW, d_masked_NCHW, sums_NS2C, **sizes, **flags,
            )  # fmt: skip
        else:
            sizes = part_sizes(image_NCHW, ctx.groups, parts)
            reduce_kernel[(parts, images)](
                image_NCHW, out_NCHW, d_out_NCHW, d_again_NCHW, weight_C, bias_C, moments_N2C, d_masked_NCHW,
                sums_NS2C, **sizes, **flags,
            )  # fmt: skip
            # The masked gradient, once written for the residual, saves reading the output and both gradients again.
            rest = (d_out_NCHW, d_again_NCHW) if d_masked_NCHW is None else (d_masked_NCHW, None)
            gradient_kernel[(parts, images)](
                image_NCHW, *rest, weight_C, bias_C, moments_N2C, sums_NS2C, d_image_NCHW,
                RELU=ctx.relu and d_masked_NCHW is None, TWICE=twice and d_masked_NCHW is None, **sizes,
            )  # fmt: skip
        d_bias_C, d_weight_C = norm_gradients(bias_C, weight_C, sums_NS2C.flatten(0, 1))
        d_residual_NCHW = d_masked_NCHW
        if d_masked_NCHW is None and ctx.residual_dtype is not None:
            d_residual_NCHW = d_out_NCHW.to(ctx.residual_dtype)
        return d_image_NCHW, None, d_weight_C, d_bias_C, d_residual_NCHW, None, None


@jit
@no_type_check
def _whole_forward_kernel(
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
def _whole_backward_kernel(
    image_ptr, out_ptr, d_out_ptr, d_again_ptr, weight_ptr, bias_ptr, moments_ptr, d_image_ptr, d_masked_ptr, sums_ptr,
    HW: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, BLOCK_HW: tl.constexpr, BLOCK_C: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr, RELU: tl.constexpr, TWICE: tl.constexpr,
):  # fmt: skip
    image = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    p = tl.arange(0, BLOCK_HW)
    inside = p[:, None] < HW
    at = image * HW * C + p[:, None] * C + c[None, :]
    mean_C = tl.load(moments_ptr + image * 2 * C + c)
    rstd_C = tl.load(moments_ptr + image * 2 * C + C + c)
    weight_C = tl.load(weight_ptr + c).to(tl.float32)
    hat_PC = (tl.load(image_ptr + at, mask=inside, other=0.0).to(tl.float32) - mean_C[None, :]) * rstd_C[None, :]
    d_out_PC = arriving(d_out_ptr, d_again_ptr, at, inside, TWICE)
    bias_C = tl.load(bias_ptr + c).to(tl.float32)
    d_out_PC = masked(d_out_PC, hat_PC, out_ptr, d_masked_ptr, weight_C, bias_C, at, inside, HAS_RESIDUAL, RELU)
    d_bias_C = tl.sum(d_out_PC, axis=0)  # pixels past the end brought a gradient of 0
    d_weight_C = tl.sum(d_out_PC * hat_PC, axis=0)
    tl.store(sums_ptr + image * 2 * C + c, d_bias_C)
    tl.store(sums_ptr + image * 2 * C + C + c, d_weight_C)
    mean_d_C = total_of_group(weight_C * d_bias_C, GROUP, BLOCK_C) / (HW * GROUP)
    along_C = total_of_group(weight_C * d_weight_C, GROUP, BLOCK_C) / (HW * GROUP)
    d_image_PC = (d_out_PC * weight_C[None, :] - mean_d_C[None, :] - hat_PC * along_C[None, :]) * rstd_C[None, :]
    tl.store(d_image_ptr + at, d_image_PC.to(d_image_ptr.dtype.element_ty), mask=inside)
