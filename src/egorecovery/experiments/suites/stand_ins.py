"""Not the paper's: is human data lost by how people look, move and are tracked, or by its other action space?

The robot demonstrates in people's place, from the same family of failures. It is filmed as it is; its episodes are
encoded as hand motion.
"""

from collections.abc import Iterator
from dataclasses import replace

from egorecovery.experiments.condition import FULL, episodes
from egorecovery.experiments.suites.mixtures import both_methods
from egorecovery.experiments.suites.suite import Claim, Suite, side

HELP = "Robots in people's place help {}: encoded as hand motion, demonstrations still reach the robot's actions."
MORE = "They help more than people do {}: something is lost by how people look, move and are tracked."
robot_only = side("robot_recovery", episodes(50, 50))
with_people = both_methods(FULL)


def _claims() -> Iterator[Claim]:
    for method, how in (("direct_human_recovery_mix", "when mixed in"), ("egorecovery", "through EgoRecovery")):
        robots = side(method, humans="stand_ins")
        yield Claim(f"stand_ins_help_{method}", HELP.format(how), robot_only, robots)
        yield Claim(f"stand_ins_more_{method}", MORE.format(how), side(method), robots)


SUITE = Suite(
    name="stand_ins",
    title="Robots in people's place",
    conditions=(
        *robot_only,
        *with_people,
        *(replace(condition, humans="stand_ins") for condition in with_people),
    ),
    claims=tuple(_claims()),
)
