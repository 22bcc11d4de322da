"""Not the paper's: where robot recoveries are few, do people's recoveries help, or any data of people?

Successes show the scene and no correction. The store is that of `main`, so another seed draws another twenty.
"""

from egorecovery.experiments.condition import episodes
from egorecovery.experiments.suites.suite import Claim, Suite, side

robot = side("robot_recovery", episodes(50, 20))
successes = side("human_success_mix", episodes(50, 20, human_success=300))
direct = side("direct_human_recovery_mix", episodes(50, 20, human_recovery=300))
full = side("egorecovery", episodes(50, 20, human_recovery=300))
KIND = "Human recoveries help more than human successes: people teach the correction."

SUITE = Suite(
    name="scarce_robot",
    title="Few robot recoveries",
    by_budget=True,
    shares_stores_with=("main",),
    conditions=robot + successes + direct + full,
    claims=(
        Claim("scarce_successes", "With 20 robot recoveries, human successes help.", robot, successes),
        Claim("scarce_mix", "With 20 robot recoveries, human ones help when mixed in.", robot, direct),
        Claim("scarce_full", "With 20 robot recoveries, human ones help through EgoRecovery.", robot, full),
        Claim("scarce_kind", KIND, successes, direct),
        Claim("scarce_pathway", "EgoRecovery beats the direct mix.", direct, full),
    ),
)
