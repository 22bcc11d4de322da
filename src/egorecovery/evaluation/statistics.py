"""What the counts say: rates with Wilson intervals, comparisons on the same starts, several seeds."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from numpy.random import Generator

from egorecovery.errors import EgoRecoveryError
from egorecovery.evaluation.results import RolloutRecord

RESAMPLES = 10_000
CONFIDENCE = 0.95
Group = TypeVar("Group", bound=Hashable)


class NotComparable(EgoRecoveryError):
    """Results that do not share their starts."""


@dataclass(frozen=True)
class Interval:
    low: float
    high: float

    @property
    def mirrored(self) -> "Interval":
        """Of the difference the other way round."""
        return Interval(-self.high, -self.low)


@dataclass(frozen=True)
class Rate:
    """A success rate; errors count as rollouts that did not succeed."""

    successes: int
    rollouts: int

    @property
    def value(self) -> float:
        return self.successes / self.rollouts

    @property
    def wilson(self) -> Interval:
        """95% (paper, evaluation protocol: computed from pooled counts)."""
        return wilson(self.successes, self.rollouts)

    def __str__(self) -> str:
        low, high = 100 * self.wilson.low, 100 * self.wilson.high
        return f"{self.successes}/{self.rollouts}  {100 * self.value:.1f} [{low:.1f}, {high:.1f}]"


def wilson(successes: int, rollouts: int) -> Interval:
    from scipy.stats import binomtest  # here, since it takes a second and every worker imports this package

    interval = binomtest(successes, rollouts).proportion_ci(confidence_level=CONFIDENCE, method="wilson")
    return Interval(float(interval.low), float(interval.high))


def newcombe(first: Rate, second: Rate) -> Interval:
    """Of the difference of two independent rates, 95%, from their Wilson intervals."""
    difference, ours, theirs = first.value - second.value, first.wilson, second.wilson
    down = math.hypot(first.value - ours.low, theirs.high - second.value)
    up = math.hypot(ours.high - first.value, second.value - theirs.low)
    return Interval(difference - down, difference + up)


def rate(records: Sequence[RolloutRecord]) -> Rate:
    return Rate(sum(record.succeeded for record in records), len(records))


def rates(records: Iterable[RolloutRecord], by: Callable[[RolloutRecord], Group]) -> dict[Group, Rate]:
    """A rate per group, such as `by=lambda record: (record.task, record.regime)` or `record.mode`; sorted."""
    groups: dict[Group, list[RolloutRecord]] = {}
    for record in records:
        groups.setdefault(by(record), []).append(record)
    return {group: rate(groups[group]) for group in sorted(groups, key=str)}


@dataclass(frozen=True, kw_only=True)
class SeedSummary:
    """One method, trained several times, on the same starts."""

    pooled: Rate  # its Wilson interval takes all rollouts for independent
    per_seed: dict[int, Rate]
    interval: Interval  # of the mean rate, resampling starts: rollouts of one start are not independent

    @property
    def seed_spread(self) -> float:
        """Standard deviation of the rate from training to training; 0 with one seed."""
        values = [seed_rate.value for seed_rate in self.per_seed.values()]
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def over_seeds(records: Sequence[RolloutRecord], rng: Generator) -> SeedSummary:
    per_start = _per_start(records)
    return SeedSummary(
        pooled=rate(records),
        per_seed=rates(records, by=lambda record: record.subject.seed),
        interval=bootstrap_mean(np.array([np.mean(values) for values in per_start.values()]), rng),
    )


@dataclass(frozen=True, kw_only=True)
class TrainingSpread:
    """How far apart the rates of like trainings lie, on the same starts."""

    deviation: float  # standard, of one training's rate on one task
    degrees: int  # of freedom: trainings beyond the first of each kind


def training_spread(like: Iterable[Sequence[float]]) -> TrainingSpread | None:
    """From the rates of trainings that differ by their seed alone, kind by kind; None where that says nothing.

    All kinds are taken to spread alike, as in an analysis of variance: three trainings of one kind say little. That
    is wrong for rates near 0 or 1, which spread less. Repeats that agree to the last rollout are no measure.
    """
    repeated = [np.asarray(rates) for rates in like if len(rates) > 1]
    degrees = sum(len(rates) - 1 for rates in repeated)
    squares = sum(float(((rates - rates.mean()) ** 2).sum()) for rates in repeated)
    return TrainingSpread(deviation=(squares / degrees) ** 0.5, degrees=degrees) if squares else None


def over_trainings(value: float, spread: TrainingSpread, trainings: Sequence[Sequence[int]]) -> Interval:
    """Where an average over tasks, or a difference of two, would lie with other trainings, on the same starts.

    `trainings` are, for each of the averages, how many there are of each task; tasks weigh alike. So do methods, where
    an average is over several: then they are how many there are of each method and task.
    """
    from scipy.stats import t

    variance = sum(sum(1 / count for count in counts) / len(counts) ** 2 for counts in trainings)
    half = float(t.ppf((1 + CONFIDENCE) / 2, spread.degrees)) * spread.deviation * variance**0.5
    return Interval(value - half, value + half)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two methods, or two groups of them, on the same starts."""

    starts: int
    first: Rate  # of all rollouts, whatever the method
    second: Rate
    means: tuple[float, float]  # of first and second: methods weigh alike, and starts do
    only_first: int  # rollouts, paired by start and order of method and seed, that only this side solved
    only_second: int
    difference: float  # of the means, second minus first
    interval: Interval  # paired bootstrap over starts
    p_value: float  # two-sided: exact McNemar with one seed each, sign flips of starts with several


