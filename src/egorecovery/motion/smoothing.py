"""Median, then Savitzky-Golay: the first removes what is left of spikes, the second noise without flattening peaks."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.ndimage import median_filter
from scipy.signal import savgol_filter

from egorecovery.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class Smoothing:
    """Window lengths in frames at the tracker's rate. The paper names the filters, not their sizes."""

    median: int = 5
    window: int = 9  # 0.36 s at 25 Hz: below the duration of a corrective burst
    order: int = 2

    def __post_init__(self) -> None:
        if self.median % 2 == 0 or self.window % 2 == 0 or not 0 <= self.order < self.window:
            raise RecipeError(f"smoothing windows must be odd and longer than the order, got {self}")


def smooth(values: Float[ndarray, "T C"], how: Smoothing | None = None) -> Float[ndarray, "T C"]:
    """Each channel by itself. A track shorter than a window gets the longest odd window that fits."""
    how = how or Smoothing()
    longest = len(values) - 1 + len(values) % 2
    median, window = min(how.median, longest), min(how.window, longest)
    calm = median_filter(values, size=(median, 1), mode="nearest")
    if window <= how.order:
        return calm
    return np.asarray(savgol_filter(calm, window, how.order, axis=0, mode="interp"))


def smooth_rotations(quaternions: Float[ndarray, "T 4"], how: Smoothing | None = None) -> Float[ndarray, "T 4"]:
    """The same filters on orientations (x y z w), unwrapped first and re-wrapped after.

    Unwrapping happens on quaternions (q and -q are one orientation; signs are chosen so that neighbours agree):
    Euler angles, once unwrapped, would still tear at gimbal lock, which a hand pointing down passes through.
    """
    agree = np.sign(np.einsum("tq,tq->t", quaternions[1:], quaternions[:-1]))
    signs = np.concatenate([[1.0], np.cumprod(np.where(agree == 0, 1.0, agree))])
    smoothed = smooth(quaternions * signs[:, None], how)
    return smoothed / np.linalg.norm(smoothed, axis=1, keepdims=True)
