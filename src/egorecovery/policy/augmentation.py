"""From stored frames to one augmented, normalised batch per view.

Everything random is drawn before (`training.batch_sampler`); here it is only applied.
"""

# F frames, V views, B samples, H x W pixels

import torch
from jaxtyping import Float, Float32, Int32, Int64, UInt8
from torch import Tensor


def augmented(
    frames_FVHW3: UInt8[Tensor, "F V H W 3"],
    index_B: Int64[Tensor, " B"],
    colour_B34: Float32[Tensor, "B 3 4"],
    crop_BV5: Int32[Tensor, "B V 5"],
    mean_3: Float32[Tensor, " 3"],
    deviation_3: Float32[Tensor, " 3"],
    dtype: torch.dtype,
) -> Float[Tensor, "V B 3 H W"]:
    """Each view a contiguous channels-last batch.

    A crop is (down, right, top, left, side): output pixel (y, x) shows input pixel (y + down, x + right), the nearest
    one past the edge, except in the square from (top, left) of that side, which shows the mean colour. Colours in 0..1
    become clamp(M rgb + t, 0, 1) with (M | t) the sample's colour matrix, then (rgb - mean) / deviation.
    """
    height, width = frames_FVHW3.shape[2:4]
    batches = []
    for view in range(frames_FVHW3.shape[1]):
        down_B1, right_B1, top_B1, left_B1, side_B1 = crop_BV5[:, view, :, None].unbind(1)
        y_H, x_W = (torch.arange(size, device=crop_BV5.device) for size in (height, width))
        y_BH = (y_H + down_B1).clamp(0, height - 1)
        x_BW = (x_W + right_B1).clamp(0, width - 1)
        hidden_BHW = ((y_H >= top_B1) & (y_H < top_B1 + side_B1))[:, :, None]
        hidden_BHW = hidden_BHW & ((x_W >= left_B1) & (x_W < left_B1 + side_B1))[:, None]
        shown_BHW3 = frames_FVHW3[index_B[:, None, None], view, y_BH[:, :, None], x_BW[:, None, :]].float() / 255
        linear_B133, offset_B113 = colour_B34[:, None, :, :3], colour_B34[:, None, None, :, 3]
        mixed_BHW3 = (shown_BHW3 @ linear_B133.transpose(-1, -2) + offset_B113).clamp(0, 1)
        normed_BHW3 = (mixed_BHW3 - mean_3) / deviation_3
        batches.append(normed_BHW3.masked_fill(hidden_BHW[..., None], 0).to(dtype))
    return torch.stack(batches).permute(0, 1, 4, 2, 3)
