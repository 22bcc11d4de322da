"""The paper's seven ways to use the data, and ours: both embodiments in effector space, with one decoder."""

from egorecovery.experiments.claims import claim, side
from egorecovery.experiments.condition import Condition, episodes
from egorecovery.experiments.suites.suite import Suite

ROBOT, HUMAN = 50, 300
NOMINAL = episodes(ROBOT)
NOMINAL_BOTH = episodes(ROBOT, human_success=HUMAN)
UNGROUNDED = episodes(ROBOT, human_recovery=HUMAN)
RECOVERY = episodes(ROBOT, ROBOT)
WITH_HUMAN_SUCCESS = episodes(ROBOT, ROBOT, human_success=HUMAN)
WITH_HUMAN_RECOVERY = episodes(ROBOT, ROBOT, human_recovery=HUMAN)

success = side("robot_success", NOMINAL)
robot = side("robot_recovery", RECOVERY)
direct = side("direct_human_recovery_mix", WITH_HUMAN_RECOVERY)
full = side("egorecovery", WITH_HUMAN_RECOVERY)
effector = side("robot_recovery_effector", RECOVERY)
shared = side("shared_decoder", WITH_HUMAN_RECOVERY)
shared_full = side("shared_egorecovery", WITH_HUMAN_RECOVERY)
both = side("robot_success_human_success", NOMINAL_BOTH)
ungrounded = side("robot_success_human_recovery", UNGROUNDED)
nominal = side("human_success_mix", WITH_HUMAN_SUCCESS)

SUITE = Suite(
    name="main",
    title="Main comparison",
    of_paper=True,
    conditions=(
        Condition(method="robot_success", budget=NOMINAL),
        Condition(method="robot_success_human_success", budget=NOMINAL_BOTH),
        Condition(method="robot_success_human_recovery", budget=UNGROUNDED),
        Condition(method="robot_recovery", budget=RECOVERY),
        Condition(method="human_success_mix", budget=WITH_HUMAN_SUCCESS),
        Condition(method="direct_human_recovery_mix", budget=WITH_HUMAN_RECOVERY),
        Condition(method="egorecovery", budget=WITH_HUMAN_RECOVERY),
        # Ours.
        Condition(method="robot_recovery_effector", budget=RECOVERY),
        Condition(method="shared_decoder", budget=WITH_HUMAN_RECOVERY),
        Condition(method="shared_egorecovery", budget=WITH_HUMAN_RECOVERY),
    ),
    claims=(
        claim("nominal", "Nominal robot data does not recover.", (), success),
        claim("nominal_human", "Adding nominal human data does not change that.", (), both),
        claim("robot_recovery", "Robot recovery data teaches recovery.", success, robot),
        claim("grounding", "Human recovery without robot recovery is not enough.", ungrounded, robot),
        claim("human_success", "On top of robot recovery, human success data helps.", robot, nominal),
        claim("direct_mix", "On top of robot recovery, human recovery data helps when mixed in.", robot, direct),
        claim("kind", "Human recovery data helps recovery more than human success data.", nominal, direct),
        claim("pathway", "EgoRecovery beats the direct mix of the same data: Recovery SR.", direct, full),
        claim(
            "pathway_initial", "EgoRecovery beats the direct mix of the same data: Initial SR.", direct, full, "initial"
        ),
        claim("over_robot", "EgoRecovery beats robot recovery data alone.", robot, full),
        claim("over_nominal", "EgoRecovery recovers where success-only training does not.", success, full),
        # Ours.
        claim("effector", "Robot recovery data does better in effector space.", robot, effector),
        claim("shared", "A shared decoder beats robot recovery alone, both in effector space.", effector, shared),
        claim("shared_joint", "A shared decoder beats robot recovery alone in joint space.", robot, shared),
        claim("shared_direct", "A shared decoder beats the direct mix of the same data.", direct, shared),
        claim("shared_initial", "Human clips help from nominal starts as well.", effector, shared, "initial"),
        claim("shared_intent", "Gate and intent add to a shared decoder.", shared, shared_full),
    ),
)
