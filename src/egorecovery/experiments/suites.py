"""The paper's experiments, and three of our own, as lists of cells."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from egorecovery.episodes import PAPER_TASKS
from egorecovery.errors import RecipeError
from egorecovery.experiments.cell import Cell, Humans, RobotFailures, episodes_of
from egorecovery.policy.action_source import Intervention
from egorecovery.training import Budget

ALL_TASKS = tuple(PAPER_TASKS)
TWO_TASKS = ("cup_brush", "round_disk")  # of the authors' later tables


def episodes(robot_success: int, robot_recovery: int = 0, *, human_success: int = 0, human_recovery: int = 0) -> Budget:
    return Budget(
        robot_success=robot_success,
        robot_recovery=robot_recovery,
        human_success=human_success,
        human_recovery=human_recovery,
    )


FULL = episodes(50, 50, human_recovery=300)
COLLECTED: tuple[tuple[RobotFailures, int], ...] = (("staged", 50), ("anywhere", 50), ("anywhere", 20))  # `coverage`


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of a table: a cell before task and seed are chosen."""

    method: str
    budget: Budget = FULL
    intervention: Intervention = field(default_factory=Intervention)
    variant: str | None = None
    robot_failures: RobotFailures = "staged"
    humans: Humans = "people"
    hidden_embodiment: bool = False
    off_centre_grips: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.variant or self.method

    @property
    def episodes(self) -> tuple[int, int, int, int]:
        return episodes_of(self.budget)

    def made(self, card: Mapping[str, Any]) -> bool:
        """Whether a finished cell belongs to this line, by its card."""
        wanted = (self.method, self.variant, asdict(self.budget), asdict(self.intervention))
        told = tuple(card[name] for name in ("method", "variant", "budget", "intervention"))
        data = (
            card.get("robot_failures", "staged"),
            card.get("humans", "people"),
            card.get("hidden_embodiment", False),
            card.get("off_centre_grips", False),
            card.get("settings", {}),
        )
        seen = (self.hidden_embodiment, self.off_centre_grips)
        own_data = (self.robot_failures, self.humans, *seen, dict(self.settings))
        return (*wanted, *own_data) == (*told, *data)


@dataclass(frozen=True, kw_only=True)
class Suite:
    name: str
    rows: tuple[Row, ...]
    tasks: tuple[str, ...] = ALL_TASKS  # unless others are asked for
    beside: tuple[Row, ...] = ()  # also of other suites: stores are large enough for them too, so that they share

    def cells(self, tasks: Sequence[str] | None = None, seeds: Sequence[int] = (0,)) -> list[Cell]:
        """All of the first seed before the next: a run that is out of time has a whole table of fewer seeds."""
        return [
            Cell(
                suite=self.name,
                task=task,
                method=row.method,
                seed=seed,
                budget=row.budget,
                intervention=row.intervention,
                variant=row.variant,
                robot_failures=row.robot_failures,
                humans=row.humans,
                hidden_embodiment=row.hidden_embodiment,
                off_centre_grips=row.off_centre_grips,
                settings=row.settings,
            )
            for seed in seeds
            for task in (self.tasks if tasks is None else tasks)
            for row in self.rows
        ]

    def sharing(self, tasks: Sequence[str] | None = None) -> list[Cell]:
        """Everything that its stores must be large enough for."""
        return replace(self, rows=(*self.rows, *self.beside)).cells(tasks)


def main() -> Suite:
    """The paper's seven ways to use the data, and ours: both embodiments in effector space, with one decoder."""
    robot, human = 50, 300
    return Suite(
        name="main",
        rows=(
            Row(method="robot_success", budget=episodes(robot)),
            Row(method="robot_success_human_success", budget=episodes(robot, human_success=human)),
            Row(method="robot_success_human_recovery", budget=episodes(robot, human_recovery=human)),
            Row(method="robot_recovery", budget=episodes(robot, robot)),
            Row(method="human_success_mix", budget=episodes(robot, robot, human_success=human)),
            Row(method="direct_human_recovery_mix", budget=episodes(robot, robot, human_recovery=human)),
            Row(method="egorecovery", budget=episodes(robot, robot, human_recovery=human)),
            Row(method="robot_recovery_effector", budget=episodes(robot, robot)),
            Row(method="shared_decoder", budget=episodes(robot, robot, human_recovery=human)),
            Row(method="shared_egorecovery", budget=episodes(robot, robot, human_recovery=human)),
        ),
    )


def scaling() -> Suite:
    """More human episodes, of either kind."""
    return Suite(name="scaling", rows=_scaling_rows(), beside=_budget_rows())


def cost_matched() -> Suite:
    """Ten robot recoveries cost an operator as much as a hundred human ones: the same hours, spent differently."""
    return Suite(name="cost_matched", rows=_cost_matched_rows(), beside=_budget_rows())


def low_robot_grounding() -> Suite:
    """Few robot recoveries, more and more human ones."""
    return Suite(name="low_robot_grounding", rows=_low_grounding_rows(), beside=_budget_rows())


def _budget_rows() -> tuple[Row, ...]:
    """Of the three suites about amounts of data, which so draw from the same stores."""
    return (*_scaling_rows(), *_cost_matched_rows(), *_low_grounding_rows())


