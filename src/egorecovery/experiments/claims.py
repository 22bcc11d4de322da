"""Claims that a suite tests, stated beforehand: this does better than that."""

from dataclasses import dataclass
from typing import Any

from egorecovery.evaluation.protocol import Regime
from egorecovery.experiments.condition import FULL, Condition
from egorecovery.training import Budget

Side = tuple[Condition, ...]  # of a comparison: one condition, or a curve, one method at several amounts of data


@dataclass(frozen=True, kw_only=True)
class Claim:
    """`better` succeeds more often than `worse`. Without `worse`: the rate of `better` lies below the ceiling.

    A side of several conditions is a curve, of which the average counts. Two curves are compared amount by amount.
    """

    id: str
    says: str
    worse: Side
    better: Side
    regime: Regime = "recovery"

    def __post_init__(self) -> None:
        assert not self.by_amount or len(self.worse) == len(self.better)

    @property
    def by_amount(self) -> bool:
        return len(self.worse) > 1 and len(self.better) > 1

    @property
    def amounts(self) -> int:
        """Along its curves; 1 where there are none."""
        return max(len(self.worse), len(self.better))


def claim(id: str, says: str, worse: Side, better: Side, regime: Regime = "recovery") -> Claim:
    return Claim(id=id, says=says, worse=worse, better=better, regime=regime)


def side(method: str, *budgets: Budget, **settings: Any) -> Side:
    """A method at one amount of data, the main one if none is named, or at several."""
    return tuple(Condition(method=method, budget=budget, **settings) for budget in budgets or (FULL,))
