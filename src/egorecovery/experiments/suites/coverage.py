"""Not the paper's: what would robot recoveries from every kind of failure give, and how much of that do human ones?

Labs stage few failures for a robot, and people show them all; "anywhere" means that recoveries begin at any of the
failures that evaluation draws. The last row is what five times the robot data does. Its store holds 260 such
recoveries, so another seed trains on another fifty or twenty of them.
"""

from collections.abc import Iterator
from itertools import chain

from egorecovery.experiments.condition import RobotFailures, episodes
from egorecovery.experiments.suites.suite import Claim, Side, Suite, side

COLLECTED: tuple[tuple[RobotFailures, int], ...] = (("staged", 50), ("anywhere", 50), ("anywhere", 20))
ROOM = "Robot recoveries from anywhere beat staged ones: there is something to gain."
LEFT = "Human recoveries do not replace coverage: as many robot ones from anywhere do better without them."


def _alone(failures: RobotFailures, robot: int) -> Side:
    return side("robot_recovery", episodes(50, robot), robot_failures=failures)


def _with_human(method: str, failures: RobotFailures, robot: int) -> Side:
    return side(method, episodes(50, robot, human_recovery=300), robot_failures=failures)


# By where and how many robot recoveries begin: alone, and with human ones either way.
rows = {
    data: (_alone(*data), _with_human("direct_human_recovery_mix", *data), _with_human("egorecovery", *data))
    for data in COLLECTED
}
staged, anywhere, many = _alone("staged", 50), _alone("anywhere", 50), _alone("anywhere", 250)


def _claims() -> Iterator[Claim]:
    yield Claim("coverage_room", ROOM, staged, anywhere)
    yield Claim("coverage_left", LEFT, side("egorecovery"), anywhere)
    yield Claim("coverage_most", "Five times as many from anywhere gain more.", anywhere, many)
    for (failures, robot), (alone, direct, full) in rows.items():
        name, begin = f"{failures}_{robot}", "anywhere" if failures == "anywhere" else "at staged failures"
        where = f"Where {robot} robot recoveries begin {begin}"
        yield Claim(f"coverage_mix_{name}", f"{where}, human ones help when mixed in.", alone, direct)
        yield Claim(f"coverage_full_{name}", f"{where}, human ones help through EgoRecovery.", alone, full)
        yield Claim(f"coverage_pathway_{name}", f"{where}, EgoRecovery beats the direct mix.", direct, full)


SUITE = Suite(
    name="coverage",
    title="Where robot recoveries begin",
    by_budget=True,
    conditions=tuple(chain(*chain(*rows.values()), many)),
    claims=tuple(_claims()),
)
