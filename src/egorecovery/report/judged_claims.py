"""The claims of a suite, one by one: do they hold here?

A claim that says "this does better than that" holds only if the 95% interval of the paired difference and the paired
test both exclude zero in its direction, is contradicted if they do in the other, and else is undecided. (The test is
asked as well because a bootstrap of a handful of starts is sure of itself too easily.) Both are about starts. Another
training gives other rates on the same starts: where the spread of repeated trainings is known, the interval over
trainings must exclude zero too. An undecided difference that is farther below the paper's than the errors of both
allow is not seen: if there is an effect here, it is a smaller one. "Nominal data does not recover" is a rate, not a
difference: both its intervals are held against a ceiling.

One training at each of several amounts of data decides little at any of them; as a curve they are judged together, by
the average over the amounts that were run, on both sides where both are curves.
"""

import math
from dataclasses import dataclass
from itertools import compress
from typing import Literal

from egorecovery.evaluation.statistics import Interval, Rate, newcombe
from egorecovery.experiments.condition import Condition, task_title
from egorecovery.experiments.paper import paper_rate
from egorecovery.experiments.suites import SUITES, Suite
from egorecovery.experiments.suites.suite import Claim, Side
from egorecovery.report.analysis import Analysis
from egorecovery.report.paired import PairedComparison

Verdict = Literal["holds", "contradicted", "not seen", "undecided", "not run"]
CEILING = 0.10  # "does not recover": from less than one failure in ten
SIGNIFICANCE = 0.05


@dataclass(frozen=True, kw_only=True)
class JudgedClaim:
    claim: Claim
    verdict: Verdict
    words: str
    rollouts: int = 0  # on which it rests
    difference: float | None = None  # of the rates here, as the claim would have it positive
    interval: Interval | None = None  # over starts
    trainings: Interval | None = None  # over trainings
    paper_difference: float | None = None
    differs_from_paper: bool | None = None  # by more than the errors of both; None: not known

    @property
    def is_open(self) -> bool:
        return self.verdict in ("undecided", "not seen")

    @property
    def sentence(self) -> str:
        """With its verdict; where that is open, with the number of rollouts on which it rests."""
        basis = f" with {self.rollouts} rollouts" if self.is_open else " here" * (self.verdict == "not run")
        return f"{self.verdict.capitalize()}{basis}: {self.words}"

    @property
    def beside_verdict(self) -> str:
        """Where the verdict is shown already."""
        return self.sentence if self.is_open else self.words


def judge_all(analysis: Analysis) -> list[JudgedClaim]:
    return [_judge(claim, analysis) for claim in analysis.claims_suite.claims]


def tested_elsewhere(analysis: Analysis) -> list[tuple[Suite, Claim]]:
    """What the paper's other suites test."""
    others = [suite for suite in SUITES.values() if suite.of_paper and suite.name != analysis.claims_suite.name]
    return [(suite, claim) for suite in others for claim in suite.claims]


def verdict_of(interval: Interval, p_value: float, trainings: Interval | None = None) -> Verdict:
    """Of a claim that the difference is positive."""
    spans = [interval, trainings or interval]
    if p_value < SIGNIFICANCE and all(span.low > 0 for span in spans):
        return "holds"
    if p_value < SIGNIFICANCE and all(span.high < 0 for span in spans):
        return "contradicted"
    return "undecided"


def _judge(claim: Claim, analysis: Analysis) -> JudgedClaim:
    return _judge_difference(claim, analysis) if claim.worse else _judge_ceiling(claim, analysis)