def _scaling_rows() -> tuple[Row, ...]:
    return tuple(
        row
        for human in (200, 300, 500, 800)
        for row in (
            Row(method="human_success_mix", budget=episodes(50, 50, human_success=human)),
            Row(method="egorecovery", budget=episodes(50, 50, human_recovery=human)),
        )
    )


def _cost_matched_rows() -> tuple[Row, ...]:
    return (_robot_only(80), *_both_methods([(80 - 10 * tens, 100 * tens) for tens in range(1, 7)]))


def _low_grounding_rows() -> tuple[Row, ...]:
    return (_robot_only(20), *_both_methods([(20, human) for human in (100, 200, 300, 400, 500, 600)]))


def _robot_only(robot_recovery: int) -> Row:
    return Row(method="robot_recovery", budget=episodes(50, robot_recovery))


def _both_methods(mixtures: list[tuple[int, int]]) -> list[Row]:
    return [
        Row(method=method, budget=episodes(50, robot, human_recovery=human))
        for robot, human in mixtures
        for method in ("direct_human_recovery_mix", "egorecovery")
    ]


def ablation() -> Suite:
    """One part of the method left out at a time."""
    trained = (
        "direct_human_recovery_mix",
        "without_intent_loss",
        "without_segment_mask",
        "without_intent_modulation",
    )
    zero = Row(method="egorecovery", intervention=Intervention(zero_intent=True), variant="zero_intent_at_test")
    return Suite(
        name="ablation",
        rows=(
            Row(method="egorecovery", variant="full"),
            *(Row(method=method, variant=method) for method in trained),
            zero,
            Row(method="always_on_modulation", variant="always_on_modulation"),
        ),
    )


def gate_intervention() -> Suite:
    """The same checkpoint with other gates."""
    forced = (
        Row(method="egorecovery", intervention=Intervention(gate="0"), variant="p=0"),
        Row(method="egorecovery", intervention=Intervention(gate="0.5"), variant="p=0.5"),
        Row(method="egorecovery", intervention=Intervention(gate="1"), variant="p=1"),
        Row(method="egorecovery", intervention=Intervention(gate="shuffled"), variant="shuffled"),
    )
    learned = Row(method="egorecovery", variant="learned")
    return Suite(name="gate_intervention", rows=(learned, *forced), tasks=TWO_TASKS)


def intent_target() -> Suite:
    """What intent should tell. The paper's two latents are not built."""
    return Suite(
        name="intent_target",
        rows=(
            Row(method="egorecovery", variant="dct_magnitude_4d"),
            Row(method="raw_future_trajectory", variant="raw_future_trajectory"),
        ),
        tasks=TWO_TASKS,
    )


def coverage() -> Suite:
    """Not the paper's: what would robot recoveries from any failure give, and how much of that do human ones?

    Labs stage few failures for a robot, and people show them all. The last row is what five times the robot data does.
    Its store holds 260 recoveries from anywhere, so another seed trains on another fifty or twenty of them.
    """
    compared = [
        row
        for failures, robot in COLLECTED
        for row in (
            Row(method="robot_recovery", budget=episodes(50, robot), robot_failures=failures),
            *(replace(mixed, robot_failures=failures) for mixed in _both_methods([(robot, 300)])),
        )
    ]
    most = Row(method="robot_recovery", budget=episodes(50, 250), robot_failures="anywhere")
    return Suite(name="coverage", rows=(*compared, most))


def stand_ins() -> Suite:
    """Not the paper's: is human data lost by how people look, move and are tracked, or by being told in other actions?

    Stand-ins are robots that demonstrate in people's place, from the same family of failures: filmed as they are, told
    as hands.
    """
    compared = _both_methods([(50, 300)])
    return Suite(
        name="stand_ins",
        rows=(_robot_only(50), *compared, *(replace(row, humans="stand_ins") for row in compared)),
    )


def scarce_robot() -> Suite:
    """Not the paper's: where robot recoveries are few, do people's recoveries help, or any data of people?

    Successes show the scene and no correction. The store is that of `main`, so another seed draws another twenty.
    """
    successes = Row(method="human_success_mix", budget=episodes(50, 20, human_success=300))
    rows = (_robot_only(20), successes, *_both_methods([(20, 300)]))
    return Suite(name="scarce_robot", rows=rows, beside=main().rows)


SUITES: dict[str, Callable[[], Suite]] = {
    suite.__name__: suite
    for suite in (
        main,
        scaling,
        cost_matched,
        low_robot_grounding,
        ablation,
        gate_intervention,
        intent_target,
        coverage,
        stand_ins,
        scarce_robot,
    )
}
NOT_BUILT = {
    "boundary_noise": "boundaries would have to be shifted in a copy of the annotations",
    "two_failure_modes": "rollouts record their failure mode already, but no data is ordered by mode yet",
    "clutter_ood": "the workcell evaluates with clutter, but does not collect with it yet",
    "diffusion_head": "the policy has no diffusion head yet",
}


def suite_named(name: str) -> Suite:
    if name in NOT_BUILT:
        raise RecipeError(f"suite {name} is known but not built: {NOT_BUILT[name]}")
    if name not in SUITES:
        raise RecipeError(f"there is no suite {name!r}; there are {', '.join(SUITES)}")
    return SUITES[name]()
