"""Not the paper's: what would robot recoveries from any failure give, and how much of that do human ones?

Labs stage few failures for a robot, and people show them all. The last row is what five times the robot data does. Its
store holds 260 recoveries from anywhere, so another seed trains on another fifty or twenty of them.
"""

from collections.abc import Iterator
from dataclasses import replace

from egorecovery.experiments.claims import Claim, Side, claim, side
from egorecovery.experiments.condition import Condition, RobotFailures, episodes
from egorecovery.experiments.suites.mixtures import both_methods, robot_only
from egorecovery.experiments.suites.suite import Suite

COLLECTED: tuple[tuple[RobotFailures, int], ...] = (("staged", 50), ("anywhere", 50), ("anywhere", 20))


def _conditions() -> Iterator[Condition]:
    for failures, robot in COLLECTED:
        for condition in (robot_only(robot), *both_methods([episodes(50, robot, human_recovery=300)])):
            yield replace(condition, robot_failures=failures)
    yield replace(robot_only(250), robot_failures="anywhere")


def _alone(failures: RobotFailures, robot: int) -> Side:
    return side("robot_recovery", episodes(50, robot), robot_failures=failures)


def _claims() -> Iterator[Claim]:
    anywhere = _alone("anywhere", 50)
    yield claim(
        "coverage_room",
        "Robot recoveries from anywhere beat staged ones: there is something to gain.",
        _alone("staged", 50),
        anywhere,
    )
    yield claim(
        "coverage_left",
        "Human recoveries do not replace coverage: as many robot ones from anywhere do better without them.",
        side("egorecovery"),
        anywhere,
    )
    yield claim("coverage_most", "Five times as many from anywhere gain more.", anywhere, _alone("anywhere", 250))
    for failures, robot in COLLECTED:
        where = f"Where {robot} robot recoveries begin {'anywhere' if failures == 'anywhere' else 'at staged failures'}"
        base, data = _alone(failures, robot), episodes(50, robot, human_recovery=300)
        direct = side("direct_human_recovery_mix", data, robot_failures=failures)
        full = side("egorecovery", data, robot_failures=failures)
        name = f"{failures}_{robot}"
        yield claim(f"coverage_mix_{name}", f"{where}, human ones help when mixed in.", base, direct)
        yield claim(f"coverage_full_{name}", f"{where}, human ones help through EgoRecovery.", base, full)
        yield claim(f"coverage_pathway_{name}", f"{where}, EgoRecovery beats the direct mix.", direct, full)


SUITE = Suite(
    name="coverage",
    title="Where robot recoveries begin",
    by_budget=True,
    conditions=tuple(_conditions()),
    claims=tuple(_claims()),
)
