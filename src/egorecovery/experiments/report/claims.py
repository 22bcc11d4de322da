"""What the paper found, and what we ask beside it, as claims that can be tested: this does better than that."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.experiments.report.arms import METHODS, Arm, Side, Sources
from egorecovery.experiments.report.paper import MAIN
from egorecovery.experiments.suites import COLLECTED


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Something the paper found, or that would explain it. With `better` only: its rate lies below the ceiling.

    A side of several arms is a curve, of which the average is asked. Two curves are compared amount by amount.
    """

    id: str
    suite: str
    says: str
    worse: Side
    better: Side
    regime: Regime = "recovery"

    def __post_init__(self) -> None:
        assert not self.by_amount or len(self.worse) == len(self.better)

    @property
    def by_amount(self) -> bool:
        return len(self.worse) > 1 and len(self.better) > 1

    @property
    def amounts(self) -> int:
        """Along its curves; 1 where there are none."""
        return max(len(self.worse), len(self.better))


def side(method: str, *budgets: Sources, **acts: Any) -> Side:
    """A method at one amount of data, the main one if none is named, or at several."""
    return tuple(Arm(method=method, budget=budget, **acts) for budget in budgets or (MAIN,))


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
        "scarce_robot": _scarce_robot,
    }
    return list(made[suite]()) if suite in made else []


def _main() -> Iterable[Claim]:
    success, both = side("robot_success", Sources(50)), side("robot_success_human_success", Sources(50, 0, 300))
    human = side("robot_success_human_recovery", Sources(50, 0, 0, 300))
    robot, nominal = side("robot_recovery", Sources(50, 50)), side("human_success_mix", Sources(50, 50, 300))
    direct, full = side("direct_human_recovery_mix"), side("egorecovery")
    effector = side("robot_recovery_effector", Sources(50, 50))
    shared, shared_full = side("shared_decoder"), side("shared_egorecovery")
    said: list[tuple[str, str, Side, Side, Regime]] = [
        ("nominal", "Nominal robot data does not recover.", (), success, "recovery"),
        ("nominal_human", "Adding nominal human data does not change that.", (), both, "recovery"),
        ("robot_recovery", "Robot recovery data teaches recovery.", success, robot, "recovery"),
        ("grounding", "Human recovery without robot recovery is not enough.", human, robot, "recovery"),
        ("human_success", "On top of robot recovery, human success data helps.", robot, nominal, "recovery"),
        ("direct_mix", "On top of robot recovery, human recovery data helps when mixed in.", robot, direct, "recovery"),
        ("kind", "Human recovery data helps recovery more than human success data.", nominal, direct, "recovery"),
        ("pathway", "EgoRecovery beats the direct mix of the same data: Recovery SR.", direct, full, "recovery"),
        ("pathway_initial", "EgoRecovery beats the direct mix of the same data: Initial SR.", direct, full, "initial"),
        ("over_robot", "EgoRecovery beats robot recovery data alone.", robot, full, "recovery"),
        ("over_nominal", "EgoRecovery recovers where success-only training does not.", success, full, "recovery"),
        # Ours.
        ("effector", "Robot recovery data does better in effector space.", robot, effector, "recovery"),
        (
            "shared",
            "A shared decoder beats robot recovery alone, both in effector space.",
            effector,
            shared,
            "recovery",
        ),
        ("shared_joint", "A shared decoder beats robot recovery alone in joint space.", robot, shared, "recovery"),
        ("shared_direct", "A shared decoder beats the direct mix of the same data.", direct, shared, "recovery"),
        ("shared_initial", "Human clips help from nominal starts as well.", effector, shared, "initial"),
        ("shared_intent", "Gate and intent add to a shared decoder.", shared, shared_full, "recovery"),
    ]
    return [
        Claim(id=name, suite="main", says=says, worse=worse, better=better, regime=regime)
        for name, says, worse, better, regime in said
    ]


