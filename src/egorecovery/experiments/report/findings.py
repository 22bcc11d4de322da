"""The paper's findings, and our own questions, one by one: do they hold here?

A finding that says "this does better than that" holds only if the 95% interval of the paired difference and the
paired test both exclude zero in its direction, is contradicted if they do in the other, and else is undecided. (The
test is asked as well because a bootstrap of a handful of starts is sure of itself too easily.) Both are about starts.
Another training gives other rates on the same starts: where the spread of repeated trainings is known, the interval
over trainings must exclude zero too. An undecided difference that is farther below the paper's than the errors of both
allow is not seen: if there is an effect here, it is a smaller one. "Nominal data does not recover" is a rate, not a
difference: both its intervals are held against a ceiling.

One training at each of several amounts of data decides little at any of them; as a curve they are judged together, by
the average over the amounts that were run, on both sides where both are curves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal

from egorecovery.evaluation.statistics import Interval, Rate, newcombe
from egorecovery.experiments.report.arms import Arm, Side, task_title
from egorecovery.experiments.report.claims import Claim, claims
from egorecovery.experiments.report.duels import Duel
from egorecovery.experiments.report.numbers import TOLD_BY_BUDGET, Numbers
from egorecovery.experiments.report.paper import SUITES, Published, pool, published

Verdict = Literal["holds", "contradicted", "not seen", "undecided", "not run"]
CEILING = 0.10  # "does not recover": from less than one failure in ten
SIGNIFICANCE = 0.05


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What became of it."""

    claim: Claim
    verdict: Verdict
    words: str
    rollouts: int = 0  # on which it rests
    difference: float | None = None  # of the rates here, as the claim would have it positive
    interval: Interval | None = None  # over starts
    trainings: Interval | None = None  # over trainings
    paper_difference: float | None = None
    differs_from_paper: bool | None = None  # by more than the errors of both; None: cannot be told

    @property
    def sentence(self) -> str:
        """With its verdict."""
        decided = {"holds": "Holds", "contradicted": "Contradicted", "not run": "Not run here"}
        open_ = {"undecided": "Undecided", "not seen": "Not seen"}
        begins = decided.get(self.verdict) or f"{open_[self.verdict]} with {self.rollouts} rollouts"
        return f"{begins}: {self.words}"

    @property
    def beside_verdict(self) -> str:
        """Where the verdict is told already: what is open says on how many rollouts it rests."""
        return self.sentence if self.verdict in ("undecided", "not seen") else self.words

    def record(self) -> dict[str, Any]:
        return {
            "id": self.claim.id,
            "suite": self.claim.suite,
            "says": self.claim.says,
            "regime": self.claim.regime,
            "verdict": self.verdict,
            "rollouts": self.rollouts,
            "words": self.sentence,
            "difference": self.difference,
            "interval": [self.interval.low, self.interval.high] if self.interval else None,
            "interval_over_trainings": [self.trainings.low, self.trainings.high] if self.trainings else None,
            "paper_difference": self.paper_difference,
            "differs_from_paper": self.differs_from_paper,
        }


def findings(numbers: Numbers) -> list[Finding]:
    """Of the suite at hand."""
    return [judge(claim, numbers) for claim in claims(_tested_by(numbers))]


def elsewhere(numbers: Numbers) -> list[Claim]:
    """What other suites test."""
    return [claim for suite in SUITES if suite != _tested_by(numbers) for claim in claims(suite)]


def _tested_by(numbers: Numbers) -> str:
    """The suite whose claims are asked: its own, or those of the one that it is read as."""
    return numbers.suite.name if claims(numbers.suite.name) else numbers.like


def verdict(interval: Interval, p_value: float, trainings: Interval | None = None) -> Verdict:
    """Of a claim that the difference is positive."""
    spans = [interval, trainings or interval]
    if p_value < SIGNIFICANCE and all(span.low > 0 for span in spans):
        return "holds"
    if p_value < SIGNIFICANCE and all(span.high < 0 for span in spans):
        return "contradicted"
    return "undecided"


