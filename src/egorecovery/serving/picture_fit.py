"""How a robot's picture becomes the square that the policy sees."""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from egorecovery.errors import ServingError
from egorecovery.serving.metadata import Fit


@dataclass(frozen=True)
class PictureFit:
    """letterbox keeps all of the picture, crop the square in its middle; exact takes pictures of that size only."""

    image_size: int
    fit: Fit = "exact"

    def apply(self, picture_HW3: np.ndarray) -> np.ndarray:
        height, width = picture_HW3.shape[:2]
        side = self.image_size
        if (height, width) == (side, side):
            return picture_HW3
        if self.fit == "exact":
            raise ServingError(
                f"the picture has {width} x {height} pixels, {side} x {side} are wanted; send that size, or start the "
                "server with --fit letterbox or --fit crop"
            )
        image = Image.fromarray(np.ascontiguousarray(picture_HW3))
        if self.fit == "crop":
            shorter = min(height, width)
            left, top = (width - shorter) // 2, (height - shorter) // 2
            box = (left, top, left + shorter, top + shorter)
            return np.asarray(image.resize((side, side), Image.Resampling.BILINEAR, box=box))
        scale = side / max(height, width)
        into_width, into_height = max(1, round(width * scale)), max(1, round(height * scale))
        square = Image.new("RGB", (side, side))
        smaller = image.resize((into_width, into_height), Image.Resampling.BILINEAR)
        square.paste(smaller, ((side - into_width) // 2, (side - into_height) // 2))
        return np.asarray(square)
