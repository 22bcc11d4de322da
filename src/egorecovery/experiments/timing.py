"""How long cells will take, from how long others took."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from egorecovery.experiments.cell import CellPlan
from egorecovery.training import Recipe


@dataclass
class _Pace:
    """Seconds for so many; nobody knows before there was one."""

    count: int = 0
    seconds: float = 0.0

    def add(self, count: int, seconds: float) -> None:
        self.count += count
        self.seconds += seconds

    def of(self, count: int) -> float | None:
        return self.seconds * count / self.count if self.count else None


class Timing:
    """Data takes time by the episode, trainings by the sample, evaluations by the task's rollout, as on average."""

    def __init__(self, cards: Iterable[Mapping[str, Any]] = ()) -> None:
        self._data, self._training, self._rollouts = _Pace(), _Pace(), _Pace()
        self._of_task: dict[str, _Pace] = {}
        for card in cards:
            batch = card["recipe"]["batch"]
            self.trained(card["training"]["steps"] * (batch["robot"] + batch["human"]), card["training"]["seconds"])
            self.evaluated(card["task"], 2 * card["protocol"]["rollouts"], card["evaluation"]["seconds"])

    def provided(self, episodes: int, seconds: float) -> None:
        self._data.add(episodes, seconds)

    def trained(self, samples: int, seconds: float) -> None:
        self._training.add(samples, seconds)

    def evaluated(self, task: str, rollouts: int, seconds: float) -> None:
        self._rollouts.add(rollouts, seconds)
        self._of_task.setdefault(task, _Pace()).add(rollouts, seconds)

    def data_s(self, episodes: int) -> float | None:
        return self._data.of(episodes)

    def training_s(self, recipe: Recipe) -> float | None:
        return self._training.of(samples(recipe))

    def evaluation_s(self, plan: CellPlan) -> float | None:
        """As rollouts of the task took; of a task that had none yet, as those of others did."""
        return self._of_task.get(plan.cell.task, self._rollouts).of(2 * plan.protocol.rollouts)

    def evaluations_s(self, plans: Iterable[CellPlan]) -> float | None:
        each = [self.evaluation_s(plan) for plan in plans]
        return None if None in each else sum((part or 0.0 for part in each), 0.0)


def samples(recipe: Recipe) -> int:
    return recipe.optimisation.steps * recipe.batch.size
