"""Group norm, ReLU and the 3x3 stride-2 max pool of a ResNet stem, without the full-size activation.

The stem's map is the largest tensor of the network. The forward pass reads it for its sums and again to pool it, and
writes a quarter of it; per pooled number it keeps which of the nine inputs won, and that input. The backward pass
gathers: the sums come from the pooled map alone, and every 2x2 block of inputs looks at the four windows that can
hold it. Nothing is scattered. As in `group_norm`, one program does both for a slice of one image where that pays.
"""

# N images, C channels, H x W map, Q pooled pixels, S parts of an image
from typing import Any, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import group_norm, max_pool2d, relu

from egorecovery.policy.kernels.dispatch import ceil_div, jit, runs_fused, tl
from egorecovery.policy.kernels.group_norm import channels_last, group_norm_fits
from egorecovery.policy.kernels.group_norm_parts import (
    EPSILON,
    gradient_means,
    map_parts,
    moments_of_sums,
    part_sizes,
    stats_kernel,
    total_of_group,
)
from egorecovery.policy.kernels.group_norm_slices import Slices, moments_of_slice
from egorecovery.policy.kernels.layer_norm import totals
from egorecovery.policy.kernels.max_pool_windows import gradient_pixels, pool_pixels, won_sums

POOL_TILE_NUMBERS = 1024  # pooled numbers of one program at a time; each brings nine inputs, so more cost occupancy
WARPS = 4
# A step of a walk counts pooled numbers. A forward slice of 112 x 112 pixels is too large for the caches to keep it
# until the second walk; the backward pass only walks twice through the pooled maps, a third of that.
FORWARD_SLICES = Slices(numbers_per_warp=8192, walked_per_thread=4)
BACKWARD_SLICES = Slices(walked_numbers=262144, numbers_per_warp=8192, walked_per_thread=4)


def group_norm_relu_max_pool(
    image_NCHW: Float[Tensor, "N C H W"], groups: int, weight_C: Float[Tensor, " C"], bias_C: Float[Tensor, " C"]
) -> Float[Tensor, "N C h w"]:
    """max_pool2d(relu(GN(image)), kernel 3, stride 2, padding 1), channels last."""
    if runs_fused(image_NCHW, weight_C, bias_C) and group_norm_fits(image_NCHW, groups):
        return _GroupNormReluMaxPool.apply(image_NCHW, groups, weight_C, bias_C)
    return plain_group_norm_relu_max_pool(image_NCHW, groups, weight_C, bias_C)


def plain_group_norm_relu_max_pool(
    image_NCHW: Float[Tensor, "N C H W"], groups: int, weight_C: Float[Tensor, " C"], bias_C: Float[Tensor, " C"]
) -> Float[Tensor, "N C h w"]:
    """What the kernels compute. Like torch, they give a tie to the first input of the window."""
    exact = torch.promote_types(image_NCHW.dtype, torch.float32)
    normed_NCHW = group_norm(image_NCHW.to(exact), groups, weight_C.to(exact), bias_C.to(exact), EPSILON)
    pooled_NCQ = max_pool2d(relu(normed_NCHW), kernel_size=3, stride=2, padding=1)
    return channels_last(pooled_NCQ.to(image_NCHW.dtype))


