"""Pictures as the network wants them: centred and scaled as the paper's backbone was trained, on ImageNet."""

# B observations, V views, S picture side

import numpy as np
import torch
from torch import Tensor

PIXEL_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
PIXEL_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


def plain_images(pictures_BVSS3: Tensor, precision: torch.dtype) -> Tensor:
    """Without augmentation: (V, B, 3, S, S), channels last."""
    colours = [  # one by one: a graph cannot be captured while a constant array travels to the device
        (pictures_BVSS3[..., index].float() / 255 - float(PIXEL_MEAN[index])) / float(PIXEL_DEVIATION[index])
        for index in range(3)
    ]
    scaled_BVSS3 = torch.stack(colours, dim=-1)
    return scaled_BVSS3.to(precision).transpose(0, 1).contiguous().movedim(-1, 2)
