"""Few robot recoveries, more and more human ones."""

from egorecovery.experiments.condition import episodes, method_title
from egorecovery.experiments.suites.mixtures import both_methods, curve_claims, pathway_claims
from egorecovery.experiments.suites.suite import Claim, Suite, side

MIXES = {human: episodes(50, 20, human_recovery=human) for human in (100, 200, 300, 400, 500, 600)}
HELPS = "With 20 robot recoveries, human ones help: all amounts"
HELP = "With 20 robot recoveries, {} human ones {}."
MORE = "More human recovery helps {}: 600 against 100."
alone = side("robot_recovery", episodes(50, 20))
full = {human: side("egorecovery", budget) for human, budget in MIXES.items()}
direct = {human: side("direct_human_recovery_mix", budget) for human, budget in MIXES.items()}
# Ours.
effector = side("robot_recovery_effector", episodes(50, 20))
shared = {human: side("shared_decoder", MIXES[human]) for human in (100, 300, 600)}

SUITE = Suite(
    name="low_robot_grounding",
    title="Low robot grounding",
    layout="curves",
    of_paper=True,
    by_budget=True,
    shares_stores_with=("scaling", "cost_matched"),
    conditions=alone + both_methods(*MIXES.values()) + effector + shared[100] + shared[300] + shared[600],
    claims=(
        *curve_claims("low", HELPS, "amounts", alone, MIXES.values()),
        Claim("low_any", HELP.format(600, "through EgoRecovery help"), alone, full[600]),
        Claim("low_more_egorecovery", MORE.format("EgoRecovery"), full[100], full[600]),
        Claim(
            "low_more_direct_human_recovery_mix",
            MORE.format(method_title("direct_human_recovery_mix")),
            direct[100],
            direct[600],
        ),
        *pathway_claims("low", MIXES),
        # Ours.
        *(
            Claim(f"low_shared_{human}", HELP.format(human, "help through a shared decoder"), effector, amount)
            for human, amount in shared.items()
        ),
        Claim("low_more_shared_decoder", MORE.format("a shared decoder"), shared[100], shared[600]),
    ),
)
