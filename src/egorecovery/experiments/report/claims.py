"""What the paper found, and what we ask beside it, as claims that can be tested: this arm does better than that one."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.experiments.report.arms import Arm, Sources
from egorecovery.experiments.report.paper import MAIN
from egorecovery.experiments.suites import COLLECTED


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Something the paper found, or that would explain it. With `better` only: its rate lies below the ceiling."""

    id: str
    suite: str
    says: str
    worse: Arm | None
    better: Arm
    regime: Regime = "recovery"


def arm(method: str, budget: Sources = MAIN, **acts: Any) -> Arm:
    return Arm(method=method, budget=budget, **acts)


def claims(suite: str) -> list[Claim]:
    """What this suite tests."""
    made = {
        "main": _main,
        "ablation": _ablation,
        "gate_intervention": _gate,
        "scaling": _scaling,
        "cost_matched": _cost_matched,
        "low_robot_grounding": _low_grounding,
        "intent_target": _intent_target,
        "coverage": _coverage,
        "stand_ins": _stand_ins,
    }
    return list(made[suite]()) if suite in made else []


def _main() -> Iterable[Claim]:
    success, both = arm("robot_success", Sources(50)), arm("robot_success_human_success", Sources(50, 0, 300))
    human = arm("robot_success_human_recovery", Sources(50, 0, 0, 300))
    robot, nominal = arm("robot_recovery", Sources(50, 50)), arm("human_success_mix", Sources(50, 50, 300))
    direct, full = arm("direct_human_recovery_mix"), arm("egorecovery")
    said: list[tuple[str, str, Arm | None, Arm, Regime]] = [
        ("nominal", "Nominal robot data does not recover.", None, success, "recovery"),
        ("nominal_human", "Adding nominal human data does not change that.", None, both, "recovery"),
        ("robot_recovery", "Robot recovery data teaches recovery.", success, robot, "recovery"),
        ("grounding", "Human recovery without robot recovery is not enough.", human, robot, "recovery"),
        ("human_success", "On top of robot recovery, human success data helps.", robot, nominal, "recovery"),
        ("direct_mix", "On top of robot recovery, human recovery data helps when mixed in.", robot, direct, "recovery"),
        ("kind", "Human recovery data helps recovery more than human success data.", nominal, direct, "recovery"),
        ("pathway", "EgoRecovery beats the direct mix of the same data: Recovery SR.", direct, full, "recovery"),
        ("pathway_initial", "EgoRecovery beats the direct mix of the same data: Initial SR.", direct, full, "initial"),
        ("over_robot", "EgoRecovery beats robot recovery data alone.", robot, full, "recovery"),
        ("over_nominal", "EgoRecovery recovers where success-only training does not.", success, full, "recovery"),
    ]
    return [
        Claim(id=name, suite="main", says=says, worse=worse, better=better, regime=regime)
        for name, says, worse, better, regime in said
    ]


def _ablation() -> Iterable[Claim]:
    full = arm("egorecovery")
    said: list[tuple[str, str, Arm, Regime]] = [
        ("intent_loss", "The intent loss matters.", arm("without_intent_loss"), "recovery"),
        ("segment_mask", "The corrective segment mask matters.", arm("without_segment_mask"), "recovery"),
        ("modulation", "Intent must modulate the action decoder.", arm("without_intent_modulation"), "recovery"),
        (
            "zero_intent",
            "Setting the intent to 0 at test time hurts.",
            arm("egorecovery", zero_intent=True),
            "recovery",
        ),
        ("always_on", "Always-on modulation costs Recovery SR.", arm("always_on_modulation"), "recovery"),
        ("always_on_initial", "The gate protects nominal execution.", arm("always_on_modulation"), "initial"),
        ("direct_mix", "The same data without the pathway does worse.", arm("direct_human_recovery_mix"), "recovery"),
    ]
    return [
        Claim(id=f"ablation_{name}", suite="ablation", says=says, worse=worse, better=full, regime=regime)
        for name, says, worse, regime in said
    ]


def _gate() -> Iterable[Claim]:
    words = {"0": "shut", "0.5": "half open", "1": "open", "shuffled": "to shuffled values"}
    for gate, word in words.items():
        for regime in reversed(REGIMES):
            yield Claim(
                id=f"gate_{gate}_{regime}",
                suite="gate_intervention",
                says=f"A gate forced {word} does worse than the learned one: {regime.capitalize()} SR.",
                worse=arm("egorecovery", gate=gate),
                better=arm("egorecovery"),
                regime=regime,
            )


def _scaling() -> Iterable[Claim]:
    most = {size: arm("egorecovery", Sources(50, 50, 0, size)) for size in (200, 300, 500, 800)}
    nominal = {size: arm("human_success_mix", Sources(50, 50, size)) for size in most}
    for size in most:
        yield Claim(
            id=f"scaling_{size}",
            suite="scaling",
            says=f"At {size} human episodes, EgoRecovery recovers more often than the human success mix.",
            worse=nominal[size],
            better=most[size],
        )
    yield Claim(
        id="scaling_recovery",
        suite="scaling",
        says="More human recovery data helps EgoRecovery: Recovery SR at 800 against 200.",
        worse=most[200],
        better=most[800],
    )
    yield Claim(
        id="scaling_nominal",
        suite="scaling",
        says="More human success data helps Initial SR: 800 against 200.",
        worse=nominal[200],
        better=nominal[800],
        regime="initial",
    )


