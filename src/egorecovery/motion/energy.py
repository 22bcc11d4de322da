"""How much is moving: the curve an annotator sees under the video."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.ndimage import gaussian_filter1d

SMOOTHING_S = 0.12  # of the speed: shorter than a pause, longer than tremor


def motion_energy(
    effector_m: Float[ndarray, "T A 3"], rate_hz: float, smoothing_s: float = SMOOTHING_S
) -> Float[ndarray, " T"]:
    """Squared speed (m^2/s^2), summed over the effectors given and smoothed."""
    if len(effector_m) < 2:
        return np.zeros(len(effector_m))
    velocity = np.gradient(effector_m.astype(np.float64), 1 / rate_hz, axis=0)
    return gaussian_filter1d((velocity**2).sum(axis=(1, 2)), smoothing_s * rate_hz, mode="nearest")
