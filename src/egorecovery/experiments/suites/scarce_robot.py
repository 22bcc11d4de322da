"""Not the paper's: where robot recoveries are few, do people's recoveries help, or any data of people?

Successes show the scene and no correction. The store is that of `main`, so another seed draws another twenty.
"""

from egorecovery.experiments.claims import claim, side
from egorecovery.experiments.condition import Condition, episodes
from egorecovery.experiments.suites.mixtures import both_methods, robot_only
from egorecovery.experiments.suites.suite import Suite

SUCCESSES, RECOVERIES = episodes(50, 20, human_success=300), episodes(50, 20, human_recovery=300)
robot, successes = side("robot_recovery", episodes(50, 20)), side("human_success_mix", SUCCESSES)
direct, full = side("direct_human_recovery_mix", RECOVERIES), side("egorecovery", RECOVERIES)

SUITE = Suite(
    name="scarce_robot",
    title="Few robot recoveries",
    by_budget=True,
    shares_stores_with=("main",),
    conditions=(
        robot_only(20),
        Condition(method="human_success_mix", budget=SUCCESSES),
        *both_methods([RECOVERIES]),
    ),
    claims=(
        claim("scarce_successes", "With 20 robot recoveries, human successes help.", robot, successes),
        claim("scarce_mix", "With 20 robot recoveries, human ones help when mixed in.", robot, direct),
        claim("scarce_full", "With 20 robot recoveries, human ones help through EgoRecovery.", robot, full),
        claim(
            "scarce_kind",
            "Human recoveries help more than human successes: people teach the correction.",
            successes,
            direct,
        ),
        claim("scarce_pathway", "EgoRecovery beats the direct mix.", direct, full),
    ),
)