def _sizes(image_NCHW: Tensor, groups: int, parts: int) -> dict[str, Any]:
    _, channels, height, width = image_NCHW.shape
    rows = max(1, POOL_TILE_NUMBERS // channels)
    pooled = ceil_div(height, 2) * ceil_div(width, 2)
    return {
        "H": height,
        "W": width,
        "C": channels,
        "GROUP": channels // groups,
        "PARTS": parts,
        "PART": ceil_div(ceil_div(pooled, parts), rows) * rows,
        "ROWS": rows,
        "num_warps": WARPS,
    }


def _walked_sizes(image_NCHW: Tensor, groups: int, slices: Slices) -> dict[str, Any] | None:
    sizes = slices.walked(image_NCHW, groups)
    if sizes is None:
        return None
    del sizes["HW"]
    return {"H": image_NCHW.shape[2], "W": image_NCHW.shape[3], **sizes}


class _GroupNormReluMaxPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image_NCHW: Tensor, groups: int, weight_C: Tensor, bias_C: Tensor) -> Tensor:
        image_NCHW = channels_last(image_NCHW)
        images, channels, height, width = image_NCHW.shape
        device = image_NCHW.device
        moments_N2C = torch.empty((images, 2, channels), dtype=torch.float32, device=device)
        pooled_NCQ = torch.empty(
            (images, channels, ceil_div(height, 2), ceil_div(width, 2)),
            dtype=image_NCHW.dtype,
            device=device,
            memory_format=torch.channels_last,
        )
        winner_NCQ = torch.empty_like(pooled_NCQ)
        code_NCQ = torch.empty_like(pooled_NCQ, dtype=torch.uint8)
        made = (pooled_NCQ, winner_NCQ, code_NCQ, moments_N2C)
        if sizes := _walked_sizes(image_NCHW, groups, FORWARD_SLICES):
            _walked_pool_kernel[(channels // sizes["BLOCK_C"], images)](
                image_NCHW, weight_C, bias_C, *made, EPSILON, **sizes
            )
        else:
            parts = map_parts(image_NCHW)
            sums_NS2C = torch.empty((images, parts, 2, channels), dtype=torch.float32, device=device)
            stats_kernel[(parts, images)](image_NCHW, sums_NS2C, **part_sizes(image_NCHW, groups, parts))
            _pool_kernel[(parts, images)](
                image_NCHW, weight_C, bias_C, sums_NS2C, *made, EPSILON, **_sizes(image_NCHW, groups, parts)
            )
        ctx.save_for_backward(image_NCHW, weight_C, moments_N2C, winner_NCQ, code_NCQ)
        ctx.groups, ctx.bias_dtype = groups, bias_C.dtype
        return pooled_NCQ

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_pooled_NCQ: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[reportIncompatibleMethodOverride]  # torch types it *Any
        image_NCHW, weight_C, moments_N2C, winner_NCQ, code_NCQ = ctx.saved_tensors
        d_pooled_NCQ = channels_last(d_pooled_NCQ)
        images, channels = image_NCHW.shape[:2]
        walked = _walked_sizes(image_NCHW, ctx.groups, BACKWARD_SLICES)
        parts = 1 if walked else map_parts(image_NCHW)
        sums_NS2C = torch.empty((images, parts, 2, channels), dtype=torch.float32, device=image_NCHW.device)
        d_image_NCHW = torch.empty_like(image_NCHW)
        if walked:
            _walked_gradient_kernel[(channels // walked["BLOCK_C"], images)](
                image_NCHW, winner_NCQ, code_NCQ, d_pooled_NCQ, weight_C, moments_N2C, sums_NS2C, d_image_NCHW, **walked
            )
        else:
            sizes = _sizes(image_NCHW, ctx.groups, parts)
            _reduce_kernel[(parts, images)](winner_NCQ, code_NCQ, d_pooled_NCQ, moments_N2C, sums_NS2C, **sizes)
            _gradient_kernel[(parts, images)](
                image_NCHW, code_NCQ, d_pooled_NCQ, weight_C, moments_N2C, sums_NS2C, d_image_NCHW, **sizes
            )
        d_bias_C, d_weight_C = totals(sums_NS2C.flatten(0, 1), ctx.bias_dtype, weight_C.dtype)
        return d_image_NCHW, None, d_weight_C, d_bias_C


@jit
@no_type_check
def _pool_kernel(
    image_ptr, weight_ptr, bias_ptr, sums_ptr, pooled_ptr, winner_ptr, code_ptr, moments_ptr, epsilon,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
    PART: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    Q: tl.constexpr = ((H + 1) // 2) * ((W + 1) // 2)
    # Backwards through the batch: the images summed last are still in the cache.
    image = (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    mean_C, rstd_C = moments_of_sums(sums_ptr, image, epsilon, H * W, C, GROUP, PARTS)
    c = tl.arange(0, C)
    if tl.program_id(0) == 0:
        tl.store(moments_ptr + image * 2 * C + c, mean_C)
        tl.store(moments_ptr + image * 2 * C + C + c, rstd_C)
    scale_C = rstd_C * tl.load(weight_ptr + c).to(tl.float32)
    shift_C = tl.load(bias_ptr + c).to(tl.float32) - mean_C * scale_C
    for start in range(0, PART, ROWS):
        q = tl.program_id(0) * PART + start + tl.arange(0, ROWS)
        pool_pixels(
            image_ptr + image * H * W * C, pooled_ptr + image * Q * C, winner_ptr + image * Q * C,
            code_ptr + image * Q * C, q, c, scale_C, shift_C, H, W, C, ROWS, C,
        )  # fmt: skip


@jit
@no_type_check
def _walked_pool_kernel(
    image_ptr, weight_ptr, bias_ptr, pooled_ptr, winner_ptr, code_ptr, moments_ptr, epsilon,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_C: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    Q: tl.constexpr = ((H + 1) // 2) * ((W + 1) // 2)
    LAST: tl.constexpr = (Q - 1) // ROWS * ROWS
    image = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    image_ptr += image * H * W * C
    mean_C, rstd_C = moments_of_slice(
        image_ptr, moments_ptr + image * 2 * C, c, epsilon, H * W, C, GROUP, 4 * ROWS, BLOCK_C, STAGES
    )
    scale_C = rstd_C * tl.load(weight_ptr + c).to(tl.float32)
    shift_C = tl.load(bias_ptr + c).to(tl.float32) - mean_C * scale_C
    for done in range(0, Q, ROWS):
        q = LAST - done + tl.arange(0, ROWS)
        pool_pixels(
            image_ptr, pooled_ptr + image * Q * C, winner_ptr + image * Q * C, code_ptr + image * Q * C,
            q, c, scale_C, shift_C, H, W, C, ROWS, BLOCK_C,
        )  # fmt: skip


@jit
@no_type_check
def _reduce_kernel(
    winner_ptr, code_ptr, d_pooled_ptr, moments_ptr, sums_ptr,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
    PART: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    Q: tl.constexpr = ((H + 1) // 2) * ((W + 1) // 2)
    image = tl.program_id(1).to(tl.int64)
    c = tl.arange(0, C)
    mean_C = tl.load(moments_ptr + image * 2 * C + c)
    rstd_C = tl.load(moments_ptr + image * 2 * C + C + c)
    d_bias_C, d_weight_C = won_sums(
        winner_ptr + image * Q * C, code_ptr + image * Q * C, d_pooled_ptr + image * Q * C,
        tl.program_id(0) * PART, c, mean_C, rstd_C, Q, C, PART, ROWS, C,
    )  # fmt: skip
    sums_at = (image * PARTS + tl.program_id(0)) * 2 * C + c
    tl.store(sums_ptr + sums_at, d_bias_C)
    tl.store(sums_ptr + sums_at + C, d_weight_C)


@jit
@no_type_check
def _gradient_kernel(
    image_ptr, code_ptr, d_pooled_ptr, weight_ptr, moments_ptr, sums_ptr, d_image_ptr,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
    PART: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    Q: tl.constexpr = ((H + 1) // 2) * ((W + 1) // 2)
    image = (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    c = tl.arange(0, C)
    mean_C = tl.load(moments_ptr + image * 2 * C + c)
    rstd_C = tl.load(moments_ptr + image * 2 * C + C + c)
    weight_C = tl.load(weight_ptr + c).to(tl.float32)
    mean_d_C, along_C = gradient_means(sums_ptr, weight_C, image, H * W, C, GROUP, PARTS)
    for start in range(0, PART, ROWS):
        q = tl.program_id(0) * PART + start + tl.arange(0, ROWS)
        gradient_pixels(
            image_ptr + image * H * W * C, code_ptr + image * Q * C, d_pooled_ptr + image * Q * C,
            d_image_ptr + image * H * W * C, q, c,
            mean_C, weight_C * rstd_C, mean_d_C * rstd_C, along_C * rstd_C * rstd_C, H, W, C,
        )  # fmt: skip


@jit
@no_type_check
def _walked_gradient_kernel(
    image_ptr, winner_ptr, code_ptr, d_pooled_ptr, weight_ptr, moments_ptr, sums_ptr, d_image_ptr,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr,
    BLOCK_C: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    Q: tl.constexpr = ((H + 1) // 2) * ((W + 1) // 2)
    LAST: tl.constexpr = (Q - 1) // ROWS * ROWS
    image = tl.program_id(1).to(tl.int64)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    code_ptr += image * Q * C
    d_pooled_ptr += image * Q * C
    mean_C = tl.load(moments_ptr + image * 2 * C + c)
    rstd_C = tl.load(moments_ptr + image * 2 * C + C + c)
    weight_C = tl.load(weight_ptr + c).to(tl.float32)
    d_bias_C, d_weight_C = won_sums(
        winner_ptr + image * Q * C, code_ptr, d_pooled_ptr, 0, c, mean_C, rstd_C, Q, C, Q, ROWS, BLOCK_C
    )
    tl.store(sums_ptr + image * 2 * C + c, d_bias_C)
    tl.store(sums_ptr + image * 2 * C + C + c, d_weight_C)
    shift_C = rstd_C * total_of_group(weight_C * d_bias_C, GROUP, BLOCK_C) / (H * W * GROUP)
    slope_C = rstd_C * rstd_C * total_of_group(weight_C * d_weight_C, GROUP, BLOCK_C) / (H * W * GROUP)
    for done in range(0, Q, ROWS):
        q = LAST - done + tl.arange(0, ROWS)
        gradient_pixels(
            image_ptr + image * H * W * C, code_ptr, d_pooled_ptr, d_image_ptr + image * H * W * C, q, c,
            mean_C, weight_C * rstd_C, shift_C, slope_C, H, W, C,
        )  # fmt: skip
