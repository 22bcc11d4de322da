"""Few robot recoveries, more and more human ones."""

from egorecovery.experiments.claims import claim, side
from egorecovery.experiments.condition import episodes, method_title
from egorecovery.experiments.suites.mixtures import both_methods, curve_claims, robot_only
from egorecovery.experiments.suites.suite import Suite

MIXES = {human: episodes(50, 20, human_recovery=human) for human in (100, 200, 300, 400, 500, 600)}
HELPS = "With 20 robot recoveries, human ones help: all amounts"
alone = side("robot_recovery", episodes(50, 20))
effector = side("robot_recovery_effector", episodes(50, 20))
shared = {human: side("shared_decoder", MIXES[human]) for human in (100, 300, 600)}

SUITE = Suite(
    name="low_robot_grounding",
    title="Low robot grounding",
    layout="curves",
    of_paper=True,
    by_budget=True,
    shares_stores_with=("scaling", "cost_matched"),
    conditions=(
        robot_only(20),
        *both_methods(MIXES.values()),
        # Ours.
        *effector,
        *(condition for amount in shared.values() for condition in amount),
    ),
    claims=(
        *curve_claims("low", HELPS, "amounts", alone, MIXES.values()),
        claim(
            "low_any",
            "With 20 robot recoveries, 600 human ones through EgoRecovery help.",
            alone,
            side("egorecovery", MIXES[600]),
        ),
        *(
            claim(
                f"low_more_{method}",
                f"More human recovery helps {method_title(method)}: 600 against 100.",
                side(method, MIXES[100]),
                side(method, MIXES[600]),
            )
            for method in ("egorecovery", "direct_human_recovery_mix")
        ),
        *(
            claim(
                f"low_pathway_{human}",
                f"With 20 robot and {human} human recoveries EgoRecovery beats the direct mix.",
                side("direct_human_recovery_mix", budget),
                side("egorecovery", budget),
            )
            for human, budget in MIXES.items()
        ),
        # Ours.
        *(
            claim(
                f"low_shared_{human}",
                f"With 20 robot recoveries, {human} human ones help through a shared decoder.",
                effector,
                amount,
            )
            for human, amount in shared.items()
        ),
        claim(
            "low_more_shared_decoder",
            "More human recovery helps a shared decoder: 600 against 100.",
            shared[100],
            shared[600],
        ),
    ),
)