def _cost_matched() -> Iterable[Claim]:
    mixes = {robot: Sources(50, robot, 0, 10 * (80 - robot)) for robot in (70, 60, 50, 40, 30, 20)}
    yield Claim(
        id="cost_substitution",
        suite="cost_matched",
        says="At the same cost, 50 robot and 300 human recoveries beat 80 robot ones.",
        worse=arm("robot_recovery", Sources(50, 80)),
        better=arm("egorecovery", mixes[50]),
    )
    for robot, budget in mixes.items():
        yield Claim(
            id=f"cost_pathway_{robot}",
            suite="cost_matched",
            says=f"With {robot} robot and {budget.human} human recoveries EgoRecovery beats the direct mix.",
            worse=arm("direct_human_recovery_mix", budget),
            better=arm("egorecovery", budget),
        )
    yield Claim(
        id="cost_anchor",
        suite="cost_matched",
        says="Replacing too much robot recovery hurts: 20 + 600 is worse than 50 + 300.",
        worse=arm("egorecovery", mixes[20]),
        better=arm("egorecovery", mixes[50]),
    )


def _low_grounding() -> Iterable[Claim]:
    mixes = {human: Sources(50, 20, 0, human) for human in (100, 200, 300, 400, 500, 600)}
    yield Claim(
        id="low_any",
        suite="low_robot_grounding",
        says="With 20 robot recoveries, 600 human ones through EgoRecovery help.",
        worse=arm("robot_recovery", Sources(50, 20)),
        better=arm("egorecovery", mixes[600]),
    )
    for method in ("egorecovery", "direct_human_recovery_mix"):
        yield Claim(
            id=f"low_more_{method}",
            suite="low_robot_grounding",
            says=f"More human recovery helps {arm(method).label}: 600 against 100.",
            worse=arm(method, mixes[100]),
            better=arm(method, mixes[600]),
        )
    for human, budget in mixes.items():
        yield Claim(
            id=f"low_pathway_{human}",
            suite="low_robot_grounding",
            says=f"With 20 robot and {human} human recoveries EgoRecovery beats the direct mix.",
            worse=arm("direct_human_recovery_mix", budget),
            better=arm("egorecovery", budget),
        )


def _intent_target() -> Iterable[Claim]:
    others = {
        "raw_future_trajectory": "the raw future trajectory",
        "future_trajectory_latent": "a latent of it",
        "observation_latent": "a latent of observations",
    }
    for method, words in others.items():
        yield Claim(
            id=f"target_{method}",
            suite="intent_target",
            says=f"Four magnitudes are a better intent than {words}.",
            worse=arm(method),
            better=arm("egorecovery"),
        )


def _stand_ins() -> Iterable[Claim]:
    for method, how in {"direct_human_recovery_mix": "when mixed in", "egorecovery": "through EgoRecovery"}.items():
        robots = arm(method, humans="stand_ins")
        yield Claim(
            id=f"stand_ins_help_{method}",
            suite="stand_ins",
            says=f"Robots in people's place help {how}: told as hands, demonstrations still reach the robot's actions.",
            worse=arm("robot_recovery", Sources(50, 50)),
            better=robots,
        )
        yield Claim(
            id=f"stand_ins_more_{method}",
            suite="stand_ins",
            says=f"They help more than people do {how}: something is lost by how people look, move and are tracked.",
            worse=arm(method),
            better=robots,
        )


def _coverage() -> Iterable[Claim]:
    def alone(failures: str, robot: int) -> Arm:
        return arm("robot_recovery", Sources(50, robot), robot_failures=failures)

    said = [
        (
            "room",
            "Robot recoveries from anywhere beat staged ones: there is something to gain.",
            alone("staged", 50),
            alone("anywhere", 50),
        ),
        (
            "left",
            "Human recoveries do not replace coverage: as many robot ones from anywhere do better without them.",
            arm("egorecovery", robot_failures="staged"),
            alone("anywhere", 50),
        ),
        ("most", "Five times as many from anywhere gain more.", alone("anywhere", 50), alone("anywhere", 250)),
    ]
    for failures, robot in COLLECTED:
        where = f"Where {robot} robot recoveries begin {'anywhere' if failures == 'anywhere' else 'at staged failures'}"
        base, data = alone(failures, robot), Sources(50, robot, 0, 300)
        direct = arm("direct_human_recovery_mix", data, robot_failures=failures)
        full = arm("egorecovery", data, robot_failures=failures)
        said += [
            (f"mix_{failures}_{robot}", f"{where}, human ones help when mixed in.", base, direct),
            (f"full_{failures}_{robot}", f"{where}, human ones help through EgoRecovery.", base, full),
            (f"pathway_{failures}_{robot}", f"{where}, EgoRecovery beats the direct mix.", direct, full),
        ]
    for name, says, worse, better in said:
        yield Claim(id=f"coverage_{name}", suite="coverage", says=says, worse=worse, better=better)