def _ablation() -> Iterable[Claim]:
    full = side("egorecovery")
    said: list[tuple[str, str, Side, Regime]] = [
        ("intent_loss", "The intent loss matters.", side("without_intent_loss"), "recovery"),
        ("segment_mask", "The corrective segment mask matters.", side("without_segment_mask"), "recovery"),
        ("modulation", "Intent must modulate the action decoder.", side("without_intent_modulation"), "recovery"),
        (
            "zero_intent",
            "Setting the intent to 0 at test time hurts.",
            side("egorecovery", zero_intent=True),
            "recovery",
        ),
        ("always_on", "Always-on modulation costs Recovery SR.", side("always_on_modulation"), "recovery"),
        ("always_on_initial", "The gate protects nominal execution.", side("always_on_modulation"), "initial"),
        ("direct_mix", "The same data without the pathway does worse.", side("direct_human_recovery_mix"), "recovery"),
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
                worse=side("egorecovery", gate=gate),
                better=side("egorecovery"),
                regime=regime,
            )


def _scaling() -> Iterable[Claim]:
    most = {size: side("egorecovery", Sources(50, 50, 0, size)) for size in (200, 300, 500, 800)}
    nominal = {size: side("human_success_mix", Sources(50, 50, size)) for size in most}
    done: dict[Regime, str] = {"recovery": "recovers", "initial": "succeeds from nominal starts"}
    for regime, does in done.items():
        yield Claim(
            id=f"scaling_curve_{regime}",
            suite="scaling",
            says=f"Over all amounts, EgoRecovery {does} more often than the human success mix.",
            worse=sum(nominal.values(), ()),
            better=sum(most.values(), ()),
            regime=regime,
        )
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
    helps = "At the same cost, mixtures of robot and human recoveries beat 80 robot ones:"
    yield from _curves("cost", "cost_matched", helps, "mixtures", Sources(50, 80), mixes.values())
    yield Claim(
        id="cost_substitution",
        suite="cost_matched",
        says="At the same cost, 50 robot and 300 human recoveries beat 80 robot ones.",
        worse=side("robot_recovery", Sources(50, 80)),
        better=side("egorecovery", mixes[50]),
    )
    for robot, budget in mixes.items():
        yield Claim(
            id=f"cost_pathway_{robot}",
            suite="cost_matched",
            says=f"With {robot} robot and {budget.human} human recoveries EgoRecovery beats the direct mix.",
            worse=side("direct_human_recovery_mix", budget),
            better=side("egorecovery", budget),
        )
    yield Claim(
        id="cost_anchor",
        suite="cost_matched",
        says="Replacing too much robot recovery hurts: 20 + 600 is worse than 50 + 300.",
        worse=side("egorecovery", mixes[20]),
        better=side("egorecovery", mixes[50]),
    )


def _low_grounding() -> Iterable[Claim]:
    mixes = {human: Sources(50, 20, 0, human) for human in (100, 200, 300, 400, 500, 600)}
    helps = "With 20 robot recoveries, human ones help: all amounts"
    yield from _curves("low", "low_robot_grounding", helps, "amounts", Sources(50, 20), mixes.values())
    yield Claim(
        id="low_any",
        suite="low_robot_grounding",
        says="With 20 robot recoveries, 600 human ones through EgoRecovery help.",
        worse=side("robot_recovery", Sources(50, 20)),
        better=side("egorecovery", mixes[600]),
    )
    for method in ("egorecovery", "direct_human_recovery_mix"):
        yield Claim(
            id=f"low_more_{method}",
            suite="low_robot_grounding",
            says=f"More human recovery helps {METHODS[method]}: 600 against 100.",
            worse=side(method, mixes[100]),
            better=side(method, mixes[600]),
        )
    for human, budget in mixes.items():
        yield Claim(
            id=f"low_pathway_{human}",
            suite="low_robot_grounding",
            says=f"With 20 robot and {human} human recoveries EgoRecovery beats the direct mix.",
            worse=side("direct_human_recovery_mix", budget),
            better=side("egorecovery", budget),
        )


