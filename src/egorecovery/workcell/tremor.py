"""Physiological tremor of hands, and the slow sway of unsupported arms."""

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator

from egorecovery.episodes import RATE_HZ
from egorecovery.workcell.trajectory import Style

SWAY_HZ = 0.6
SWAY = 2.0  # amplitude relative to the tremor


class Tremor:
    """Displacement of both hands, tick by tick: two sines per axis with random phases and rates."""

    def __init__(self, style: Style, rng: Generator) -> None:
        rate_hz = np.array([style.tremor_hz, SWAY_HZ])[:, None, None] * rng.uniform(0.85, 1.15, (2, 2, 3))
        self._turn_rad = 2 * np.pi * rate_hz / RATE_HZ
        self._phase_rad = rng.uniform(0, 2 * np.pi, (2, 2, 3))
        self._peak_m = np.sqrt(2) * style.tremor_m * np.array([1.0, SWAY])[:, None, None]  # `tremor_m` is its RMS

    def next_m(self) -> Float[ndarray, "2 3"]:
        self._phase_rad += self._turn_rad
        return (self._peak_m * np.sin(self._phase_rad)).sum(axis=0)
