"""More human episodes, of either kind."""

from itertools import chain

from egorecovery.experiments.condition import episodes
from egorecovery.experiments.suites.suite import Claim, Suite, side

AMOUNTS, OUR_AMOUNTS = (200, 300, 500, 800), (100, 300, 800)
SUCCESS = {amount: episodes(50, 50, human_success=amount) for amount in AMOUNTS}
RECOVERY = {amount: episodes(50, 50, human_recovery=amount) for amount in (*AMOUNTS, *OUR_AMOUNTS)}
nominal = {amount: side("human_success_mix", SUCCESS[amount]) for amount in AMOUNTS}
full = {amount: side("egorecovery", RECOVERY[amount]) for amount in AMOUNTS}
curves = tuple(chain(*nominal.values())), tuple(chain(*full.values()))
# Ours.
effector = side("robot_recovery_effector", episodes(50, 50))
shared = {amount: side("shared_decoder", RECOVERY[amount]) for amount in OUR_AMOUNTS}
OVER_ALL = "Over all amounts, EgoRecovery {} more often than the human success mix."
AT = "At {} human episodes, EgoRecovery recovers more often than the human success mix."
MORE_RECOVERY = "More human recovery data helps {}: Recovery SR at 800 against {}."
MORE_SUCCESS = "More human success data helps Initial SR: 800 against 200."

SUITE = Suite(
    name="scaling",
    title="Human data scaling",
    layout="curves",
    of_paper=True,
    by_budget=True,
    shares_stores_with=("cost_matched", "low_robot_grounding"),
    conditions=(
        *chain(*(nominal[amount] + full[amount] for amount in AMOUNTS)),
        *(effector + shared[100] + shared[300] + shared[800]),
    ),
    claims=(
        Claim("scaling_curve_recovery", OVER_ALL.format("recovers"), *curves),
        Claim("scaling_curve_initial", OVER_ALL.format("succeeds from nominal starts"), *curves, "initial"),
        *(Claim(f"scaling_{amount}", AT.format(amount), nominal[amount], full[amount]) for amount in AMOUNTS),
        Claim("scaling_recovery", MORE_RECOVERY.format("EgoRecovery", 200), full[200], full[800]),
        Claim("scaling_nominal", MORE_SUCCESS, nominal[200], nominal[800], "initial"),
        # Ours.
        *(
            Claim(
                f"scaling_shared_{amount}",
                f"{amount} human recoveries help through a shared decoder.",
                effector,
                shared[amount],
            )
            for amount in OUR_AMOUNTS
        ),
        Claim("scaling_shared", MORE_RECOVERY.format("a shared decoder", 100), shared[100], shared[800]),
    ),
)
