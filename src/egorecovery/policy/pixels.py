"""What a picture is centred and scaled by, as the paper's backbone wants it: ImageNet's mean and deviation."""

import numpy as np

PIXEL_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
PIXEL_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
