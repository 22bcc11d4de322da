"""A suite: conditions on tasks, and the claims that they test. One file of this folder each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from egorecovery.episodes import PAPER_TASKS
from egorecovery.evaluation.protocol import Regime
from egorecovery.experiments.cell import Cell
from egorecovery.experiments.condition import FULL, Condition
from egorecovery.training import Budget

ALL_TASKS = tuple(PAPER_TASKS)
TWO_TASKS = ("cup_brush", "round_disk")  # of the authors' later tables
# How a report shows a suite: a table of methods, curves over amounts of data, or variants of the full method.
Layout = Literal["methods", "curves", "variants"]
Side = tuple[Condition, ...]  # of a comparison: one condition, or a curve, one method at several amounts of data


@dataclass(frozen=True)
class Claim:
    """Stated beforehand: `better` succeeds more often than `worse`. Without `worse`: it stays below the ceiling.

    A side of several conditions is a curve, of which the average counts. Two curves are compared amount by amount.
    """

    id: str
    says: str
    worse: Side
    better: Side
    regime: Regime = "recovery"

    def __post_init__(self) -> None:
        assert not self.by_amount or len(self.worse) == len(self.better)

    @property
    def by_amount(self) -> bool:
        return len(self.worse) > 1 and len(self.better) > 1

    @property
    def amounts(self) -> int:
        """Along its curves; 1 where there are none."""
        return max(len(self.worse), len(self.better))


@dataclass(frozen=True, kw_only=True)
class Suite:
    name: str
    conditions: tuple[Condition, ...]
    title: str = ""
    claims: tuple[Claim, ...] = ()
    tasks: tuple[str, ...] = ALL_TASKS  # unless others are asked for
    layout: Layout = "methods"
    of_paper: bool = False  # whether it is one of the paper's tables
    by_budget: bool = False  # whether its rows and claims are those of exactly their amounts of data
    shares_stores_with: tuple[str, ...] = ()  # suites for which its stores are large enough too, so that they share

    def cells(self, tasks: Sequence[str] | None = None, seeds: Sequence[int] = (0,)) -> list[Cell]:
        """All of the first seed before the next: a run that is out of time has a whole table of fewer seeds."""
        return [
            Cell(suite=self.name, task=task, seed=seed, **vars(condition))
            for seed in seeds
            for task in (self.tasks if tasks is None else tasks)
            for condition in self.conditions
        ]


def side(method: str, *budgets: Budget, **settings: Any) -> Side:
    """A method at one amount of data, the paper's main one if none is named, or at several."""
    return tuple(Condition(method=method, budget=budget, **settings) for budget in budgets or (FULL,))
