"""How long cells will take, from how long others took."""

from collections.abc import Iterable, Mapping
from typing import Any

from egorecovery.experiments.cell import CellPlan
from egorecovery.training import Recipe


class Timing:
    """Data takes time by the episode, trainings by the sample, evaluations by the rollout, as they did on average."""

    def __init__(self, cards: Iterable[Mapping[str, Any]] = ()) -> None:
        self._episodes, self._data_s = 0, 0.0
        self._samples, self._training_s = 0, 0.0
        self._rollouts, self._evaluation_s = 0, 0.0
        for card in cards:
            batch = card["recipe"]["batch"]
            self.trained(card["training"]["steps"] * (batch["robot"] + batch["human"]), card["training"]["seconds"])
            self.evaluated(2 * card["protocol"]["rollouts"], card["evaluation"]["seconds"])

    def provided(self, episodes: int, seconds: float) -> None:
        self._episodes += episodes
        self._data_s += seconds

    def trained(self, samples: int, seconds: float) -> None:
        self._samples += samples
        self._training_s += seconds

    def evaluated(self, rollouts: int, seconds: float) -> None:
        self._rollouts += rollouts
        self._evaluation_s += seconds

    def data_s(self, episodes: int) -> float | None:
        return self._data_s * episodes / self._episodes if self._episodes else None

    def training_s(self, recipe: Recipe) -> float | None:
        return self._training_s * samples(recipe) / self._samples if self._samples else None

    def evaluation_s(self, plan: CellPlan) -> float | None:
        return self._evaluation_s * 2 * plan.protocol.rollouts / self._rollouts if self._rollouts else None

    def evaluations_s(self, plans: Iterable[CellPlan]) -> float | None:
        each = [self.evaluation_s(plan) for plan in plans]
        return None if None in each else sum((part or 0.0 for part in each), 0.0)


def samples(recipe: Recipe) -> int:
    return recipe.optimisation.steps * recipe.batch.size