def _judge_difference(claim: Claim, analysis: Analysis) -> JudgedClaim:
    suite, run = analysis.claims_suite.name, _run(claim, analysis)
    first, second = (tuple(side.values()) for side in run)
    paired = analysis.compare(first, second, claim.regime) if first and second else None
    claimed = [tuple(side) for side in run] if paired else [claim.worse, claim.better]  # the paper's rates: of the same
    exact = [paper_rate(suite, side, claim.regime, paired.tasks) if paired else None for side in claimed]
    worse, better = (
        of_tasks or paper_rate(suite, side, claim.regime) for side, of_tasks in zip(claimed, exact, strict=True)
    )
    in_paper = f" In the paper {_percent(better)} against {_percent(worse)}." if worse and better else ""
    paper_difference = better.value - worse.value if worse and better else None
    if paired is None:
        words = f"{_why_not(claim, analysis)}.{in_paper}"
        return JudgedClaim(claim=claim, verdict="not run", words=words, paper_difference=paper_difference)
    comparison = paired.comparison
    verdict = verdict_of(comparison.interval, comparison.p_value, paired.trainings)
    differs = _differs_from_paper(paired, *exact)
    if verdict == "undecided" and differs and paper_difference is not None and comparison.difference < paper_difference:
        verdict = "not seen"
    farther = " The two differences are farther apart than the errors of both allow." if differs else ""
    return JudgedClaim(
        claim=claim,
        verdict=verdict,
        words=f"{_sentence(paired, analysis, claim.amounts)}{in_paper}{farther}",
        rollouts=comparison.first.rollouts + comparison.second.rollouts,
        difference=comparison.difference,
        interval=comparison.interval,
        trainings=paired.trainings,
        paper_difference=paper_difference,
        differs_from_paper=differs,
    )


def _differs_from_paper(paired: PairedComparison, worse: Rate | None, better: Rate | None) -> bool | None:
    """Whether our difference and the paper's are farther apart than the errors of both allow; None where it has none.

    Its error is that of two independent rates (Newcombe), ours the wider of our intervals.
    """
    if worse is None or better is None:
        return None
    ours, theirs, span = paired.comparison.difference, better.value - worse.value, newcombe(better, worse)
    gap = theirs - ours
    intervals = [interval for interval in (paired.comparison.interval, paired.trainings) if interval]
    error_here = max(abs((interval.high if gap > 0 else interval.low) - ours) for interval in intervals)
    error_there = abs((span.low if gap > 0 else span.high) - theirs)
    return abs(gap) > math.hypot(error_here, error_there)


def _judge_ceiling(claim: Claim, analysis: Analysis) -> JudgedClaim:
    [claimed] = claim.better
    ours = _ours(claimed, analysis)
    tasks = analysis.tasks_of(ours) if ours else ()
    papers = [paper_rate(analysis.claims_suite.name, claim.better, claim.regime, where) for where in (tasks, None)]
    paper = papers[0] or papers[1]
    in_paper = f" In the paper {_percent(paper)}." if paper else ""
    rate = analysis.rate(ours, claim.regime) if ours else None
    if ours is None or rate is None:
        words = f"no cell of {_named(claim.better, analysis)}.{in_paper}"
        return JudgedClaim(claim=claim, verdict="not run", words=words)
    trainings = analysis.rate_over_trainings(ours, claim.regime)
    spans, limit = [rate.wilson, trainings or rate.wilson], f"one in {round(1 / CEILING)}"
    verdict: Verdict = "undecided"
    if all(span.high < CEILING for span in spans):
        verdict, where = "holds", f"less often than {limit}"
    elif all(span.low > CEILING for span in spans):
        verdict, where = "contradicted", f"more often than {limit}"
    else:
        where = f"{limit} lies inside {'an' if trainings else 'the'} interval"
    low, high = (f"{100 * edge:.1f}" for edge in (rate.wilson.low, rate.wilson.high))
    others = f", with other trainings [{100 * trainings.low:.1f}, {100 * trainings.high:.1f}]" if trainings else ""
    words = (
        f"{claimed.label} recovers {rate.successes} of {rate.rollouts} times, {_percent(rate)} "
        f"[{low}, {high}]{others}: {where}.{in_paper}"
    )
    return JudgedClaim(claim=claim, verdict=verdict, words=words, rollouts=rate.rollouts, trainings=trainings)


