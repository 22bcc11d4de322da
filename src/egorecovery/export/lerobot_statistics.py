"""Statistics as LeRobot keeps them, per episode and of all: min, max, mean, std, count and five quantiles."""

# N samples, D numbers of a feature, C colours

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float, Int64, UInt8
from numpy import ndarray

QUANTILES = (0.01, 0.10, 0.50, 0.90, 0.99)
LEVELS = 256
ABOUT_PX = 120  # pictures are thinned to about that many rows: colours of neighbours are alike

Statistics = dict[str, list]


def of_numbers(values: Float[ndarray, "N D"]) -> Statistics:
    quantiles = np.quantile(values, QUANTILES, axis=0)
    moments = {
        "min": values.min(axis=0),
        "max": values.max(axis=0),
        "mean": values.mean(axis=0),
        "std": values.std(axis=0),
    }
    return {
        **{name: value.tolist() for name, value in moments.items()},
        "count": [len(values)],
        **{_name(q): value.tolist() for q, value in zip(QUANTILES, quantiles, strict=True)},
    }


def levels(pictures: Iterable[UInt8[ndarray, "H W 3"]]) -> tuple[Int64[ndarray, "3 256"], int]:
    """How often each level of each colour occurs, and in how many pictures. Counts of episodes may be added up."""
    counts, number = np.zeros((3, LEVELS), np.int64), 0
    for picture in pictures:
        step = max(1, picture.shape[0] // ABOUT_PX)
        for colour in range(3):
            counts[colour] += np.bincount(picture[::step, ::step, colour].ravel(), minlength=LEVELS)
        number += 1
    return counts, number


def of_levels(counts: Int64[ndarray, "3 256"], number: int) -> Statistics:
    """Colours from 0 to 1, in the shape (3, 1, 1)."""
    level = np.arange(LEVELS) / (LEVELS - 1)
    total = counts.sum(axis=1)
    mean = counts @ level / total
    below = np.cumsum(counts, axis=1)
    moments = {
        "min": level[np.argmax(counts > 0, axis=1)],
        "max": level[LEVELS - 1 - np.argmax(counts[:, ::-1] > 0, axis=1)],
        "mean": mean,
        "std": np.sqrt(np.maximum(counts @ level**2 / total - mean**2, 0)),
    }
    quantiles = {_name(q): level[np.argmax(below >= q * total[:, None], axis=1)] for q in QUANTILES}
    shaped = {name: np.asarray(value).reshape(3, 1, 1).tolist() for name, value in (moments | quantiles).items()}
    return {**shaped, "count": [number]}


def _name(quantile: float) -> str:
    return f"q{round(100 * quantile):02d}"