def compare(first: Sequence[RolloutRecord], second: Sequence[RolloutRecord], rng: Generator) -> Comparison:
    """Refuses results that were not drawn from the same starts."""
    return compare_groups([first], [second], rng)


def compare_groups(
    first: Sequence[Sequence[RolloutRecord]], second: Sequence[Sequence[RolloutRecord]], rng: Generator
) -> Comparison:
    """By the mean over a group's methods, which weigh alike however often each was trained.

    Starts are what is resampled, with all that was played from them: every method plays the same ones.
    """
    for other in (*first[1:], *second):
        _check_same_starts(first[0], other)
    ours, theirs = ([_per_start(records) for records in group] for group in (first, second))
    starts = list(ours[0])
    at_starts = [[[method[start] for method in group] for start in starts] for group in (ours, theirs)]
    before, after = (np.array([np.mean([np.mean(seeds) for seeds in here]) for here in side]) for side in at_starts)
    played = [[np.concatenate(here) for here in side] for side in at_starts]
    pairs = np.array([pair for sides in zip(*played, strict=True) for pair in zip(*sides, strict=False)])
    only_first, only_second = (int((pairs[:, column] & ~pairs[:, 1 - column]).sum()) for column in (0, 1))
    single = all(len(outcomes) == 1 for side in played for outcomes in side)
    change = after - before
    return Comparison(
        starts=len(starts),
        first=rate([record for records in first for record in records]),
        second=rate([record for records in second for record in records]),
        means=(float(before.mean()), float(after.mean())),
        only_first=only_first,
        only_second=only_second,
        difference=float(change.mean()),
        interval=bootstrap_mean(change, rng),
        p_value=mcnemar(only_first, only_second) if single else sign_flip(change, rng),
    )


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact: where the methods disagree, each is right as often if they are equally good."""
    from scipy.stats import binomtest

    disagreements = only_first + only_second
    return float(binomtest(only_first, disagreements).pvalue) if disagreements else 1.0


def sign_flip(change: Float[ndarray, " S"], rng: Generator) -> float:
    """Permutation test of a zero mean: swapping the two methods at a start flips the sign of its difference."""
    signs = rng.choice([-1.0, 1.0], size=(RESAMPLES, len(change)))
    means = np.abs(signs @ change)
    return float((1 + (means >= abs(change.sum()) - 1e-9).sum()) / (RESAMPLES + 1))


def bootstrap_mean(values: Float[ndarray, " S"], rng: Generator) -> Interval:
    """Percentile interval of a mean, resampling its values."""
    drawn = rng.integers(len(values), size=(RESAMPLES, len(values)))
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(values[drawn].mean(axis=1), [tail, 100 - tail])
    return Interval(float(low), float(high))


def _per_start(records: Sequence[RolloutRecord]) -> dict[tuple, Bool[ndarray, " seeds"]]:
    """Outcomes at each start, by seed."""
    if not records:
        raise NotComparable("there are no rollouts to summarise")
    outcomes: dict[tuple, dict[int, bool]] = {}
    for record in sorted(records, key=lambda record: record.start_key):
        at_start = outcomes.setdefault(record.start_key, {})
        if record.subject.seed in at_start:
            raise NotComparable(
                f"{record.task} {record.regime} start {record.index} has two rollouts of seed {record.subject.seed}: "
                "these are results of more than one method or protocol; choose one by its cell, policy or protocol"
            )
        at_start[record.subject.seed] = record.succeeded
    return {start: np.array([seeds[seed] for seed in sorted(seeds)]) for start, seeds in outcomes.items()}


def _check_same_starts(first: Sequence[RolloutRecord], second: Sequence[RolloutRecord]) -> None:
    ours, theirs = ({record.start_key: record.start for record in records} for records in (first, second))
    if ours.keys() != theirs.keys():
        raise NotComparable(
            f"the methods share {len(ours.keys() & theirs.keys())} starts, one has {len(ours)} and the other "
            f"{len(theirs)}: finish both evaluations, with the same --starts-seed and --rollouts"
        )
    broken = {record.start_key for record in (*first, *second) if record.outcome == "error"}  # may not know its start
    for key in ours.keys() - broken:
        if ours[key] != theirs[key]:
            raise NotComparable(
                f"start {key} is not the same scene for both methods: they were evaluated with different versions of "
                "the workcell; evaluate one of them again"
            )
