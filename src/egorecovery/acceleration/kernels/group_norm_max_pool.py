"""Group norm, ReLU and the 3x3 stride-2 max pool of a ResNet stem, without the full-size activation.

The stem's map is the largest tensor of the network. The forward pass reads it twice and writes a quarter of it; per
pooled number it keeps which of the nine inputs won, and that input. The backward pass gathers: the sums come from
the pooled map alone, and every 2x2 block of inputs looks at the four windows that can hold it. Nothing is scattered.
"""

# N images, C channels, H x W map, Q pooled pixels, S parts of an image
from typing import Any, no_type_check

import torch
from jaxtyping import Float, Float32
from torch import Tensor
from torch.autograd.function import once_differentiable

from egorecovery.acceleration.kernels.deferred_gradients import norm_gradients
from egorecovery.acceleration.kernels.dispatch import ceil_div, jit, runs_fused, tl
from egorecovery.acceleration.kernels.group_norm import channels_last, group_norm_fits
from egorecovery.acceleration.kernels.group_norm_parts import (
    EPSILON,
    gradient_means,
    map_parts,
    part_sizes,
    scale_and_shift,
    stats_kernel,
)
from egorecovery.policy import vision as plain

POOL_TILE_NUMBERS = 1024  # pooled numbers of one program at a time; each brings nine inputs, so more cost occupancy
WARPS = 4


def group_norm_relu_max_pool(
    image_NCHW: Float[Tensor, "N C H W"],
    groups: int,
    weight_C: Float[Tensor, " C"],
    bias_C: Float[Tensor, " C"],
    sums_NS2C: Float32[Tensor, "N S 2 C"] | None = None,
) -> Float[Tensor, "N C h w"]:
    """max_pool2d(relu(GN(image)), kernel 3, stride 2, padding 1), channels last.

    Whoever made the image may pass the sum and the sum of squares of its channels, over any power of two of parts that
    make up each image, and save the pass that would add them up. They say nothing new, so they get no gradient.
    """
    if runs_fused(image_NCHW, weight_C, bias_C) and group_norm_fits(image_NCHW, groups):
        return _GroupNormReluMaxPool.apply(image_NCHW, groups, weight_C, bias_C, sums_NS2C)
    return plain.group_norm_max_pool(image_NCHW, groups, weight_C, bias_C)


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


