"""Ten robot recoveries cost an operator as much as a hundred human ones: the same hours, spent differently."""

from egorecovery.experiments.claims import claim, side
from egorecovery.experiments.condition import episodes
from egorecovery.experiments.suites.mixtures import both_methods, curve_claims, robot_only
from egorecovery.experiments.suites.suite import Suite

MIXES = {robot: episodes(50, robot, human_recovery=10 * (80 - robot)) for robot in (70, 60, 50, 40, 30, 20)}
HELPS = "At the same cost, mixtures of robot and human recoveries beat 80 robot ones:"
alone = side("robot_recovery", episodes(50, 80))
full = {robot: side("egorecovery", budget) for robot, budget in MIXES.items()}
effector = side("robot_recovery_effector", episodes(50, 80))
shared = side("shared_decoder", *MIXES.values())

SUITE = Suite(
    name="cost_matched",
    title="Cost-matched substitution",
    layout="curves",
    of_paper=True,
    by_budget=True,
    shares_stores_with=("scaling", "low_robot_grounding"),
    conditions=(robot_only(80), *both_methods(MIXES.values()), *effector, *shared),  # the last two are ours
    claims=(
        *curve_claims("cost", HELPS, "mixtures", alone, MIXES.values()),
        claim("cost_curve_shared", f"{HELPS} through a shared decoder.", effector, shared),
        claim(
            "cost_substitution",
            "At the same cost, 50 robot and 300 human recoveries beat 80 robot ones.",
            alone,
            full[50],
        ),
        *(
            claim(
                f"cost_pathway_{robot}",
                f"With {robot} robot and {budget.human_recovery} human recoveries EgoRecovery beats the direct mix.",
                side("direct_human_recovery_mix", budget),
                full[robot],
            )
            for robot, budget in MIXES.items()
        ),
        claim(
            "cost_anchor",
            "Replacing too much robot recovery hurts: 20 + 600 is worse than 50 + 300.",
            full[20],
            full[50],
        ),
        # Ours.
        claim(
            "cost_substitution_shared",
            "At the same cost, 50 robot and 300 human recoveries through a shared decoder beat 80 robot ones.",
            effector,
            side("shared_decoder", MIXES[50]),
        ),
    ),
)
