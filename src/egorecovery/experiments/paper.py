"""The paper's own figures, as counts of our conditions, to stand beside ours. Its file has percent, as printed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from egorecovery.episodes import PAPER_TASKS
from egorecovery.errors import RecipeError
from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.evaluation.statistics import Rate
from egorecovery.experiments.condition import FULL, Condition, episode_counts, episodes
from egorecovery.policy.action_source import Intervention

ROLLOUTS = 20  # per task and regime
POOLED_TASKS = 4
ROUNDING = 0.06  # printed with one decimal, halves rounded now up, now down: 53/80 as 66.2, 61/80 as 76.3


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """A row of one of the paper's tables."""

    condition: Condition
    per_task: Mapping[tuple[Regime, str], Rate]
    pooled: Mapping[Regime, Rate]  # over all tasks it was run on

    def rate(self, regime: Regime, task: str | None = None) -> Rate | None:
        return self.pooled.get(regime) if task is None else self.per_task.get((regime, task))

    def over(self, regime: Regime, tasks: tuple[str, ...]) -> Rate | None:
        """Pooled over these tasks; where the paper gives only the pool of all, that or nothing."""
        known = [self.per_task[regime, task] for task in tasks if (regime, task) in self.per_task]
        if known and len(known) == len(tasks):
            return pool(known)
        return self.pooled.get(regime) if not self.per_task and set(tasks) == set(PAPER_TASKS) else None

    @property
    def tasks(self) -> tuple[str, ...]:
        named = {task for _, task in self.per_task}
        return tuple(task for task in PAPER_TASKS if task in named) or tuple(PAPER_TASKS)


@cache
def figures() -> dict[str, Any]:
    """The whole file: rates, and the paper's throughput, training cost and diagnostics."""
    return json.loads(files("egorecovery.experiments").joinpath("paper_figures.json").read_text())


@cache
def paper_rows(suite: str) -> tuple[PaperRow, ...]:
    """Of a suite, in the paper's order; none where it has no such table."""
    groups: dict[Condition, list[dict[str, Any]]] = {}
    for printed in figures()["rates"]:
        if printed["suite"] == suite:
            groups.setdefault(_condition(printed), []).append(printed)
    return tuple(_row(condition, printed) for condition, printed in groups.items())


def paper_rate(
    suite: str, conditions: Sequence[Condition], regime: Regime, tasks: tuple[str, ...] | None = None
) -> Rate | None:
    """Pooled over conditions, over exactly these tasks or over all of the paper's; None where it lacks one of them.

    Its rates of a curve are all of as many rollouts, so their pool is their mean.
    """
    rows = [_row_of(suite, condition) for condition in conditions]
    rates = [row and (row.rate(regime) if tasks is None else row.over(regime, tasks)) for row in rows]
    known = [rate for rate in rates if rate is not None]
    return pool(known) if len(known) == len(rates) else None


def _row_of(suite: str, condition: Condition) -> PaperRow | None:
    """Of this budget if there is one, else of any."""
    rows = [row for row in paper_rows(suite) if row.condition.role == condition.role]
    exact = [row for row in rows if row.condition.budget == condition.budget]
    return next(iter(exact or rows), None)


def _condition(printed: Mapping[str, Any]) -> Condition:
    counts, name = printed["budget"] or episode_counts(FULL), printed["name"]
    budget = episodes(counts[0], counts[1], human_success=counts[2], human_recovery=counts[3])
    if printed["suite"] == "gate_intervention":
        return Condition(method="egorecovery", budget=budget, intervention=Intervention(gate=name.removeprefix("p=")))  # pyright: ignore[reportArgumentType] - of the packaged file
    zero = name == "zero_intent_at_test"
    method = "egorecovery" if zero or name in ("full", "dct_magnitude_4d") else name
    return Condition(method=method, budget=budget, intervention=Intervention(zero_intent=zero))


def _row(condition: Condition, printed: Sequence[Mapping[str, Any]]) -> PaperRow:
    per_task: dict[tuple[Regime, str], Rate] = {}
    pooled: dict[Regime, Rate] = {}
    for entry in printed:
        for regime in REGIMES:
            if entry[regime] is None:
                continue
            if entry["task"]:
                per_task[regime, entry["task"]] = Rate(successes(entry[regime], ROLLOUTS), ROLLOUTS)
            else:
                rollouts = ROLLOUTS * POOLED_TASKS
                pooled[regime] = Rate(successes(entry[regime], rollouts), rollouts)
    for regime in REGIMES:
        counted = [rate for (of, _), rate in per_task.items() if of == regime]
        if counted:
            pooled.setdefault(regime, pool(counted))
    return PaperRow(condition=condition, per_task=per_task, pooled=pooled)


def successes(percent: float, rollouts: int) -> int:
    """How many rollouts a printed rate stands for: 80.0 of 80 is 64. Refuses rates that no count gives."""
    count = round(percent * rollouts / 100)
    if abs(100 * count / rollouts - percent) > ROUNDING:
        raise RecipeError(f"{percent} percent is no number of successes in {rollouts} rollouts: a figure is mistyped")
    return count


def pool(rates: Sequence[Rate]) -> Rate:
    return Rate(sum(rate.successes for rate in rates), sum(rate.rollouts for rate in rates))
