"""The paper's own figures, to stand beside ours. Rates are in percent, as printed there."""

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from egorecovery.errors import RecipeError
from egorecovery.evaluation.protocol import Regime

POOLED_TASKS = 4
ROUNDING = 0.06  # printed with one decimal, halves rounded now up, now down: 53/80 as 66.2, 61/80 as 76.3


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """One method or variant, on one task or pooled over the four."""

    suite: str
    name: str  # method, or variant where the suite has variants
    task: str | None  # None: pooled
    budget: tuple[int, int, int, int] | None  # robot success, robot recovery, human success, human recovery
    initial: float | None
    recovery: float | None

    def rate(self, regime: Regime) -> float | None:
        return self.initial if regime == "initial" else self.recovery


def figures() -> dict[str, Any]:
    """The whole file: rates, and the paper's throughput, training cost and diagnostics."""
    return json.loads(files("egorecovery.experiments").joinpath("paper_figures.json").read_text())


@lru_cache(maxsize=1)
def rows() -> tuple[PaperRow, ...]:
    found = figures()
    known = tuple(PaperRow(**{**row, "budget": row["budget"] and tuple(row["budget"])}) for row in found["rates"])
    for row in known:
        for percent in (row.initial, row.recovery):
            if percent is not None:
                successes(percent, found["rollouts_per_task"] * (1 if row.task else POOLED_TASKS))
    return known


def successes(percent: float, rollouts: int) -> int:
    """How many rollouts a printed rate stands for: 80.0 of 80 is 64. Refuses rates that no count gives."""
    count = round(percent * rollouts / 100)
    if abs(100 * count / rollouts - percent) > ROUNDING:
        raise RecipeError(f"{percent} percent is no number of successes in {rollouts} rollouts: a figure is mistyped")
    return count


def paper_rate(
    suite: str,
    name: str,
    task: str | None,
    regime: Regime,
    budget: tuple[int, int, int, int] | None = None,
) -> float | None:
    """The paper's rate of a method or variant on a task, or pooled with `task=None`; None where it prints none.

    A `budget` is needed where a suite has the same method several times.
    """
    named = [row for row in rows() if row.suite == suite and row.name == name]
    if budget is not None:
        named = [row for row in named if row.budget in (None, budget)]
    rates = [row.rate(regime) for row in named if row.task == task]
    if len(rates) > 1:
        raise RecipeError(f"the paper's {suite} has {name} with {len(rates)} budgets: say which")
    if rates:
        return rates[0]
    by_task = [row.rate(regime) for row in named if row.task is not None] if task is None else []
    known = [rate for rate in by_task if rate is not None]
    return sum(known) / len(known) if known else None