def judge(claim: Claim, numbers: Numbers) -> Finding:
    if not claim.worse:
        return _judge_ceiling(claim, numbers)
    run = _run(claim, numbers)
    first, second = (tuple(side.values()) for side in run)
    duel = numbers.between(first, second, claim.regime) if first and second else None
    asked = [tuple(side) for side in run] if duel else [claim.worse, claim.better]  # the paper's rates are of the same
    worse, better = (_paper_rate(claim, side, duel.tasks if duel else ()) for side in asked)
    told = f" In the paper {_percent(better)} against {_percent(worse)}." if worse and better else ""
    paper_difference = better.value - worse.value if worse and better else None
    if duel is None:
        words = f"{_why_not(claim, numbers)}.{told}"
        return Finding(claim=claim, verdict="not run", words=words, paper_difference=paper_difference)
    found = duel.found
    reached = verdict(found.interval, found.p_value, duel.trainings)
    differs = differs_from_paper(duel, *(_paper_over(claim, side, duel.tasks) for side in asked))
    if reached == "undecided" and differs and paper_difference is not None and found.difference < paper_difference:
        reached = "not seen"
    farther = " The two differences are farther apart than the errors of both allow." if differs else ""
    return Finding(
        claim=claim,
        verdict=reached,
        words=f"{_told(duel, numbers, claim.amounts)}{told}{farther}",
        rollouts=found.first.rollouts + found.second.rollouts,
        difference=found.difference,
        interval=found.interval,
        trainings=duel.trainings,
        paper_difference=paper_difference,
        differs_from_paper=differs,
    )


def differs_from_paper(duel: Duel, worse: Rate | None, better: Rate | None) -> bool | None:
    """Whether our difference and the paper's are farther apart than the errors of both allow; None where it has none.

    Its error is that of two independent rates (Newcombe), ours the wider of our intervals.
    """
    if worse is None or better is None:
        return None
    theirs, span = better.value - worse.value, newcombe(better, worse)
    gap = theirs - duel.found.difference
    ours = [one.high if gap > 0 else one.low for one in (duel.found.interval, duel.trainings) if one]
    error_here = max(abs(bound - duel.found.difference) for bound in ours)
    error_there = abs((span.low if gap > 0 else span.high) - theirs)
    return abs(gap) > math.hypot(error_here, error_there)


def _judge_ceiling(claim: Claim, numbers: Numbers) -> Finding:
    [asked] = claim.better
    mine = _ours(asked, numbers, claim.suite)
    paper = _paper_rate(claim, claim.better, numbers.tasks_of(mine) if mine else ())
    told = f" In the paper {_percent(paper)}." if paper else ""
    rate = numbers.rate(mine, claim.regime) if mine else None
    if rate is None:
        words = f"no cell of {_named(claim.better, claim)}.{told}"
        return Finding(claim=claim, verdict="not run", words=words)
    assert mine is not None
    trainings = numbers.rate_over_trainings(mine, claim.regime)
    spans, limit = [rate.wilson, trainings or rate.wilson], f"one in {round(1 / CEILING)}"
    reached: Verdict = "undecided"
    if all(span.high < CEILING for span in spans):
        reached, where = "holds", f"less often than {limit}"
    elif all(span.low > CEILING for span in spans):
        reached, where = "contradicted", f"more often than {limit}"
    else:
        where = f"{limit} lies inside {'an' if trainings else 'the'} interval"
    low, high = (f"{100 * edge:.1f}" for edge in (rate.wilson.low, rate.wilson.high))
    others = f", with other trainings [{100 * trainings.low:.1f}, {100 * trainings.high:.1f}]" if trainings else ""
    words = (
        f"{asked.label} recovers {rate.successes} of {rate.rollouts} times, {_percent(rate)} "
        f"[{low}, {high}]{others}: {where}.{told}"
    )
    return Finding(claim=claim, verdict=reached, words=words, rollouts=rate.rollouts, trainings=trainings)


def _named(asked: Side, claim: Claim) -> str:
    whole = len(asked) == 1 and claim.suite in TOLD_BY_BUDGET
    return asked[0].full_label if whole else asked[0].label