def _named(claimed: Side, analysis: Analysis) -> str:
    whole = len(claimed) == 1 and analysis.claims_suite.by_budget
    return claimed[0].full_label if whole else claimed[0].label


def _run(claim: Claim, analysis: Analysis) -> list[dict[Condition, Condition]]:
    """What each side can be compared by: claimed conditions, with those that were run.

    Of two curves, amounts that only one has are left out of both; of a curve against one condition, all count.
    """
    sides = [{claimed: _ours(claimed, analysis) for claimed in side} for side in (claim.worse, claim.better)]
    if claim.by_amount:
        both = [all(pair) for pair in zip(*(side.values() for side in sides), strict=True)]
        sides = [dict(compress(side.items(), both)) for side in sides]
    return [{claimed: ours for claimed, ours in side.items() if ours} for side in sides]


def _why_not(claim: Claim, analysis: Analysis) -> str:
    """It was not run."""
    sides = (claim.worse, claim.better)
    missing = [_named(side, analysis) for side in sides if not any(_ours(claimed, analysis) for claimed in side)]
    if missing:
        return f"no cell of {' or '.join(dict.fromkeys(missing))}"
    if not all(_run(claim, analysis)):
        return "the two share no amount"
    return "the two share no start, or were rolled out by versions of the workcell whose scenes differ"


def _ours(claimed: Condition, analysis: Analysis) -> Condition | None:
    """What was run: of its budget where budgets are compared, else in its role."""
    if not analysis.claims_suite.by_budget:
        return analysis.in_role(claimed)
    run = [row.condition for row in analysis.run_rows if row.condition.role == claimed.role]
    return next((condition for condition in run if condition.budget == claimed.budget), None)


def _sentence(paired: PairedComparison, analysis: Analysis, amounts: int) -> str:
    """`amounts` are how many are claimed."""
    comparison = paired.comparison
    all_of_them = len(paired.tasks) > 1 and paired.tasks == analysis.tasks
    tasks = f"{len(paired.tasks)} tasks" if all_of_them else ", ".join(map(task_title, paired.tasks))
    trained = "one training each" if paired.seeds == (1, 1) else f"{paired.seeds[1]} and {paired.seeds[0]} trainings"
    rates = [
        f"{_side(paired.second, paired.first)} {_rate(paired.sides[1], comparison.second, comparison.means[1])}",
        f"{_side(paired.first, paired.second)} {_rate(paired.sides[0], comparison.first, comparison.means[0])}",
    ]
    run = max(map(len, paired.sides))
    over = f"over {run if run == amounts else f'{run} of {amounts}'} amounts, " if amounts > 1 else ""
    others = f"; with other trainings {points(paired.trainings)}" if paired.trainings else ""
    starts = f"{comparison.starts} starts" + f" ({paired.redrawn} of another scene left out)" * bool(paired.redrawn)
    return (
        f"{' against '.join(rates)} is {100 * comparison.difference:+.1f} points {points(comparison.interval)}, "
        f"{_p(comparison.p_value)}, {over}on the same {starts} of {tasks}, {trained}{others}."
    )


def points(interval: Interval) -> str:
    """Of a difference of rates."""
    return f"[{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"


def _side(condition: Condition, other: Condition) -> str:
    """With its budget where that is the difference."""
    return condition.full_label if condition.role == other.role else condition.label


def _rate(side: Side, rate: Rate, mean: float) -> str:
    """With its counts; of a curve the mean, which is not theirs if an amount was trained more often."""
    return f"{_percent(rate)} ({rate.successes}/{rate.rollouts})" if len(side) == 1 else f"{100 * mean:.1f}% on average"


def _p(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def _percent(rate: Rate) -> str:
    return f"{100 * rate.value:.1f}%"
