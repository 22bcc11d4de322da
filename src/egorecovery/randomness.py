"""Random generators named by purpose: the same name gives the same numbers, whatever was drawn before."""

import hashlib

import numpy as np


def generator_for(*, seed: int, purpose: str, **where: str | int) -> np.random.Generator:
    """A generator of its own for each use, such as `generator_for(seed=0, purpose="frame sampling", step=7000)`.

    Nothing is shared between uses, so work can be split, skipped, repeated or resumed without changing its results.
    """
    name = "/".join([str(seed), purpose, *(f"{key}={value}" for key, value in sorted(where.items()))])
    entropy = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "little")
    return np.random.default_rng(entropy)