def pooled_and_winners(
    image_NCHW: Tensor, groups: int, weight_C: Tensor, bias_C: Tensor, sums_NS2C: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The forward pass on a channels-last image: pooled map, winners, their places, and the moments of groups."""
    images, channels, height, width = image_NCHW.shape
    device = image_NCHW.device
    parts = map_parts(image_NCHW)
    if sums_NS2C is None:
        sums_NS2C = torch.empty((images, parts, 2, channels), dtype=torch.float32, device=device)
        stats_kernel[(parts, images)](image_NCHW, sums_NS2C, **part_sizes(image_NCHW, groups, parts))
    moments_N2C = torch.empty((images, 2, channels), dtype=torch.float32, device=device)
    pooled_NCQ = torch.empty(
        (images, channels, ceil_div(height, 2), ceil_div(width, 2)),
        dtype=image_NCHW.dtype,
        device=device,
        memory_format=torch.channels_last,
    )
    winner_NCQ = torch.empty_like(pooled_NCQ)
    code_NCQ = torch.empty_like(pooled_NCQ, dtype=torch.uint8)
    _pool_kernel[(parts, images)](
        image_NCHW, weight_C, bias_C, sums_NS2C, pooled_NCQ, winner_NCQ, code_NCQ, moments_N2C, EPSILON,
        **{**_sizes(image_NCHW, groups, parts), "PARTS": sums_NS2C.shape[1]},
    )  # fmt: skip
    return pooled_NCQ, winner_NCQ, code_NCQ, moments_N2C


def sums_of_pooled_gradient(
    image_NCHW: Tensor, groups: int, moments_N2C: Tensor, winner_NCQ: Tensor, code_NCQ: Tensor, d_pooled_NCQ: Tensor
) -> Tensor:
    """By part of an image: the gradients of bias and weight."""
    images, channels = image_NCHW.shape[:2]
    parts = map_parts(image_NCHW)
    sums_NS2C = torch.empty((images, parts, 2, channels), dtype=torch.float32, device=image_NCHW.device)
    _reduce_kernel[(parts, images)](
        winner_NCQ, code_NCQ, d_pooled_NCQ, moments_N2C, sums_NS2C, **_sizes(image_NCHW, groups, parts)
    )
    return sums_NS2C


class _GroupNormReluMaxPool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, image_NCHW: Tensor, groups: int, weight_C: Tensor, bias_C: Tensor, sums_NS2C: Tensor | None
    ) -> Tensor:
        image_NCHW = channels_last(image_NCHW)
        pooled_NCQ, winner_NCQ, code_NCQ, moments_N2C = pooled_and_winners(
            image_NCHW, groups, weight_C, bias_C, sums_NS2C
        )
        ctx.save_for_backward(image_NCHW, weight_C, bias_C, moments_N2C, winner_NCQ, code_NCQ)
        ctx.groups = groups
        return pooled_NCQ

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_pooled_NCQ: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[reportIncompatibleMethodOverride]  # torch types it *Any
        image_NCHW, weight_C, bias_C, moments_N2C, winner_NCQ, code_NCQ = ctx.saved_tensors
        d_pooled_NCQ = channels_last(d_pooled_NCQ)
        sums_NS2C = sums_of_pooled_gradient(image_NCHW, ctx.groups, moments_N2C, winner_NCQ, code_NCQ, d_pooled_NCQ)
        d_image_NCHW = torch.empty_like(image_NCHW)
        parts = map_parts(image_NCHW)
        _gradient_kernel[(parts, len(image_NCHW))](
            image_NCHW, code_NCQ, d_pooled_NCQ, weight_C, moments_N2C, sums_NS2C, d_image_NCHW,
            **_sizes(image_NCHW, ctx.groups, parts),
        )  # fmt: skip
        d_bias_C, d_weight_C = norm_gradients(bias_C, weight_C, sums_NS2C.flatten(0, 1))
        return d_image_NCHW, None, d_weight_C, d_bias_C, None


@jit
@no_type_check
def _pool_kernel(
    image_ptr, weight_ptr, bias_ptr, sums_ptr, pooled_ptr, winner_ptr, code_ptr, moments_ptr, epsilon,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
    PART: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    OH: tl.constexpr = (H + 1) // 2
    OW: tl.constexpr = (W + 1) // 2
    # Backwards through the batch: the images summed last are still in the cache.
    image = (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    scale_C, shift_C = scale_and_shift(
        sums_ptr, weight_ptr, bias_ptr, moments_ptr, image, epsilon, H * W, C, GROUP, PARTS
    )
    c = tl.arange(0, C)
    # The norm is monotone: the largest input wins, or the smallest where it turns over. So inputs are compared as they
    # are, and only the winner is normed. (Inputs that the norm rounds to one number are no tie, nor those it scales by
    # zero; torch would call them one.)
    sign_C = tl.where(scale_C < 0.0, -1.0, 1.0)
    image_ptr += image * H * W * C
    for start in range(0, PART, ROWS):
        q = tl.program_id(0) * PART + start + tl.arange(0, ROWS)
        place = tl.minimum(q, OH * OW - 1)  # no mask where a tap cannot be outside
        top, left = 2 * (place // OW) - 1, 2 * (place % OW) - 1
        corner_at = image_ptr + ((top * W + left) * C)[:, None] + c[None, :]
        best_QC = tl.full((ROWS, C), float("-inf"), dtype=tl.float32)
        code_QC = tl.zeros((ROWS, C), dtype=tl.int32)
        for tap in tl.static_range(9):
            tap_at = corner_at + (tap // 3 * W + tap % 3) * C
            if tap < 3 or tap % 3 == 0 or (tap > 5 and H % 2 == 1) or (tap % 3 == 2 and W % 2 == 1):
                y, x = top + tap // 3, left + tap % 3
                inside = ((y >= 0) & (y < H) & (x >= 0) & (x < W))[:, None]
                key_QC = tl.load(tap_at, mask=inside, other=0.0).to(tl.float32) * sign_C[None, :]
                key_QC = tl.where(inside, key_QC, float("-inf"))
            else:
                key_QC = tl.load(tap_at).to(tl.float32) * sign_C[None, :]
            better_QC = key_QC > best_QC  # strictly: the first of equals wins
            best_QC = tl.where(better_QC, key_QC, best_QC)
            code_QC = tl.where(better_QC, tap, code_QC)
        winner_QC = best_QC * sign_C[None, :]
        best_QC = winner_QC * scale_C[None, :] + shift_C[None, :]
        code_QC = tl.where(best_QC > 0.0, code_QC, 9)  # 9: the ReLU shut this window, no input gets its gradient
        at = image * OH * OW * C + q[:, None] * C + c[None, :]
        inside = q[:, None] < OH * OW
        tl.store(pooled_ptr + at, tl.maximum(best_QC, 0.0).to(pooled_ptr.dtype.element_ty), mask=inside)
        tl.store(winner_ptr + at, winner_QC.to(winner_ptr.dtype.element_ty), mask=inside)
        tl.store(code_ptr + at, code_QC.to(tl.uint8), mask=inside)


@jit
@no_type_check
def _reduce_kernel(
    winner_ptr, code_ptr, d_pooled_ptr, moments_ptr, sums_ptr,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
    PART: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    OH: tl.constexpr = (H + 1) // 2
    OW: tl.constexpr = (W + 1) // 2
    image = tl.program_id(1).to(tl.int64)
    c = tl.arange(0, C)
    mean_C = tl.load(moments_ptr + image * 2 * C + c)
    rstd_C = tl.load(moments_ptr + image * 2 * C + C + c)
    d_bias_QC = tl.zeros((ROWS, C), dtype=tl.float32)
    d_weight_QC = tl.zeros((ROWS, C), dtype=tl.float32)
    for start in range(0, PART, ROWS):
        q = tl.program_id(0) * PART + start + tl.arange(0, ROWS)
        inside = q[:, None] < OH * OW
        at = image * OH * OW * C + q[:, None] * C + c[None, :]
        winner_QC = tl.load(winner_ptr + at, mask=inside, other=0.0).to(tl.float32)
        code_QC = tl.load(code_ptr + at, mask=inside, other=9)
        d_pooled_QC = tl.load(d_pooled_ptr + at, mask=inside, other=0.0).to(tl.float32)
        d_pooled_QC = tl.where(code_QC < 9, d_pooled_QC, 0.0)
        d_bias_QC += d_pooled_QC
        d_weight_QC += d_pooled_QC * (winner_QC - mean_C[None, :]) * rstd_C[None, :]
    sums_at = (image * PARTS + tl.program_id(0)) * 2 * C + c
    tl.store(sums_ptr + sums_at, tl.sum(d_bias_QC, axis=0))
    tl.store(sums_ptr + sums_at + C, tl.sum(d_weight_QC, axis=0))


@jit
@no_type_check
def _won(code_ptr, d_pooled_ptr, first, oy, ox, c, OH: tl.constexpr, OW: tl.constexpr, C: tl.constexpr):
    """The winner's code and the gradient of pooled pixels; past the edge, a window that nothing won."""
    inside = ((oy < OH) & (ox < OW))[:, None]
    at = first + (oy * OW + ox)[:, None] * C + c[None, :]
    code_QC = tl.load(code_ptr + at, mask=inside, other=9).to(tl.int32)
    return code_QC, tl.load(d_pooled_ptr + at, mask=inside, other=0.0).to(tl.float32)


@jit
@no_type_check
def _store_gradient(
    image_ptr, d_image_ptr, d_out_QC, first, y, x, c, mean_C, rstd_C, weight_C, mean_d_C, along_C,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    inside = ((y < H) & (x < W))[:, None]
    at = first + (y * W + x)[:, None] * C + c[None, :]
    hat_QC = (tl.load(image_ptr + at, mask=inside, other=0.0).to(tl.float32) - mean_C[None, :]) * rstd_C[None, :]
    d_image_QC = (d_out_QC * weight_C[None, :] - mean_d_C[None, :] - hat_QC * along_C[None, :]) * rstd_C[None, :]
    tl.store(d_image_ptr + at, d_image_QC.to(d_image_ptr.dtype.element_ty), mask=inside)


@jit
@no_type_check
def _gradient_kernel(
    image_ptr, code_ptr, d_pooled_ptr, weight_ptr, moments_ptr, sums_ptr, d_image_ptr,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
    PART: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    # Pooled pixel (oy, ox) answers for inputs (2oy, 2ox) .. (2oy+1, 2ox+1). A window's taps are numbered 3 ky + kx
    # from its corner (2oy-1, 2ox-1), so e.g. the last of the four inputs is tap 8 here, and tap 0 one down and right.
    OH: tl.constexpr = (H + 1) // 2
    OW: tl.constexpr = (W + 1) // 2
    image = (tl.num_programs(1) - 1 - tl.program_id(1)).to(tl.int64)
    c = tl.arange(0, C)
    mean_C = tl.load(moments_ptr + image * 2 * C + c)
    rstd_C = tl.load(moments_ptr + image * 2 * C + C + c)
    weight_C = tl.load(weight_ptr + c).to(tl.float32)
    mean_d_C, along_C = gradient_means(sums_ptr, weight_C, image, H * W, C, GROUP, PARTS)
    first = image * OH * OW * C
    first_in = image * H * W * C
    for start in range(0, PART, ROWS):
        q = tl.program_id(0) * PART + start + tl.arange(0, ROWS)
        oy, ox = q // OW, q % OW
        code_QC, d_QC = _won(code_ptr, d_pooled_ptr, first, oy, ox, c, OH, OW, C)
        code_right_QC, d_right_QC = _won(code_ptr, d_pooled_ptr, first, oy, ox + 1, c, OH, OW, C)
        code_down_QC, d_down_QC = _won(code_ptr, d_pooled_ptr, first, oy + 1, ox, c, OH, OW, C)
        code_both_QC, d_both_QC = _won(code_ptr, d_pooled_ptr, first, oy + 1, ox + 1, c, OH, OW, C)
        d_out_QC = tl.where(code_QC == 4, d_QC, 0.0)
        _store_gradient(
            image_ptr, d_image_ptr, d_out_QC, first_in, 2 * oy, 2 * ox, c,
            mean_C, rstd_C, weight_C, mean_d_C, along_C, H, W, C,
        )  # fmt: skip
        d_out_QC = tl.where(code_QC == 5, d_QC, 0.0) + tl.where(code_right_QC == 3, d_right_QC, 0.0)
        _store_gradient(
            image_ptr, d_image_ptr, d_out_QC, first_in, 2 * oy, 2 * ox + 1, c,
            mean_C, rstd_C, weight_C, mean_d_C, along_C, H, W, C,
        )  # fmt: skip
        d_out_QC = tl.where(code_QC == 7, d_QC, 0.0) + tl.where(code_down_QC == 1, d_down_QC, 0.0)
        _store_gradient(
            image_ptr, d_image_ptr, d_out_QC, first_in, 2 * oy + 1, 2 * ox, c,
            mean_C, rstd_C, weight_C, mean_d_C, along_C, H, W, C,
        )  # fmt: skip
        d_out_QC = tl.where(code_QC == 8, d_QC, 0.0) + tl.where(code_right_QC == 6, d_right_QC, 0.0)
        d_out_QC += tl.where(code_down_QC == 2, d_down_QC, 0.0) + tl.where(code_both_QC == 0, d_both_QC, 0.0)
        _store_gradient(
            image_ptr, d_image_ptr, d_out_QC, first_in, 2 * oy + 1, 2 * ox + 1, c,
            mean_C, rstd_C, weight_C, mean_d_C, along_C, H, W, C,
        )  # fmt: skip
