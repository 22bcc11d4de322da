"""What suites about mixtures of robot and human recoveries share: rows of both methods, and claims about them."""

from collections.abc import Collection, Iterator, Mapping

from egorecovery.experiments.condition import Condition
from egorecovery.experiments.suites.suite import Claim, Side, side
from egorecovery.training import Budget

BOTH_METHODS = ("direct_human_recovery_mix", "egorecovery")


def both_methods(*budgets: Budget) -> Side:
    return tuple(Condition(method=method, budget=budget) for budget in budgets for method in BOTH_METHODS)


def curve_claims(prefix: str, helps: str, along: str, alone: Side, mixes: Collection[Budget]) -> Iterator[Claim]:
    """Human recoveries, either way, against robot recoveries alone; then the two ways against each other."""
    direct, full = (side(method, *mixes) for method in BOTH_METHODS)
    yield Claim(f"{prefix}_curve_full", f"{helps} through EgoRecovery.", alone, full)
    yield Claim(f"{prefix}_curve_mix", f"{helps} mixed in.", alone, direct)
    yield Claim(f"{prefix}_curve_pathway", f"Over all {along}, EgoRecovery beats the direct mix.", direct, full)


def pathway_claims(prefix: str, mixes: Mapping[int, Budget]) -> Iterator[Claim]:
    """The two ways against each other, amount by amount."""
    for amount, budget in mixes.items():
        direct, full = (side(method, budget) for method in BOTH_METHODS)
        mixture = f"{budget.robot_recovery} robot and {budget.human_recovery} human recoveries"
        yield Claim(f"{prefix}_pathway_{amount}", f"With {mixture} EgoRecovery beats the direct mix.", direct, full)
