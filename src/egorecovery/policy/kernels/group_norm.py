"""Group norm with its residual and ReLU, in channels-last order from end to end.

Library group norms want the channels first: around a channels-last convolution that costs two more passes each way.
Here every tensor is read and written once, by programs that own a slice of channels of one image; only images so
large or so few that this would leave the device idle are cut into parts and read twice. Every program covers whole
groups and at least 32 contiguous bytes per pixel, so a group of two channels costs no more than one of sixteen.
"""

# N images, C channels, H x W map, S parts of an image, G groups
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import group_norm as torch_group_norm
from torch.nn.functional import relu as torch_relu

from egorecovery.policy.kernels.dispatch import is_power_of_two, runs_fused
from egorecovery.policy.kernels.group_norm_parts import (
    EPSILON,
    apply_kernel,
    gradient_kernel,
    map_parts,
    part_sizes,
    reduce_kernel,
    stats_kernel,
)
from egorecovery.policy.kernels.group_norm_slices import (
    FEWEST_CHANNELS,
    Slices,
    held_backward_kernel,
    held_forward_kernel,
    walked_backward_kernel,
    walked_forward_kernel,
)
from egorecovery.policy.kernels.layer_norm import totals

# Walked slices are those of 56 x 56 pixels and, backward, where two tensors must be held, of 28 x 28 and 24 x 24. What
# 132 multiprocessors have between their two walks then fits in the L2 cache.
FORWARD_SLICES = Slices()
BACKWARD_SLICES = Slices(held_numbers=8192)


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
        return _GroupNormAct.apply(image_NCHW, groups, weight_C, bias_C, residual_NCHW, relu)
    return plain_group_norm_act(image_NCHW, groups, weight_C, bias_C, residual_NCHW, relu)


def plain_group_norm_act(
    image_NCHW: Float[Tensor, "N C H W"],
    groups: int,
    weight_C: Float[Tensor, " C"],
    bias_C: Float[Tensor, " C"],
    residual_NCHW: Float[Tensor, "N C H W"] | None = None,
    relu: bool = True,
) -> Float[Tensor, "N C H W"]:
    """What the kernels compute."""
    exact = torch.promote_types(image_NCHW.dtype, torch.float32)
    out_NCHW = torch_group_norm(image_NCHW.to(exact), groups, weight_C.to(exact), bias_C.to(exact), EPSILON)
    if residual_NCHW is not None:
        out_NCHW = out_NCHW + residual_NCHW.to(exact)
    if relu:
        out_NCHW = torch_relu(out_NCHW)
    return out_NCHW.to(image_NCHW.dtype).contiguous(memory_format=torch.channels_last)


def group_norm_fits(image_NCHW: Tensor, groups: int) -> bool:
    """Whether the kernels can take an image batch of this shape."""
    channels = image_NCHW.shape[1]
    return is_power_of_two(channels) and FEWEST_CHANNELS <= channels <= 1024 and is_power_of_two(groups)


