"""The windows of a ResNet stem's 3x3 stride-2 max pool over a normed map, and the gradient that goes back through them.

All pointers are those of one image; `q` are pooled pixels, `c` the channels of a slice.
"""

# C channels, H x W map, Q pooled pixels
from typing import no_type_check

from egorecovery.policy.kernels.dispatch import jit, tl


@jit
@no_type_check
def pool_pixels(
    image_ptr, pooled_ptr, winner_ptr, code_ptr, q, c, scale_C, shift_C,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Pools the pixels `q`: the largest input, or 0, and which of the nine it was."""
    OH: tl.constexpr = (H + 1) // 2
    OW: tl.constexpr = (W + 1) // 2
    top, left = 2 * (q // OW) - 1, 2 * (q % OW) - 1
    best_QC = tl.full((ROWS, BLOCK_C), float("-inf"), dtype=tl.float32)
    winner_QC = tl.zeros((ROWS, BLOCK_C), dtype=tl.float32)
    code_QC = tl.zeros((ROWS, BLOCK_C), dtype=tl.int32)
    for tap in tl.static_range(9):
        y, x = top + tap // 3, left + tap % 3
        inside = ((y >= 0) & (y < H) & (x >= 0) & (x < W) & (q < OH * OW))[:, None]
        image_QC = tl.load(image_ptr + (y * W + x)[:, None] * C + c[None, :], mask=inside, other=0.0).to(tl.float32)
        normed_QC = tl.where(inside, image_QC * scale_C[None, :] + shift_C[None, :], float("-inf"))
        better_QC = normed_QC > best_QC  # strictly: the first of equals wins
        best_QC = tl.where(better_QC, normed_QC, best_QC)
        winner_QC = tl.where(better_QC, image_QC, winner_QC)
        code_QC = tl.where(better_QC, tap, code_QC)
    code_QC = tl.where(best_QC > 0.0, code_QC, 9)  # 9: the ReLU shut this window, no input gets its gradient
    at = q[:, None] * C + c[None, :]
    inside = q[:, None] < OH * OW
    tl.store(pooled_ptr + at, tl.maximum(best_QC, 0.0).to(pooled_ptr.dtype.element_ty), mask=inside)
    tl.store(winner_ptr + at, winner_QC.to(winner_ptr.dtype.element_ty), mask=inside)
    tl.store(code_ptr + at, code_QC.to(tl.uint8), mask=inside)


@jit
@no_type_check
def won_sums(
    winner_ptr, code_ptr, d_pooled_ptr, first, c, mean_C, rstd_C,
    Q: tl.constexpr, C: tl.constexpr, PART: tl.constexpr, ROWS: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Gradients of bias and weight from `PART` pooled pixels."""
    d_bias_QC = tl.zeros((ROWS, BLOCK_C), dtype=tl.float32)
    d_scale_QC = tl.zeros((ROWS, BLOCK_C), dtype=tl.float32)
    for start in range(0, PART, ROWS):
        q = first + start + tl.arange(0, ROWS)
        inside = q[:, None] < Q
        at = q[:, None] * C + c[None, :]
        winner_QC = tl.load(winner_ptr + at, mask=inside, other=0.0).to(tl.float32)
        code_QC = tl.load(code_ptr + at, mask=inside, other=9)
        d_pooled_QC = tl.load(d_pooled_ptr + at, mask=inside, other=0.0).to(tl.float32)
        d_pooled_QC = tl.where(code_QC < 9, d_pooled_QC, 0.0)
        d_bias_QC += d_pooled_QC
        d_scale_QC += d_pooled_QC * (winner_QC - mean_C[None, :])
    return tl.sum(d_bias_QC, axis=0), tl.sum(d_scale_QC, axis=0) * rstd_C


@jit
@no_type_check
def _won(code_ptr, d_pooled_ptr, oy, ox, c, OH: tl.constexpr, OW: tl.constexpr, C: tl.constexpr):
    """The winner's code and the gradient of pooled pixels; past the edge, a window that nothing won."""
    inside = ((oy < OH) & (ox < OW))[:, None]
    at = (oy * OW + ox)[:, None] * C + c[None, :]
    code_QC = tl.load(code_ptr + at, mask=inside, other=9).to(tl.int32)
    return code_QC, tl.load(d_pooled_ptr + at, mask=inside, other=0.0).to(tl.float32)


@jit
@no_type_check
def _inputs(image_ptr, y, x, c, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr):
    inside = ((y < H) & (x < W))[:, None]
    return tl.load(image_ptr + (y * W + x)[:, None] * C + c[None, :], mask=inside, other=0.0)


@jit
@no_type_check
def _store_gradient(
    d_image_ptr, image_QC, d_out_QC, y, x, c, mean_C, scale_C, shift_C, slope_C,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    inside = ((y < H) & (x < W))[:, None]
    centred_QC = image_QC.to(tl.float32) - mean_C[None, :]
    d_image_QC = d_out_QC * scale_C[None, :] - shift_C[None, :] - centred_QC * slope_C[None, :]
    tl.store(d_image_ptr + (y * W + x)[:, None] * C + c[None, :], d_image_QC.to(d_image_ptr.dtype.element_ty), inside)


@jit
@no_type_check
def gradient_pixels(
    image_ptr, code_ptr, d_pooled_ptr, d_image_ptr, q, c, mean_C, scale_C, shift_C, slope_C,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The gradient of the 2x2 inputs that the pooled pixels `q` answer for."""
    # Pooled pixel (oy, ox) answers for inputs (2oy, 2ox) .. (2oy+1, 2ox+1). A window's taps are numbered 3 ky + kx
    # from its corner (2oy-1, 2ox-1), so e.g. the last of the four inputs is tap 8 here, and tap 0 one down and right.
    OH: tl.constexpr = (H + 1) // 2
    OW: tl.constexpr = (W + 1) // 2
    oy, ox = q // OW, q % OW
    y, x = 2 * oy, 2 * ox
    # All loads before the first store: no compiler may move them across it, and they would wait one by one.
    code_QC, d_QC = _won(code_ptr, d_pooled_ptr, oy, ox, c, OH, OW, C)
    code_right_QC, d_right_QC = _won(code_ptr, d_pooled_ptr, oy, ox + 1, c, OH, OW, C)
    code_down_QC, d_down_QC = _won(code_ptr, d_pooled_ptr, oy + 1, ox, c, OH, OW, C)
    code_both_QC, d_both_QC = _won(code_ptr, d_pooled_ptr, oy + 1, ox + 1, c, OH, OW, C)
    image_QC = _inputs(image_ptr, y, x, c, H, W, C)
    image_right_QC = _inputs(image_ptr, y, x + 1, c, H, W, C)
    image_down_QC = _inputs(image_ptr, y + 1, x, c, H, W, C)
    image_both_QC = _inputs(image_ptr, y + 1, x + 1, c, H, W, C)
    d_out_QC = tl.where(code_QC == 4, d_QC, 0.0)
    _store_gradient(d_image_ptr, image_QC, d_out_QC, y, x, c, mean_C, scale_C, shift_C, slope_C, H, W, C)
    d_out_QC = tl.where(code_QC == 5, d_QC, 0.0) + tl.where(code_right_QC == 3, d_right_QC, 0.0)
    _store_gradient(d_image_ptr, image_right_QC, d_out_QC, y, x + 1, c, mean_C, scale_C, shift_C, slope_C, H, W, C)
    d_out_QC = tl.where(code_QC == 7, d_QC, 0.0) + tl.where(code_down_QC == 1, d_down_QC, 0.0)
    _store_gradient(d_image_ptr, image_down_QC, d_out_QC, y + 1, x, c, mean_C, scale_C, shift_C, slope_C, H, W, C)
    d_out_QC = tl.where(code_QC == 8, d_QC, 0.0) + tl.where(code_right_QC == 6, d_right_QC, 0.0)
    d_out_QC += tl.where(code_down_QC == 2, d_down_QC, 0.0) + tl.where(code_both_QC == 0, d_both_QC, 0.0)
    _store_gradient(d_image_ptr, image_both_QC, d_out_QC, y + 1, x + 1, c, mean_C, scale_C, shift_C, slope_C, H, W, C)
