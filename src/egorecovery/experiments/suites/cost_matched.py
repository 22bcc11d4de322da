"""Ten robot recoveries cost an operator as much as a hundred human ones: the same hours, spent differently."""

from egorecovery.experiments.condition import episodes
from egorecovery.experiments.suites.mixtures import both_methods, curve_claims, pathway_claims
from egorecovery.experiments.suites.suite import Claim, Suite, side

MIXES = {robot: episodes(50, robot, human_recovery=10 * (80 - robot)) for robot in (70, 60, 50, 40, 30, 20)}
HELPS = "At the same cost, mixtures of robot and human recoveries beat 80 robot ones:"
SUBSTITUTION = "At the same cost, 50 robot and 300 human recoveries{} beat 80 robot ones."
TOO_MUCH = "Replacing too much robot recovery hurts: 20 + 600 is worse than 50 + 300."
alone = side("robot_recovery", episodes(50, 80))
full = {robot: side("egorecovery", budget) for robot, budget in MIXES.items()}
# Ours.
effector = side("robot_recovery_effector", episodes(50, 80))
shared = side("shared_decoder", *MIXES.values())
shared_50 = side("shared_decoder", MIXES[50])

SUITE = Suite(
    name="cost_matched",
    title="Cost-matched substitution",
    layout="curves",
    of_paper=True,
    by_budget=True,
    shares_stores_with=("scaling", "low_robot_grounding"),
    conditions=alone + both_methods(*MIXES.values()) + effector + shared,
    claims=(
        *curve_claims("cost", HELPS, "mixtures", alone, MIXES.values()),
        Claim("cost_curve_shared", f"{HELPS} through a shared decoder.", effector, shared),
        Claim("cost_substitution", SUBSTITUTION.format(""), alone, full[50]),
        *pathway_claims("cost", MIXES),
        Claim("cost_anchor", TOO_MUCH, full[20], full[50]),
        Claim("cost_substitution_shared", SUBSTITUTION.format(" through a shared decoder"), effector, shared_50),
    ),
)
