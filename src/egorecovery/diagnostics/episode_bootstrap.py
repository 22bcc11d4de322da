"""Frames of one episode resemble each other, so chance is always measured by drawing whole episodes."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from numpy.random import Generator

from egorecovery.errors import EgoRecoveryError
from egorecovery.randomness import generator_for

RESAMPLES = 1000  # paper, mechanism analysis: n_boot = 1,000 ...
SEED = 42  # ... with seed 42


class DiagnosticError(EgoRecoveryError):
    """Arrays from which a diagnostic cannot be computed."""


def episode_index(episode: Int[ndarray, " N"] | None, frames: int, whose: str) -> Int[ndarray, " N"]:
    """Episodes numbered from 0 without gaps; without episodes, every frame stands for itself."""
    if frames < 1:
        raise DiagnosticError(f"no frames of {whose}: nothing to compare")
    if episode is None:
        return np.arange(frames)
    if len(episode) != frames:
        raise DiagnosticError(f"{whose}: {frames} frames but {len(episode)} episode numbers; give one per frame")
    return np.unique(episode, return_inverse=True)[1]


def times_drawn(groups: int, resamples: int, rng: Generator) -> Int[ndarray, "B G"]:
    """How often each of `groups` things is drawn in each bootstrap sample: every row sums to `groups`."""
    draws = rng.integers(0, groups, (resamples, groups)) + groups * np.arange(resamples)[:, None]
    return np.bincount(draws.ravel(), minlength=resamples * groups).reshape(resamples, groups)


def percentile_interval(samples: Float[ndarray, "B ..."]) -> Float[ndarray, "2 ..."]:
    """The central 95% of bootstrap samples."""
    return np.percentile(samples, [2.5, 97.5], axis=0)


def chosen_episodes(names: Sequence[str], count: int, *, seed: int = SEED) -> list[str]:
    """Which episodes a figure shows: drawn from the names alone, so that nobody picks the pretty ones."""
    if count > len(names):
        raise DiagnosticError(f"{count} episodes are wanted, but only {len(names)} are there")
    ordered = sorted(names)
    drawn = generator_for(seed=seed, purpose="chosen episodes").permutation(len(ordered))[:count]
    return [ordered[index] for index in sorted(drawn)]