def channels_last(image_NCHW: Tensor) -> Tensor:
    return image_NCHW.contiguous(memory_format=torch.channels_last)


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
    ) -> Tensor:
        image_NCHW = channels_last(image_NCHW)
        residual_NCHW = None if residual_NCHW is None else channels_last(residual_NCHW)
        images, channels = image_NCHW.shape[:2]
        out_NCHW = torch.empty_like(image_NCHW)
        moments_N2C = torch.empty((images, 2, channels), dtype=torch.float32, device=image_NCHW.device)
        flags = {"HAS_RESIDUAL": residual_NCHW is not None, "RELU": relu}
        tensors = (image_NCHW, residual_NCHW, weight_C, bias_C)
        if sizes := FORWARD_SLICES.held(image_NCHW, groups):
            held_forward_kernel[(channels // sizes["BLOCK_C"], images)](
                *tensors, out_NCHW, moments_N2C, EPSILON, **sizes, **flags
            )
        elif sizes := FORWARD_SLICES.walked(image_NCHW, groups):
            walked_forward_kernel[(channels // sizes["BLOCK_C"], images)](
                *tensors, out_NCHW, moments_N2C, EPSILON, **sizes, **flags
            )
        else:
            parts = map_parts(image_NCHW)
            sizes = part_sizes(image_NCHW, groups, parts)
            sums_NS2C = torch.empty((images, parts, 2, channels), dtype=torch.float32, device=image_NCHW.device)
            stats_kernel[(parts, images)](image_NCHW, sums_NS2C, **sizes)
            apply_kernel[(parts, images)](*tensors, sums_NS2C, out_NCHW, moments_N2C, EPSILON, **sizes, **flags)
        # The mask of a ReLU with no residual follows from the input; with one, the output is kept (and by the next
        # convolution anyway).
        kept_NCHW = out_NCHW if relu and residual_NCHW is not None else None
        ctx.save_for_backward(image_NCHW, weight_C, bias_C, moments_N2C, kept_NCHW)
        ctx.groups, ctx.relu = groups, relu
        ctx.residual_dtype = None if residual_NCHW is None else residual_NCHW.dtype
        return out_NCHW

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out_NCHW: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[reportIncompatibleMethodOverride]  # torch types it *Any
        image_NCHW, weight_C, bias_C, moments_N2C, out_NCHW = ctx.saved_tensors
        d_out_NCHW = channels_last(d_out_NCHW)
        images, channels = image_NCHW.shape[:2]
        d_image_NCHW = torch.empty_like(image_NCHW)
        # With a ReLU the residual's gradient is the masked one; without, it is the gradient that came in.
        d_masked_NCHW = None if out_NCHW is None else torch.empty_like(image_NCHW, dtype=ctx.residual_dtype)
        flags = {"HAS_RESIDUAL": out_NCHW is not None, "RELU": ctx.relu}
        tensors = (image_NCHW, out_NCHW, d_out_NCHW, weight_C, bias_C, moments_N2C)
        held = BACKWARD_SLICES.held(image_NCHW, ctx.groups)
        walked = None if held else BACKWARD_SLICES.walked(image_NCHW, ctx.groups)
        parts = 1 if held or walked else map_parts(image_NCHW)
        sums_NS2C = torch.empty((images, parts, 2, channels), dtype=torch.float32, device=image_NCHW.device)
        if held:
            held_backward_kernel[(channels // held["BLOCK_C"], images)](
                *tensors, d_image_NCHW, d_masked_NCHW, sums_NS2C, **held, **flags
            )
        elif walked:
            walked_backward_kernel[(channels // walked["BLOCK_C"], images)](
                *tensors, d_image_NCHW, d_masked_NCHW, sums_NS2C, **walked, **flags
            )
        else:
            sizes = part_sizes(image_NCHW, ctx.groups, parts)
            reduce_kernel[(parts, images)](*tensors, d_masked_NCHW, sums_NS2C, **sizes, **flags)
            # The masked gradient, once written for the residual, saves reading the output a second time.
            gradient_kernel[(parts, images)](
                image_NCHW, d_out_NCHW if d_masked_NCHW is None else d_masked_NCHW, weight_C, bias_C, moments_N2C,
                sums_NS2C, d_image_NCHW, RELU=ctx.relu and d_masked_NCHW is None, **sizes,
            )  # fmt: skip
        d_bias_C, d_weight_C = totals(sums_NS2C.flatten(0, 1), bias_C.dtype, weight_C.dtype)
        d_residual_NCHW = d_masked_NCHW
        if d_masked_NCHW is None and ctx.residual_dtype is not None:
            d_residual_NCHW = d_out_NCHW.to(ctx.residual_dtype)
        return d_image_NCHW, None, d_weight_C, d_bias_C, d_residual_NCHW, None