def _curves(
    name: str, suite: str, helps: str, along: str, alone: Sources, mixes: Collection[Sources]
) -> Iterable[Claim]:
    """Human recoveries, either way, against robot recoveries alone; then the two ways against each other."""
    full, direct = side("egorecovery", *mixes), side("direct_human_recovery_mix", *mixes)
    robot = side("robot_recovery", alone)
    said = [
        ("full", f"{helps} through EgoRecovery.", robot, full),
        ("mix", f"{helps} mixed in.", robot, direct),
        ("pathway", f"Over all {along}, EgoRecovery beats the direct mix.", direct, full),
    ]
    for which, says, worse, better in said:
        yield Claim(id=f"{name}_curve_{which}", suite=suite, says=says, worse=worse, better=better)


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
            worse=side(method),
            better=side("egorecovery"),
        )


def _stand_ins() -> Iterable[Claim]:
    for method, how in {"direct_human_recovery_mix": "when mixed in", "egorecovery": "through EgoRecovery"}.items():
        robots = side(method, humans="stand_ins")
        yield Claim(
            id=f"stand_ins_help_{method}",
            suite="stand_ins",
            says=f"Robots in people's place help {how}: told as hands, demonstrations still reach the robot's actions.",
            worse=side("robot_recovery", Sources(50, 50)),
            better=robots,
        )
        yield Claim(
            id=f"stand_ins_more_{method}",
            suite="stand_ins",
            says=f"They help more than people do {how}: something is lost by how people look, move and are tracked.",
            worse=side(method),
            better=robots,
        )


def _scarce_robot() -> Iterable[Claim]:
    robot, recoveries = side("robot_recovery", Sources(50, 20)), Sources(50, 20, 0, 300)
    successes = side("human_success_mix", Sources(50, 20, 300))
    direct, full = side("direct_human_recovery_mix", recoveries), side("egorecovery", recoveries)
    said = [
        ("successes", "With 20 robot recoveries, human successes help.", robot, successes),
        ("mix", "With 20 robot recoveries, human ones help when mixed in.", robot, direct),
        ("full", "With 20 robot recoveries, human ones help through EgoRecovery.", robot, full),
        ("kind", "Human recoveries help more than human successes: people teach the correction.", successes, direct),
        ("pathway", "EgoRecovery beats the direct mix.", direct, full),
    ]
    for name, says, worse, better in said:
        yield Claim(id=f"scarce_{name}", suite="scarce_robot", says=says, worse=worse, better=better)


def _coverage() -> Iterable[Claim]:
    def alone(failures: str, robot: int) -> Side:
        return side("robot_recovery", Sources(50, robot), robot_failures=failures)

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
            side("egorecovery", robot_failures="staged"),
            alone("anywhere", 50),
        ),
        ("most", "Five times as many from anywhere gain more.", alone("anywhere", 50), alone("anywhere", 250)),
    ]
    for failures, robot in COLLECTED:
        where = f"Where {robot} robot recoveries begin {'anywhere' if failures == 'anywhere' else 'at staged failures'}"
        base, data = alone(failures, robot), Sources(50, robot, 0, 300)
        direct = side("direct_human_recovery_mix", data, robot_failures=failures)
        full = side("egorecovery", data, robot_failures=failures)
        said += [
            (f"mix_{failures}_{robot}", f"{where}, human ones help when mixed in.", base, direct),
            (f"full_{failures}_{robot}", f"{where}, human ones help through EgoRecovery.", base, full),
            (f"pathway_{failures}_{robot}", f"{where}, EgoRecovery beats the direct mix.", direct, full),
        ]
    for name, says, worse, better in said:
        yield Claim(id=f"coverage_{name}", suite="coverage", says=says, worse=worse, better=better)
