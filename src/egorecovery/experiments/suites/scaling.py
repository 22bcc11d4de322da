"""More human episodes, of either kind."""

from egorecovery.experiments.claims import claim, side
from egorecovery.experiments.condition import Condition, episodes
from egorecovery.experiments.suites.suite import Suite

AMOUNTS = (200, 300, 500, 800)
OUR_AMOUNTS = (100, 300, 800)
SUCCESS = {amount: episodes(50, 50, human_success=amount) for amount in AMOUNTS}
RECOVERY = {amount: episodes(50, 50, human_recovery=amount) for amount in AMOUNTS}
nominal = {amount: side("human_success_mix", budget) for amount, budget in SUCCESS.items()}
full = {amount: side("egorecovery", budget) for amount, budget in RECOVERY.items()}
curves = side("human_success_mix", *SUCCESS.values()), side("egorecovery", *RECOVERY.values())
effector = side("robot_recovery_effector", episodes(50, 50))
shared = {amount: side("shared_decoder", episodes(50, 50, human_recovery=amount)) for amount in OUR_AMOUNTS}
OVER_ALL = "Over all amounts, EgoRecovery {} more often than the human success mix."

SUITE = Suite(
    name="scaling",
    title="Human data scaling",
    layout="curves",
    of_paper=True,
    by_budget=True,
    shares_stores_with=("cost_matched", "low_robot_grounding"),
    conditions=(
        *(
            Condition(method=method, budget=budgets[amount])
            for amount in AMOUNTS
            for method, budgets in (("human_success_mix", SUCCESS), ("egorecovery", RECOVERY))
        ),
        # Ours.
        *effector,
        *(condition for amount in OUR_AMOUNTS for condition in shared[amount]),
    ),
    claims=(
        claim("scaling_curve_recovery", OVER_ALL.format("recovers"), *curves),
        claim("scaling_curve_initial", OVER_ALL.format("succeeds from nominal starts"), *curves, "initial"),
        *(
            claim(
                f"scaling_{amount}",
                f"At {amount} human episodes, EgoRecovery recovers more often than the human success mix.",
                nominal[amount],
                full[amount],
            )
            for amount in AMOUNTS
        ),
        claim(
            "scaling_recovery",
            "More human recovery data helps EgoRecovery: Recovery SR at 800 against 200.",
            full[200],
            full[800],
        ),
        claim(
            "scaling_nominal",
            "More human success data helps Initial SR: 800 against 200.",
            nominal[200],
            nominal[800],
            "initial",
        ),
        # Ours.
        *(
            claim(
                f"scaling_shared_{amount}",
                f"{amount} human recoveries help through a shared decoder.",
                effector,
                shared[amount],
            )
            for amount in OUR_AMOUNTS
        ),
        claim(
            "scaling_shared",
            "More human recovery data helps a shared decoder: Recovery SR at 800 against 100.",
            shared[100],
            shared[800],
        ),
    ),
)
