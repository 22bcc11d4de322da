"""The phase grid: every episode, whatever its length, on the same number of points.

P phase points, L window points, T frames, A effectors, X xyz.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from egorecovery.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class PhaseGrid:
    """How an episode is cut into phase points and future windows (appendix, intent target)."""

    points: int = 200  # P
    window: int = 16  # L: 8% of the episode, so its seconds vary with the episode's length

    def __post_init__(self) -> None:
        if not 1 <= self.window <= self.points:
            raise RecipeError(f"window must lie in 1..points ({self.points}), got {self.window}")

    def phase_index(self, n_frames: int) -> Int[ndarray, " T"]:
        """The phase point nearest to each frame: round(t (P-1)/(T-1)), halves to even."""
        if n_frames == 1:
            return np.zeros(1, np.int64)
        return np.rint(np.arange(n_frames) * (self.points - 1) / (n_frames - 1)).astype(np.int64)

    def resample(self, path_TAX: Float[ndarray, " T *rest"]) -> Float[ndarray, " P *rest"]:
        """Linear interpolation onto the phase points; NaN frames make the points beside them NaN."""
        position = np.linspace(0, len(path_TAX) - 1, self.points)
        before = np.minimum(position.astype(np.int64), max(len(path_TAX) - 2, 0))
        after = np.minimum(before + 1, len(path_TAX) - 1)
        weight = (position - before).reshape(-1, *(1,) * (path_TAX.ndim - 1))
        path = path_TAX.astype(np.float64)
        return path[before] + (path[after] - path[before]) * weight  # exact where nothing moves
