r"""Dimension-normalised sliced Wasserstein-2 distance: comparable between spaces of different dimension.

Sliced W2 is the root mean square, over directions of the unit sphere, of the one-dimensional W2 between the projected
samples. A shift by a vector delta is seen along theta as theta . delta, and E[(theta . delta)^2] = |delta|^2 / d: this
is the 1/sqrt(d) dependence of which the paper speaks. Multiplying by sqrt(d) removes it:

    W2 = sqrt(d * mean_theta W2_theta^2),

so two gaussians of equal covariance whose means lie |delta| apart have W2 = |delta| in any dimension (a shift of one
sigma along one axis of a 256-D space reads 1 sigma, not 1/16 of it), and a projection that preserves lengths, such as
Johnson and Lindenstrauss's, leaves it unchanged in expectation of its square.
"""

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from numpy.random import Generator

DIRECTIONS = 512  # two complete frames in 256-D
_BLOCK = 256  # directions projected at once: 40 MB for 20,000 frames


def random_frames(dimensions: int, rng: Generator, directions: int = DIRECTIONS) -> Float[ndarray, "F D D"]:
    """Uniform directions, drawn as complete orthonormal frames (rows), at least `directions` in all.

    Over one frame the squares of theta . delta sum to |delta|^2 exactly, so a pure shift has no sampling error.
    """
    count = max(1, -(-directions // dimensions))
    frames, upper = np.linalg.qr(rng.normal(size=(count, dimensions, dimensions)))
    # QR alone is not uniform over rotations; fixing the signs of R's diagonal makes it so.
    signs = np.sign(np.diagonal(upper, axis1=1, axis2=2))
    return np.swapaxes(frames * signs[:, None, :], 1, 2)


def sliced_w2(first: Float[ndarray, "N D"], second: Float[ndarray, "M D"], frames: Float[ndarray, "F D D"]) -> float:
    """Dimension-normalised sliced W2 of two samples, which may differ in size, along the given frames."""
    one, other, width = _shared_levels(len(first), len(second))
    directions = frames.reshape(-1, first.shape[1])
    total = 0.0
    for block in np.split(directions, range(_BLOCK, len(directions), _BLOCK)):
        gap = np.sort(block @ first.T)[:, one] - np.sort(block @ second.T)[:, other]
        total += float((np.square(gap) @ width).sum())
    return float(np.sqrt(total / len(frames)))  # d x the mean over d F directions


def _shared_levels(first: int, second: int) -> tuple[Int[ndarray, " Q"], Int[ndarray, " Q"], Float[ndarray, " Q"]]:
    """Both quantile functions are steps; between two levels where either one steps, both are constant."""
    # In whole numbers over first x second, so that levels which coincide do so exactly.
    levels = np.union1d(np.arange(first + 1) * second, np.arange(second + 1) * first)
    return levels[:-1] // second, levels[:-1] // first, np.diff(levels) / (first * second)
