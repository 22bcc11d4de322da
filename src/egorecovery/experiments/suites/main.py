"""The paper's seven ways to use the data, and ours: both embodiments in effector space, with one decoder."""

from egorecovery.experiments.condition import episodes
from egorecovery.experiments.suites.suite import Claim, Suite, side

success = side("robot_success", episodes(50))
both = side("robot_success_human_success", episodes(50, human_success=300))
ungrounded = side("robot_success_human_recovery", episodes(50, human_recovery=300))
robot = side("robot_recovery", episodes(50, 50))
nominal = side("human_success_mix", episodes(50, 50, human_success=300))
direct = side("direct_human_recovery_mix")
full = side("egorecovery")
# Ours.
effector = side("robot_recovery_effector", episodes(50, 50))
shared = side("shared_decoder")
shared_full = side("shared_egorecovery")

SUITE = Suite(
    name="main",
    title="Main comparison",
    of_paper=True,
    conditions=success + both + ungrounded + robot + nominal + direct + full + effector + shared + shared_full,
    claims=(
        Claim("nominal", "Nominal robot data does not recover.", (), success),
        Claim("nominal_human", "Adding nominal human data does not change that.", (), both),
        Claim("robot_recovery", "Robot recovery data teaches recovery.", success, robot),
        Claim("grounding", "Human recovery without robot recovery is not enough.", ungrounded, robot),
        Claim("human_success", "On top of robot recovery, human success data helps.", robot, nominal),
        Claim("direct_mix", "On top of robot recovery, human recovery data helps when mixed in.", robot, direct),
        Claim("kind", "Human recovery data helps recovery more than human success data.", nominal, direct),
        Claim("pathway", "EgoRecovery beats the direct mix of the same data: Recovery SR.", direct, full),
        Claim(
            "pathway_initial", "EgoRecovery beats the direct mix of the same data: Initial SR.", direct, full, "initial"
        ),
        Claim("over_robot", "EgoRecovery beats robot recovery data alone.", robot, full),
        Claim("over_nominal", "EgoRecovery recovers where success-only training does not.", success, full),
        # Ours.
        Claim("effector", "Robot recovery data does better in effector space.", robot, effector),
        Claim("shared", "A shared decoder beats robot recovery alone, both in effector space.", effector, shared),
        Claim("shared_joint", "A shared decoder beats robot recovery alone in joint space.", robot, shared),
        Claim("shared_direct", "A shared decoder beats the direct mix of the same data.", direct, shared),
        Claim("shared_initial", "Human clips help from nominal starts as well.", effector, shared, "initial"),
        Claim("shared_intent", "Gate and intent add to a shared decoder.", shared, shared_full),
    ),
)
