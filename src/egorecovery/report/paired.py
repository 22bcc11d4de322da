"""Two sides on the same starts: two conditions, or curves of several amounts; over starts and over trainings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from egorecovery.evaluation.protocol import Regime
from egorecovery.evaluation.results import RolloutRecord
from egorecovery.evaluation.statistics import (
    Comparison,
    Interval,
    NotComparable,
    TrainingSpread,
    compare_groups,
    over_trainings,
    rates,
    training_spread,
)
from egorecovery.experiments.condition import Condition, task_order
from egorecovery.experiments.suites.suite import Side
from egorecovery.randomness import generator_for
from egorecovery.report.results import SuiteResults

MOST_REDRAWN = 0.01  # of the starts: beyond it the workcell is taken for another one

StartKey = tuple[str, str, str, int]
SideRollouts = Sequence[Sequence[RolloutRecord]]  # of each of its conditions


@dataclass(frozen=True, kw_only=True)
class PairedComparison:
    """Two sides on the starts that all their conditions were run on."""

    sides: tuple[Side, Side]
    regime: Regime
    tasks: tuple[str, ...]
    seeds: tuple[int, int]  # how many trainings of each
    comparison: Comparison  # over starts
    redrawn: int  # starts left out, because a version of the workcell drew another scene for them
    trainings: Interval | None  # of the difference, over trainings; None where it is not known how far those spread

    @property
    def first(self) -> Condition:
        """The one condition of its side; of a curve, the first."""
        return self.sides[0][0]

    @property
    def second(self) -> Condition:
        return self.sides[1][0]


def compare_sides(
    results: SuiteResults, sides: tuple[Side, Side], regime: Regime, task: str | None, spread: TrainingSpread | None
) -> PairedComparison | None:
    """On one task or on all; None where the sides share no start. `spread` is that of the suite's trainings."""
    rollouts = [[results.rollouts(condition, regime, task) for condition in side] for side in sides]
    shared, redrawn = shared_starts(rollouts)
    if not shared:
        return None
    ours, theirs = (
        [[record for record in records if record.start_key in shared] for records in side] for side in rollouts
    )
    # By what tables call them, so that published intervals stay as they are when conditions get more settings.
    first, second = (" + ".join(condition.full_label for condition in side) for side in sides)
    rng = generator_for(seed=0, purpose="report: comparison", pair=f"{first}|{second}|{regime}|{task}")
    try:
        comparison = compare_groups(ours, theirs, rng)
    except NotComparable:
        return None  # evaluated in different versions of the workcell
    before, after = ([condition.trained_as for condition in side] for side in sides)
    return PairedComparison(
        sides=sides,
        regime=regime,
        tasks=tuple(sorted({record.task for record in ours[0]}, key=task_order)),
        seeds=(count_trainings(ours), count_trainings(theirs)),
        comparison=comparison,
        redrawn=redrawn,
        trainings=(
            with_shared_trainings(comparison.difference, ours, theirs)
            if before == after
            else with_other_trainings(comparison.difference, spread, [ours, theirs])
        ),
    )


def spread_of_trainings(results: SuiteResults, regime: Regime) -> TrainingSpread | None:
    """From training to training of the same method on the same task, over all that were repeated."""
    rollouts = (
        results.rollouts(condition, regime, task)
        for condition in results.conditions
        if not condition.intervened
        for task in results.tasks
    )
    return training_spread(list(_training_rates([records]).values()) for records in rollouts)


def shared_starts(sides: Sequence[SideRollouts]) -> tuple[set[StartKey], int]:
    """Starts that every condition of every side has in the same scene, and how many were drawn anew since.

    A start may be drawn anew by a later version of the workcell. A few such starts are left out; where they are many,
    all stay, and the comparison is refused.
    """
    conditions = [records for side in sides for records in side]
    shared = set.intersection(*({record.start_key for record in records} for records in conditions))
    scenes: dict[StartKey, Mapping[str, Any]] = {}
    redrawn: set[StartKey] = set()
    for record in chain.from_iterable(conditions):
        known = record.outcome != "error"  # such a rollout may not know its start
        if known and record.start_key in shared and scenes.setdefault(record.start_key, record.start) != record.start:
            redrawn.add(record.start_key)
    return (shared - redrawn, len(redrawn)) if len(redrawn) <= MOST_REDRAWN * len(shared) else (shared, 0)


def count_trainings(side: SideRollouts) -> int:
    return sum(len({record.subject.seed for record in records}) for records in side)


def with_other_trainings(value: float, spread: TrainingSpread | None, sides: Sequence[SideRollouts]) -> Interval | None:
    """Of an average over a side's tasks and conditions, or of the difference of two.

    A curve brings a spread of its own: its trainings, at whatever amount, count as repeats of each other, per task and
    pooled over both sides. Of that and the suite's, the one of more repeats counts. A trend along the curve is taken
    for noise, so the interval is rather too wide. In one way it may be too narrow: trainings of one seed share the
    episodes that their budgets have in common.
    """
    if any(len(side) > 1 for side in sides):
        own = training_spread(alike for side in sides for alike in _by_task(_training_rates(side)).values())
        spread = max(filter(None, (own, spread)), key=lambda known: known.degrees, default=None)
    return spread and over_trainings(value, spread, [_trainings_of_each(side) for side in sides])


def with_shared_trainings(difference: float, first: SideRollouts, second: SideRollouts) -> Interval | None:
    """Of two interventions in the same policies: each policy has a difference of its own."""
    ours, theirs = _training_rates(first), _training_rates(second)
    changes = _by_task({training: theirs[training] - ours[training] for training in ours if training in theirs})
    spread = training_spread(changes.values())
    return spread and over_trainings(difference, spread, [[len(alike) for alike in changes.values()]])


def _training_rates(side: SideRollouts) -> dict[tuple[int, str, int], float]:
    """By the place of the condition on its side, task and seed."""
    return {
        (place, task, seed): rate.value
        for place, records in enumerate(side)
        for (task, seed), rate in rates(records, by=lambda record: (record.task, record.subject.seed)).items()
    }


def _by_task(of_trainings: dict[tuple[int, str, int], float]) -> dict[str, list[float]]:
    by_task: dict[str, list[float]] = {}
    for (_, task, _), value in of_trainings.items():
        by_task.setdefault(task, []).append(value)
    return by_task


def _trainings_of_each(side: SideRollouts) -> list[int]:
    """By condition and task."""
    return list(Counter((place, task) for place, task, _ in _training_rates(side)).values())
