"""Eq. 1: the corrective intent target, and where it is defined.

T frames, P phase points, W windows, L points of a window, A active effectors, K coefficients, X xyz.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from numpy.lib.stride_tricks import sliding_window_view
from scipy.fft import dct

from egorecovery.errors import EpisodeError, RecipeError
from egorecovery.motion import PhaseGrid

# What a policy is to know of the window ahead: how much moves, or (the paper's comparison) where everything goes.
IntentTarget = Literal["dct_magnitude", "raw_trajectory"]


@dataclass(frozen=True, kw_only=True)
class IntentSpec:
    """The four numbers that define the target (appendix, intent target)."""

    phases: int = 200  # P: every episode is resampled to this many phase points
    window: int = 16  # L: phase points ahead = 8% of the episode, so seconds vary with its length
    coefficients: int = 4  # K: low DCT frequencies kept; a 4-D target with one active effector
    still_m: float = 0.01  # peak-to-peak motion below this is "stationary" and masked out

    def __post_init__(self) -> None:
        if not 1 <= self.coefficients <= self.window <= self.phases:
            raise RecipeError(
                f"1 <= coefficients <= window <= phases must hold, "
                f"got {self.coefficients}, {self.window}, {self.phases}"
            )
        if not self.still_m >= 0:
            raise RecipeError(f"still_m is a distance in metres, got {self.still_m}")

    def dimensions(self, target: IntentTarget) -> int:
        """Of one active effector's target."""
        return self.coefficients if target == "dct_magnitude" else 3 * (self.window - 1)

    @property
    def grid(self) -> PhaseGrid:
        return PhaseGrid(points=self.phases, window=self.window)


def targets(
    effector_m: Float[ndarray, "T E 3"], active: tuple[int, ...], scale_m: float, spec: IntentSpec | None = None
) -> tuple[Float[ndarray, "T KA"], Bool[ndarray, " T"]]:
    """y_t for every frame, and `gt_intent_valid`: the first of the two masks whose conjunction is m_t.

    Effectors that are not `active` are ignored. Values are 0 where no window exists; NaN frames (padding, lost
    tracking) invalidate every window that touches them.
    """
    if not (np.isfinite(scale_m) and scale_m > 0):
        raise RecipeError(f"the embodiment scale must be a positive length in metres, got {scale_m}")
    found = future_windows(effector_m, active, spec or IntentSpec())
    return found.intent_m / scale_m, found.valid


@dataclass(frozen=True, kw_only=True, eq=False)
class FutureWindows:
    """The window ahead of every frame. Lengths are in metres: dividing `intent_m` by s_d gives Eq. 1."""

    intent_m: Float[ndarray, "T C"]
    peak_to_peak_m: Float[ndarray, " T"]  # of the most moving active effector
    present: Bool[ndarray, " T"]  # the frame itself and its whole window have motion
    fits: Bool[ndarray, " T"]  # the window ends inside the episode
    moves: Bool[ndarray, " T"]  # it is not stationary

    @property
    def valid(self) -> Bool[ndarray, " T"]:
        return self.present & self.fits & self.moves


def future_windows(
    effector_m: Float[ndarray, "T E 3"],
    active: tuple[int, ...],
    spec: IntentSpec,
    target: IntentTarget = "dct_magnitude",
) -> FutureWindows:
    """One episode at once: the target of all P - L + 1 windows of the phase grid, then looked up per frame."""
    _require_active(active, effector_m.shape[1])
    n_frames = len(effector_m)
    path_PAX = spec.grid.resample(effector_m[:, list(active)])
    path_WLAX = np.moveaxis(sliding_window_view(path_PAX, spec.window, axis=0), -1, 1)
    if target == "dct_magnitude":
        intent_WC = corrective_intent(path_WLAX, dct_basis(spec.coefficients, spec.window))
    else:
        intent_WC = raw_trajectory(path_WLAX)
    peak_to_peak_W = np.linalg.norm(np.ptp(path_WLAX, axis=1), axis=-1).max(axis=-1)

    first_point_T = spec.grid.phase_index(n_frames)
    fits_T = (first_point_T + spec.window <= spec.phases) & (n_frames >= spec.window)
    window_T = np.minimum(first_point_T, len(path_WLAX) - 1)
    frame_known_T = np.isfinite(effector_m[:, list(active)]).all(axis=(1, 2))
    present_T = frame_known_T & (np.isfinite(peak_to_peak_W)[window_T] | ~fits_T)
    usable_T = present_T & fits_T
    peak_to_peak_T = np.where(usable_T, peak_to_peak_W[window_T], 0.0)
    return FutureWindows(
        intent_m=np.where(usable_T[:, None], intent_WC[window_T], 0.0),
        peak_to_peak_m=peak_to_peak_T,
        present=present_T,
        fits=fits_T,
        moves=peak_to_peak_T >= spec.still_m,
    )


def corrective_intent(path_WLAX: Float[ndarray, "W L A 3"], basis_KL: Float[ndarray, "K L"]) -> Float[ndarray, "W AK"]:
    """Eq. 1 at s_d = 1 m: how much correction remains, by frequency; direction is dropped on purpose."""
    moved_WLAX = path_WLAX - path_WLAX[:, :1]
    spectrum_WAKX = np.einsum("kl,wlax->wakx", basis_KL, moved_WLAX, optimize=True)
    return np.linalg.norm(spectrum_WAKX, axis=-1).reshape(len(path_WLAX), -1)


def raw_trajectory(path_WLAX: Float[ndarray, "W L A 3"]) -> Float[ndarray, "W LAX"]:
    """Where the effectors go from here, point by point, direction and all. The first point is always here."""
    return (path_WLAX - path_WLAX[:, :1])[:, 1:].reshape(len(path_WLAX), -1)


@cache
def dct_basis(coefficients: int, window: int) -> Float[ndarray, "K L"]:
    """C_K: the first K rows of the orthonormal DCT-II, from the constant one on."""
    return np.asarray(dct(np.eye(window), type=2, norm="ortho", axis=0))[:coefficients]


def _require_active(active: tuple[int, ...], effectors: int) -> None:
    if not active or len(set(active)) != len(active) or not all(0 <= index < effectors for index in active):
        raise EpisodeError(f"active effectors must be different indices in 0..{effectors - 1}, got {active}")