def _run(claim: Claim, numbers: Numbers) -> list[dict[Arm, Arm]]:
    """What each side can be compared by: arms that are asked for, with those that were run.

    Of two curves, amounts that only one has are left out of both; of a curve against one arm, all count.
    """
    sides = [{asked: _ours(asked, numbers, claim.suite) for asked in side} for side in (claim.worse, claim.better)]
    if claim.by_amount:
        both = [all(pair) for pair in zip(*(side.values() for side in sides), strict=True)]
        sides = [dict(compress(side.items(), both)) for side in sides]
    return [{asked: mine for asked, mine in side.items() if mine} for side in sides]


def _why_not(claim: Claim, numbers: Numbers) -> str:
    """It was not run."""
    asked = (claim.worse, claim.better)
    lacking = [_named(side, claim) for side in asked if not any(_ours(arm, numbers, claim.suite) for arm in side)]
    if lacking:
        return f"no cell of {' or '.join(dict.fromkeys(lacking))}"
    return "the two share no start" if all(_run(claim, numbers)) else "the two share no amount"


def _ours(asked: Arm, numbers: Numbers, suite: str) -> Arm | None:
    """The arm that was run: by its budget where budgets are compared, else by the part it plays."""
    if suite in TOLD_BY_BUDGET:
        mine = [row.arm for row in numbers.rows if row.run and row.arm.plays == asked.plays]
        return next((one for one in mine if one.budget == asked.budget), None)
    return numbers.playing(asked)


def _paper_rate(claim: Claim, asked: Side, tasks: tuple[str, ...]) -> Rate | None:
    """Over the tasks that were run here, if the paper tells them apart; else over all of its own."""
    rows = [_published(claim, arm) for arm in asked]
    return _paper_over(claim, asked, tasks) or _pooled([row and row.rate(claim.regime) for row in rows])


def _paper_over(claim: Claim, asked: Side, tasks: tuple[str, ...]) -> Rate | None:
    """Over exactly these tasks."""
    rows = [_published(claim, arm) for arm in asked]
    return _pooled([row and row.over(claim.regime, tasks) for row in rows])


def _pooled(rates: Sequence[Rate | None]) -> Rate | None:
    """Its rates of a curve are all of as many rollouts, so their pool is their mean; None where one is missing."""
    known = [rate for rate in rates if rate is not None]
    return pool(known) if len(known) == len(rates) else None


def _published(claim: Claim, asked: Arm) -> Published | None:
    found = [row for row in published(claim.suite) if row.arm.plays == asked.plays]
    exact = [row for row in found if row.arm.budget == asked.budget]
    return next(iter(exact or found), None)


def _told(duel: Duel, numbers: Numbers, amounts: int) -> str:
    """`amounts` are how many were asked for."""
    found = duel.found
    all_of_them = len(duel.tasks) > 1 and duel.tasks == numbers.tasks
    tasks = f"{len(duel.tasks)} tasks" if all_of_them else ", ".join(task_title(task) for task in duel.tasks)
    trained = "one training each" if duel.seeds == (1, 1) else f"{duel.seeds[1]} and {duel.seeds[0]} trainings"
    rates = [
        f"{_side(duel.second, duel.first)} {_rate(duel.sides[1], found.second, found.means[1])}",
        f"{_side(duel.first, duel.second)} {_rate(duel.sides[0], found.first, found.means[0])}",
    ]
    run = max(map(len, duel.sides))
    over = f"over {run if run == amounts else f'{run} of {amounts}'} amounts, " if amounts > 1 else ""
    others = f"; with other trainings {points(duel.trainings)}" if duel.trainings else ""
    return (
        f"{' against '.join(rates)} is {100 * found.difference:+.1f} points {points(found.interval)}, "
        f"{_p(found.p_value)}, {over}on the same {found.starts} starts of {tasks}, {trained}{others}."
    )


def points(interval: Interval) -> str:
    """Of a difference of rates."""
    return f"[{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"


def _side(one: Arm, other: Arm) -> str:
    """With its budget where that is the difference."""
    return one.full_label if one.plays == other.plays else one.label


def _rate(side: Side, rate: Rate, mean: float) -> str:
    """Of an arm with its counts; of a curve the mean, which is not theirs if an amount was trained more often."""
    return f"{_percent(rate)} ({rate.successes}/{rate.rollouts})" if len(side) == 1 else f"{100 * mean:.1f}% on average"


def _p(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def _percent(rate: Rate) -> str:
    return f"{100 * rate.value:.1f}%"
