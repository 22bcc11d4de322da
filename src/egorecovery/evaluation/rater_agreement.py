"""How far two scorers of the same rollouts agree."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from egorecovery.errors import EgoRecoveryError


class AgreementError(EgoRecoveryError):
    """Verdicts that cannot be compared."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Of two scorers over the same rollouts."""

    rollouts: int
    agreed: int
    kappa: float | None  # Cohen's; None where both gave one and the same verdict throughout, which says nothing

    @property
    def raw(self) -> float:
        return self.agreed / self.rollouts

    def __str__(self) -> str:
        kappa = "not defined (one verdict throughout)" if self.kappa is None else f"{self.kappa:.2f}"
        return f"{self.agreed}/{self.rollouts} ({100 * self.raw:.1f}%), Cohen's kappa {kappa}"


def agreement(first: Sequence[Hashable], second: Sequence[Hashable]) -> Agreement:
    """Cohen's kappa: agreement beyond what the two would reach by chance, given how often each gives each verdict."""
    if len(first) != len(second):
        raise AgreementError(f"two scorers of the same rollouts give as many verdicts; got {len(first)}, {len(second)}")
    if not first:
        raise AgreementError("there are no rollouts that both have scored")
    total = len(first)
    agreed = sum(ours == theirs for ours, theirs in zip(first, second, strict=True))
    ours, theirs = Counter(first), Counter(second)
    by_chance = sum(ours[verdict] * theirs[verdict] for verdict in ours)  # times total squared: whole numbers are exact
    possible = total * total - by_chance
    kappa = (agreed * total - by_chance) / possible if possible else None
    return Agreement(rollouts=total, agreed=agreed, kappa=kappa)
