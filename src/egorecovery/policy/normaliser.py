"""Statistics of states and actions, per embodiment and dimension: fitted on the training pool, kept in checkpoints."""

# T frames, A dimensions

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Float32
from numpy import ndarray

from egorecovery.episodes import Embodiment
from egorecovery.episodes.vocabulary import STATE_DIM
from egorecovery.errors import RecipeError
from egorecovery.intent import PoolStatistics

Normalisation = Literal["zscore", "quantile"]
# What hardly moves is not to be blown up: below this a spread counts as this much. Joint encoders are exact; a hand
# reconstructed from pictures trembles by millimetres and degrees, and a policy that is asked to predict the tremor of
# a resting hand learns nothing else (docs/log.md): x y z in metres, three angles in radians, aperture, per hand.
LEAST_SPREAD = {
    Embodiment.ROBOT: np.full(STATE_DIM, 0.01),
    Embodiment.HUMAN: np.tile([0.02, 0.02, 0.02, 0.1, 0.1, 0.1, 0.1], STATE_DIM // 7),
}

IS_GRIPPER_A = np.arange(STATE_DIM) % 7 == 6  # or the aperture of a hand


@dataclass(frozen=True, eq=False)
class Normaliser:
    """(value - centre) / spread; quantile maps the 1st..99th percentile to -1..1, zscore mean and deviation."""

    centre_A: Float32[ndarray, " A"]
    spread_A: Float32[ndarray, " A"]

    @classmethod
    def fit(cls, values_TA: Float[ndarray, "T A"], how: Normalisation, embodiment: Embodiment) -> "Normaliser":
        if not len(values_TA):
            raise RecipeError("no frame to take state and action statistics from")
        if how == "quantile":
            low_A, high_A = np.quantile(values_TA, [0.01, 0.99], axis=0)
            centre_A, spread_A = (low_A + high_A) / 2, (high_A - low_A) / 2
        else:
            centre_A, spread_A = values_TA.mean(axis=0, dtype=np.float64), values_TA.std(axis=0, dtype=np.float64)
        return cls(centre_A.astype(np.float32), np.maximum(spread_A, LEAST_SPREAD[embodiment]).astype(np.float32))

    def normalise(self, values: Float32[ndarray, "*batch A"]) -> Float32[ndarray, "*batch A"]:
        return (values - self.centre_A) / self.spread_A

    def restore(self, normalised: Float32[ndarray, "*batch A"]) -> Float32[ndarray, "*batch A"]:
        return normalised * self.spread_A + self.centre_A

    def to_json(self) -> dict[str, list[float]]:
        return {"centre": self.centre_A.tolist(), "spread": self.spread_A.tolist()}

    @classmethod
    def from_json(cls, record: dict[str, list[float]]) -> "Normaliser":
        return cls(np.asarray(record["centre"], np.float32), np.asarray(record["spread"], np.float32))


@dataclass(frozen=True, kw_only=True, eq=False)
class Statistics:
    """All that a pool fixes and a checkpoint carries."""

    state: dict[Embodiment, Normaliser]
    action: dict[Embodiment, Normaliser]
    intent: PoolStatistics | None  # None for a pool without recovery episodes

    def anchor(self, embodiment: Embodiment, state: Float32[ndarray, "*batch A"]) -> Float32[ndarray, "*batch A"]:
        """What relative actions are counted from, normalised like them: the state, but 0 for grippers and fingers."""
        return np.where(IS_GRIPPER_A, np.float32(0), self.action[embodiment].normalise(state))
