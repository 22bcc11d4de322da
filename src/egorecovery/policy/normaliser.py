"""Statistics of states and actions, per embodiment and dimension: fitted on the training pool, kept in checkpoints."""

# T frames, A dimensions

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Float32
from numpy import ndarray

from egorecovery.episodes import Embodiment
from egorecovery.errors import RecipeError
from egorecovery.intent import PoolStatistics
from egorecovery.kinematics.action_space import ActionSpace, action_dim, anchored_dims

Normalisation = Literal["zscore", "quantile"]
# What hardly moves is not to be blown up: below this a spread counts as this much. Joint encoders are exact; a hand
# reconstructed from pictures trembles by millimetres and degrees, and a policy that is asked to predict the tremor of
# a resting hand learns nothing else (docs/log.md): x y z in metres, three angles in radians, aperture, per hand.
LEAST_SPREAD: dict[tuple[ActionSpace, Embodiment], ndarray] = {
    ("joint", Embodiment.ROBOT): np.full(action_dim("joint"), 0.01),
    ("joint", Embodiment.HUMAN): np.tile([0.02, 0.02, 0.02, 0.1, 0.1, 0.1, 0.1], 2),
    # x y z in metres, two unit axes, opening, per arm or hand: one scale for both embodiments.
    ("effector", Embodiment.ROBOT): np.tile([0.02] * 3 + [0.1] * 6 + [0.1], 2),
    ("effector", Embodiment.HUMAN): np.tile([0.02] * 3 + [0.1] * 6 + [0.1], 2),
}


@dataclass(frozen=True, eq=False)
class Normaliser:
    """(value - centre) / spread; quantile maps the 1st..99th percentile to -1..1, zscore mean and deviation."""

    centre_A: Float32[ndarray, " A"]
    spread_A: Float32[ndarray, " A"]

    @classmethod
    def fit(
        cls, values_TA: Float[ndarray, "T A"], how: Normalisation, embodiment: Embodiment, space: ActionSpace = "joint"
    ) -> "Normaliser":
        if not len(values_TA):
            raise RecipeError("no frame to take state and action statistics from")
        if how == "quantile":
            low_A, high_A = np.quantile(values_TA, [0.01, 0.99], axis=0)
            centre_A, spread_A = (low_A + high_A) / 2, (high_A - low_A) / 2
        else:
            centre_A, spread_A = values_TA.mean(axis=0, dtype=np.float64), values_TA.std(axis=0, dtype=np.float64)
        spread_A = np.maximum(spread_A, LEAST_SPREAD[space, embodiment])
        return cls(centre_A.astype(np.float32), spread_A.astype(np.float32))

    def taking(self, other: "Normaliser", dims_A: Bool[ndarray, " A"]) -> "Normaliser":
        """This one, with some dimensions of another."""
        return Normaliser(
            np.where(dims_A, other.centre_A, self.centre_A), np.where(dims_A, other.spread_A, self.spread_A)
        )

    def normalise(self, values: Float32[ndarray, "*batch A"]) -> Float32[ndarray, "*batch A"]:
        return (values - self.centre_A) / self.spread_A

    def restore(self, normalised: Float32[ndarray, "*batch A"]) -> Float32[ndarray, "*batch A"]:
        return normalised * self.spread_A + self.centre_A


@dataclass(frozen=True, kw_only=True, eq=False)
class Statistics:
    """All that a pool fixes and a checkpoint carries."""

    state: dict[Embodiment, Normaliser]
    action: dict[Embodiment, Normaliser]
    intent: PoolStatistics | None  # None for a pool without recovery episodes
    speed_ratio: float = 1.0  # how many times longer the robot takes than a person: people's chunks are stretched by it

    def anchor(
        self, embodiment: Embodiment, state: Float32[ndarray, "*batch A"], space: ActionSpace = "joint"
    ) -> Float32[ndarray, "*batch A"]:
        """What relative actions are counted from, normalised like them; 0 for numbers that stay absolute."""
        return np.where(anchored_dims(space), self.action[embodiment].normalise(state), np.float32(0))
