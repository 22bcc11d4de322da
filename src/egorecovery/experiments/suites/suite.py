"""A suite: conditions on tasks, and the claims that they test. One file of this folder each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from egorecovery.episodes import PAPER_TASKS
from egorecovery.experiments.cell import Cell
from egorecovery.experiments.claims import Claim
from egorecovery.experiments.condition import Condition

ALL_TASKS = tuple(PAPER_TASKS)
TWO_TASKS = ("cup_brush", "round_disk")  # of the authors' later tables
# How a report shows a suite: a table of methods, curves over amounts of data, or variants of the full method.
Layout = Literal["methods", "curves", "variants"]


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
