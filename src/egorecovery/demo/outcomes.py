"""What came of the demo: rates, how often policies differ at the same start, which starts to film, one sentence."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from egorecovery.demo.plan import HUMAN_CLIPS, METHODS, NAMES, ROBOT_RECOVERY, DemoPlan
from egorecovery.evaluation import REGIMES, Regime, RolloutRecord
from egorecovery.evaluation.statistics import Interval, Rate, mcnemar, newcombe, rate

Pattern = tuple[bool, ...]  # who succeeds at a start, in the order of METHODS
WORTH_NOTE = (
    "Brackets are 95% intervals of the difference (Newcombe); p is of the exact McNemar test on the same starts."
)
SPREAD = "Two trainings of the same small policy differ by some ten points: one demo is one draw."
CERTAIN = 0.05  # below it a difference on the same starts is reported as one (exact McNemar, two-sided)


@dataclass(frozen=True)
class FilmedStart:
    """A start that all policies are filmed from."""

    regime: Regime
    index: int
    mode: str
    pattern: Pattern


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The policy with human clips against the one without, on the same starts."""

    points: float  # of success, as a share
    interval: Interval  # of two independent rates: wider than the pairing allows
    p_value: float

    @property
    def verdict(self) -> str:
        if self.p_value >= CERTAIN:
            return "undecided"
        return "better" if self.points > 0 else "worse"


class Outcomes:
    """The rollouts of all three policies from the same starts."""

    def __init__(self, records: Mapping[str, Sequence[RolloutRecord]]) -> None:
        self._records = {method: records[method] for method in METHODS}

    def rate(self, method: str, regime: Regime) -> Rate:
        return rate([record for record in self._records[method] if record.regime == regime])

    def rates(self) -> dict[str, dict[Regime, Rate]]:
        return {method: {regime: self.rate(method, regime) for regime in REGIMES} for method in METHODS}

    def difference(self, regime: Regime) -> Difference:
        after, before = self.rate(HUMAN_CLIPS, regime), self.rate(ROBOT_RECOVERY, regime)
        pairs = [(pattern[1], pattern[2]) for pattern in self._patterns(regime).values()]
        lost, won = pairs.count((True, False)), pairs.count((False, True))
        return Difference(
            points=after.value - before.value, interval=newcombe(after, before), p_value=mcnemar(lost, won)
        )

    def patterns(self, regime: Regime) -> Counter[Pattern]:
        """How often each; the most frequent first."""
        counted = Counter(self._patterns(regime).values())
        return Counter(dict(sorted(counted.items(), key=lambda each: (-each[1], each[0]))))

    def to_film(self, most: int) -> list[FilmedStart]:
        """Of failures from which outcomes differ: the first of the most frequent pattern, then of the next.

        Where policies never differ, the first failures.
        """
        at, modes = self._patterns("recovery"), self._modes
        unlike = [pattern for pattern in self.patterns("recovery") if len(set(pattern)) > 1]
        first = [next(index for index in at if at[index] == pattern) for pattern in unlike] or list(at)
        return [FilmedStart("recovery", index, modes[index], at[index]) for index in first[:most]]

    def _patterns(self, regime: Regime) -> dict[int, Pattern]:
        """By start."""
        by_method = [
            {record.index: record.succeeded for record in records if record.regime == regime}
            for records in self._records.values()
        ]
        shared = sorted(set.intersection(*(set(each) for each in by_method)))
        return {index: tuple(each[index] for each in by_method) for index in shared}

    @property
    def _modes(self) -> dict[int, str]:
        return {record.index: record.mode for record in self._records[METHODS[0]] if record.regime == "recovery"}

    def summary(self, plan: DemoPlan) -> dict[str, Any]:
        """All that the page shows, as JSON."""
        difference = {regime: self.difference(regime) for regime in REGIMES}
        return {
            "schema": 2,
            "task": plan.task,
            "sentence": self.sentence(plan),
            "worth": self.worth(),
            "policies": [
                {
                    "method": method,
                    "name": NAMES[method],
                    "episodes": plan.episodes(method),
                    "rates": {
                        str(regime): {
                            "successes": found.successes,
                            "rollouts": found.rollouts,
                            "interval": [found.wilson.low, found.wilson.high],
                        }
                        for regime, found in self.rates()[method].items()
                    },
                }
                for method in METHODS
            ],
            "human_clips": {
                str(regime): {
                    "points": found.points,
                    "interval": [found.interval.low, found.interval.high],
                    "p_value": found.p_value,
                    "verdict": found.verdict,
                }
                for regime, found in difference.items()
            },
            "patterns": [
                {"succeed": dict(zip(METHODS, pattern, strict=True)), "starts": count}
                for pattern, count in self.patterns("recovery").items()
            ],
        }

    def sentence(self, plan: DemoPlan) -> str:
        """Read from the counts; it promises nothing."""
        with_clips, without = self.rate(HUMAN_CLIPS, "recovery"), self.rate(ROBOT_RECOVERY, "recovery")
        found = (
            f"With {plan.human_recovery} human clips the robot recovers from {with_clips.successes} of "
            f"{with_clips.rollouts} failures, without them from {without.successes}"
        )
        verdict = self.difference("recovery").verdict
        return found + {"better": ".", "worse": ": here they do harm.", "undecided": ": too close to call."}[verdict]

    def worth(self) -> str:
        """What the clips brought, from both kinds of starts."""
        changes = []
        words: dict[Regime, str] = {"recovery": "from failures", "initial": "from ordinary starts"}
        for regime, starts in words.items():
            found = self.difference(regime)
            low, high = 100 * found.interval.low, 100 * found.interval.high
            changes.append(
                f"{100 * found.points:+.0f} points {starts} [{low:+.0f}, {high:+.0f}; p {p_words(found.p_value)}]"
            )
        return f"The human clips change success by {changes[0]}, and by {changes[1]}. {SPREAD}"


def p_words(p_value: float) -> str:
    return f"= {p_value:.2f}" if p_value >= 0.01 else f"= {p_value:.3f}" if p_value >= 0.001 else "below 0.001"
