"""Two sides on the same starts: two arms, or curves of several amounts of data; over starts and over trainings."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from egorecovery.evaluation.protocol import Regime
from egorecovery.evaluation.results import RolloutRecord
from egorecovery.evaluation.statistics import (
    Comparison,
    Interval,
    TrainingSpread,
    over_trainings,
    rates,
    training_spread,
)
from egorecovery.experiments.report.arms import Arm, Side

Played = Sequence[Sequence[RolloutRecord]]  # by a side: the rollouts of each of its arms


@dataclass(frozen=True, kw_only=True)
class Duel:
    """Two sides on the starts that all their arms were run on."""

    sides: tuple[Side, Side]
    regime: Regime
    tasks: tuple[str, ...]
    seeds: tuple[int, int]  # how many trainings of each
    found: Comparison  # over starts
    trainings: Interval | None  # of the difference, over trainings; None where it is not known how far those spread

    @property
    def first(self) -> Arm:
        """The one arm of its side; of a curve, the first."""
        return self.sides[0][0]

    @property
    def second(self) -> Arm:
        return self.sides[1][0]


def on_shared_starts(sides: Sequence[Played]) -> list[Played]:
    """What was played from the starts that every arm of every side has: so of the tasks that all have."""
    shared = set.intersection(*({record.start_key for record in arm} for side in sides for arm in side))
    return [[[record for record in arm if record.start_key in shared] for arm in side] for side in sides]


def trained(side: Played) -> int:
    """How often, over all arms."""
    return sum(len({record.subject.seed for record in arm}) for arm in side)


def with_other_trainings(value: float, spread: TrainingSpread | None, sides: Sequence[Played]) -> Interval | None:
    """Of an average over a side's tasks and arms, or of the difference of two.

    A curve brings a spread of its own: its trainings, at whatever amount, count as repeats of each other, per task and
    pooled over both sides. Of that and the suite's, the one of more repeats counts. A trend along the curve is taken
    for noise, so the interval is rather too wide. In one way it may be too narrow: trainings of one seed share the
    episodes that their budgets have in common.
    """
    if any(len(side) > 1 for side in sides):
        own = training_spread(alike for side in sides for alike in _by_task(_training_rates(side)).values())
        spread = max(filter(None, (own, spread)), key=lambda known: known.degrees, default=None)
    return spread and over_trainings(value, spread, [_trainings_of_each(side) for side in sides])


def with_shared_trainings(difference: float, first: Played, second: Played) -> Interval | None:
    """Of two interventions in the same policies: each policy has a difference of its own."""
    ours, theirs = _training_rates(first), _training_rates(second)
    changes = _by_task({training: theirs[training] - ours[training] for training in ours if training in theirs})
    spread = training_spread(changes.values())
    return spread and over_trainings(difference, spread, [[len(alike) for alike in changes.values()]])


def _training_rates(side: Played) -> dict[tuple[int, str, int], float]:
    """By the place of the arm on its side, task and seed."""
    return {
        (place, task, seed): found.value
        for place, arm in enumerate(side)
        for (task, seed), found in rates(arm, by=lambda record: (record.task, record.subject.seed)).items()
    }


def _by_task(of_trainings: dict[tuple[int, str, int], float]) -> dict[str, list[float]]:
    by_task: dict[str, list[float]] = {}
    for (_, task, _), value in of_trainings.items():
        by_task.setdefault(task, []).append(value)
    return by_task


def _trainings_of_each(side: Played) -> list[int]:
    """Arm and task."""
    return list(Counter((place, task) for place, task, _ in _training_rates(side)).values())
