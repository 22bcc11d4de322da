"""Whether cells will be done in the time there is."""

import time
from collections.abc import Sequence

from egorecovery.experiments.cell import CellPlan
from egorecovery.experiments.plan import Training
from egorecovery.experiments.resources import Resources
from egorecovery.experiments.timing import Timing
from egorecovery.training import Recipe


class OutOfTime(Exception):
    """Not an error: the time that was given is used up; what was reached is kept."""


class Forecast:
    """None stands for a time that nobody knows, as long as there was not one training and one evaluation."""

    def __init__(self, timing: Timing, resources: Resources, deadline_s: float | None) -> None:
        self._timing, self._resources, self._deadline_s = timing, resources, deadline_s

    def has_time(self, needed_s: float | None = None) -> bool:
        """Of something that nobody knows the length of, one can only try."""
        return self._deadline_s is None or time.monotonic() + (needed_s or 0.0) < self._deadline_s

    def require_time(self) -> None:
        if not self.has_time():
            raise OutOfTime

    def until_done_s(
        self,
        training: Training,
        running: Sequence[tuple[Recipe, int]],
        before: Sequence[CellPlan],
        data_s: float,
    ) -> float | None:
        """Data is made here, then trainings apart go on while the cells before them are evaluated.

        `running` are trainings under way with their steps so far; where they take turns, this one comes after them.
        """
        training_s = self._timing.training_s(training.recipe)
        before_s, own_s = (self._timing.evaluations_s(cells) for cells in (before, training.cells))
        if training_s is None or before_s is None or own_s is None:
            return None
        if self._resources.side_by_side == 1:
            training_s += sum(self._left_s(recipe, step) for recipe, step in running)
        both_s = max(training_s, before_s) if self._resources.training_apart else training_s + before_s
        return data_s + both_s + own_s

    def _left_s(self, recipe: Recipe, step: int) -> float:
        return (self._timing.training_s(recipe) or 0.0) * (1 - step / recipe.optimisation.steps)
