"""How long things will take, from how long others took."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from egorecovery.evaluation.protocol import REGIMES
from egorecovery.experiments.cell import CellPlan
from egorecovery.experiments.events import Stage
from egorecovery.training import Recipe


@dataclass
class Pace:
    """Seconds for so many; nobody knows before there was one."""

    count: int = 0
    seconds: float = 0.0

    def add(self, count: int, seconds: float) -> None:
        self.count += count
        self.seconds += seconds

    def of(self, count: int) -> float | None:
        return self.seconds * count / self.count if self.count else None


class Timing:
    """Data takes time by the episode, trainings by the sample, evaluations by the rollout, as on average.

    Things take what others of their task, data of their store, did; the first of a task what those of others did.
    """

    def __init__(self, cards: Iterable[Mapping[str, Any]] = ()) -> None:
        self._paces: dict[tuple[Stage, str], Pace] = {}
        for card in cards:
            task, batch = card["task"], card["recipe"]["batch"]
            seen = card["training"]["steps"] * (batch["robot"] + batch["human"])
            self.took("training", task, seen, card["training"]["seconds"])
            played = len(REGIMES) * card["protocol"]["rollouts"]
            self.took("evaluation", task, played, card["evaluation"]["seconds"])

    def took(self, stage: Stage, where: str, count: int, seconds: float) -> None:
        """So many episodes, samples, rollouts, ... of a task or store."""
        if count:
            self._paces.setdefault((stage, where), Pace()).add(count, seconds)

    def add(self, other: "Timing", *, weight: int = 1, slower: float = 1.0) -> None:
        for stage, where, pace in other.paces():
            self.took(stage, where, weight * pace.count, weight * slower * pace.seconds)

    def paces(self) -> Iterator[tuple[Stage, str, Pace]]:
        for (stage, where), pace in self._paces.items():
            yield stage, where, pace

    def seconds(self, stage: Stage, where: str, count: int) -> float | None:
        if (stage, where) in self._paces:
            return self._paces[stage, where].of(count)
        everywhere = Pace()
        for other, _, pace in self.paces():
            if other == stage:
                everywhere.add(pace.count, pace.seconds)
        return everywhere.of(count)

    def training_s(self, recipe: Recipe) -> float | None:
        return self.seconds("training", recipe.task, samples(recipe))

    def evaluation_s(self, plan: CellPlan) -> float | None:
        return self.seconds("evaluation", plan.cell.task, rollouts(plan))

    def evaluations_s(self, plans: Iterable[CellPlan]) -> float | None:
        each = [self.evaluation_s(plan) for plan in plans]
        return None if None in each else sum((part or 0.0 for part in each), 0.0)


def samples(recipe: Recipe) -> int:
    return recipe.optimisation.steps * recipe.batch.size


def rollouts(plan: CellPlan) -> int:
    """From both kinds of starts."""
    return len(REGIMES) * plan.protocol.rollouts
