"""Not the paper's: is human data lost by how people look, move and are tracked, or by its other action space?

The robot demonstrates in people's place, from the same family of failures. It is filmed as it is; its episodes are
encoded as hand motion.
"""

from collections.abc import Iterator
from dataclasses import replace

from egorecovery.experiments.claims import Claim, claim, side
from egorecovery.experiments.condition import FULL, episodes
from egorecovery.experiments.suites.mixtures import both_methods, robot_only
from egorecovery.experiments.suites.suite import Suite

HOW = {"direct_human_recovery_mix": "when mixed in", "egorecovery": "through EgoRecovery"}
with_people = both_methods([FULL])


def _claims() -> Iterator[Claim]:
    for method, how in HOW.items():
        robots = side(method, humans="stand_ins")
        yield claim(
            f"stand_ins_help_{method}",
            f"Robots in people's place help {how}: encoded as hand motion, demonstrations still reach the robot's "
            "actions.",
            side("robot_recovery", episodes(50, 50)),
            robots,
        )
        yield claim(
            f"stand_ins_more_{method}",
            f"They help more than people do {how}: something is lost by how people look, move and are tracked.",
            side(method),
            robots,
        )


SUITE = Suite(
    name="stand_ins",
    title="Robots in people's place",
    conditions=(
        robot_only(50),
        *with_people,
        *(replace(condition, humans="stand_ins") for condition in with_people),
    ),
    claims=tuple(_claims()),
)
