"""What suites about mixtures of robot and human recoveries share: rows of both methods, and claims about curves."""

from collections.abc import Collection, Iterable, Iterator

from egorecovery.experiments.claims import Claim, Side, claim, side
from egorecovery.experiments.condition import Condition, episodes
from egorecovery.training import Budget

BOTH_METHODS = ("direct_human_recovery_mix", "egorecovery")


def robot_only(robot_recovery: int) -> Condition:
    return Condition(method="robot_recovery", budget=episodes(50, robot_recovery))


def both_methods(budgets: Iterable[Budget]) -> list[Condition]:
    return [Condition(method=method, budget=budget) for budget in budgets for method in BOTH_METHODS]


def curve_claims(prefix: str, helps: str, along: str, alone: Side, mixes: Collection[Budget]) -> Iterator[Claim]:
    """Human recoveries, either way, against robot recoveries alone; then the two ways against each other."""
    direct, full = (side(method, *mixes) for method in BOTH_METHODS)
    yield claim(f"{prefix}_curve_full", f"{helps} through EgoRecovery.", alone, full)
    yield claim(f"{prefix}_curve_mix", f"{helps} mixed in.", alone, direct)
    yield claim(f"{prefix}_curve_pathway", f"Over all {along}, EgoRecovery beats the direct mix.", direct, full)
