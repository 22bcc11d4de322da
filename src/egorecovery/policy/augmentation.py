"""From stored frames to one augmented, normalised batch per view.

Everything random is drawn before (`training.batch_sampler`); here it is only applied.
"""

# F frames, V views, B samples, H x W pixels, P pixels of a picture, N of a batch, K numbers in a row of pixels

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
    device = crop_BV5.device
    y_H, x_W = torch.arange(height, device=device), torch.arange(width, device=device)
    # On bytes' own scale, where a picture whose colours stay needs no rounding; rows of W x 3 numbers are long enough
    # for a CPU's vectors, 3 channels are not.
    linear_B33 = colour_B34[..., :3].transpose(1, 2)
    offset_B1K = (255 * colour_B34[..., 3]).repeat(1, width)[:, None]
    scale_K, centre_K = (1 / (255 * deviation_3)).repeat(width), (-mean_3 / deviation_3).repeat(width)
    batches = []
    for view in range(frames_FVHW3.shape[1]):
        down_B1, right_B1, top_B1, left_B1, side_B1 = crop_BV5[:, view, :, None].unbind(1)
        y_BH = (y_H + down_B1).clamp(0, height - 1)
        x_BW = (x_W + right_B1).clamp(0, width - 1)
        rows_BH = torch.arange(len(index_B), device=device)[:, None] * height + y_BH
        pixel_N = (rows_BH[..., None] * width + x_BW[:, None]).flatten()
        shown_B3 = frames_FVHW3[index_B, view].view(-1, 3).index_select(0, pixel_N)
        mixed_BP3 = shown_B3.view(len(index_B), -1, 3).float() @ linear_B33
        mixed_BHK = mixed_BP3.view(len(index_B), height, -1).add_(offset_B1K).clamp_(0, 255)
        normed_BHK = torch.addcmul(centre_K, mixed_BHK, scale_K)
        hidden_BH = (y_H >= top_B1) & (y_H < top_B1 + side_B1)
        hidden_BW = (x_W >= left_B1) & (x_W < left_B1 + side_B1)
        hidden_BHK = hidden_BH[..., None] & hidden_BW.repeat_interleave(3, dim=1)[:, None]
        batches.append(normed_BHK.masked_fill_(hidden_BHK, 0).to(dtype).view(len(index_B), height, width, 3))
    return torch.stack(batches).permute(0, 1, 4, 2, 3)
