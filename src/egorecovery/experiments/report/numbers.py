"""What the report says, as numbers: tables beside the paper's, modes, comparisons, seeds, what was not run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.evaluation.results import RolloutRecord
from egorecovery.evaluation.statistics import (
    Interval,
    NotComparable,
    Rate,
    SeedSummary,
    TrainingSpread,
    compare_groups,
    over_seeds,
    rate,
    rates,
    training_spread,
)
from egorecovery.experiments.report.arms import TASKS, Arm, Side, Sources, task_order, task_title
from egorecovery.experiments.report.cells import Suite
from egorecovery.experiments.report.duels import (
    Duel,
    on_shared_starts,
    trained,
    with_other_trainings,
    with_shared_trainings,
)
from egorecovery.experiments.report.paper import ROLLOUTS, Published, published
from egorecovery.randomness import generator_for

BUDGET_SUITES = ("scaling", "cost_matched", "low_robot_grounding")  # where the amount of data tells rows apart
TOLD_BY_BUDGET = (*BUDGET_SUITES, "coverage", "scarce_robot")  # whose rows and claims are those of exactly their data
VARIANT_SUITES = ("ablation", "gate_intervention", "intent_target")  # whose rows are the full method with a change
# The comparisons that decide, the one expected to do better second ...
DECISIVE = (
    ("direct_human_recovery_mix", "egorecovery"),
    ("robot_recovery", "egorecovery"),
    ("robot_recovery", "direct_human_recovery_mix"),
)
COARSE = (("robot_success", "robot_recovery"), ("robot_success", "egorecovery"))  # ... and those of a small run


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of ours, of the paper's, or of both."""

    arm: Arm
    paper: Published | None
    run: bool


class Numbers:
    """Computed once, told by the page, the Markdown and the JSON alike."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.of_paper = bool(published(suite.name))
        self.like = suite.name if self.of_paper else "main"  # suites of our own are read as the main one
        self._duels: dict[tuple, Duel | None] = {}

    @cached_property
    def rows(self) -> list[Row]:
        """The paper's rows in its order, each with what was run of it; then rows that only we have."""
        left, rows = list(self.suite.arms), []
        for row in published(self.like):
            mine = [arm for arm in left if self._same(arm, row.arm)]
            left = [arm for arm in left if arm not in mine]
            rows += [Row(arm=arm, paper=row, run=True) for arm in mine]
            rows += [Row(arm=row.arm, paper=row, run=False)] if self.of_paper and not mine else []
        return rows + [Row(arm=arm, paper=None, run=True) for arm in left]

    def _same(self, arm: Arm, theirs: Arm) -> bool:
        same_data = self.suite.name not in TOLD_BY_BUDGET or arm.budget == theirs.budget
        return arm.plays == theirs.plays and same_data

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        return self.suite.tasks

    def rate(self, arm: Arm, regime: Regime, task: str | None = None) -> Rate | None:
        """Of one task, or pooled over all that were run; None where nothing was."""
        found = self._counted(arm, regime, task)
        return rate(found) if found else None

    def average(self, arm: Arm, regime: Regime, tasks: Sequence[str]) -> Rate | None:
        """Pooled over these tasks alone; None where nothing was run."""
        found = [record for record in self.suite.balanced(arm, regime) if record.task in tasks]
        return rate(found) if found else None

    def _counted(self, arm: Arm, regime: Regime, task: str | None) -> list[RolloutRecord]:
        return self.suite.balanced(arm, regime) if task is None else self.suite.rollouts(arm, regime, task)

    def as_the_paper_counts(self, arm: Arm, regime: Regime, task: str | None = None) -> Rate | None:
        """Of the first 20 starts and the first seed alone."""
        found = self._counted(arm, regime, task)
        first = min((record.subject.seed for record in found), default=0)
        kept = [record for record in found if record.index < ROLLOUTS and record.subject.seed == first]
        return rate(kept) if kept else None

    def part(self, arm: Arm) -> str:
        """Of how many tasks an average is, where it is not of all."""
        mine = len(self.tasks_of(arm))
        return f"{mine} of {len(self.tasks)} tasks" if 0 < mine < len(self.tasks) else ""

    def tasks_of(self, arm: Arm) -> tuple[str, ...]:
        return tuple(sorted({cell.task for cell in self.suite.of(arm) if cell.rollouts}, key=task_order))

    def seeds_of(self, arm: Arm) -> list[int]:
        return sorted({cell.seed for cell in self.suite.of(arm)})

    def find(self, method: str, *, robot_failures: str = "staged", humans: str = "people") -> Arm | None:
        return self.playing(Arm(method=method, budget=Sources(), robot_failures=robot_failures, humans=humans))

    def playing(self, asked: Arm) -> Arm | None:
        """The arm that plays its part, at the paper's main budget if there are several."""
        mine = [row.arm for row in self.rows if row.run and row.arm.plays == asked.plays]
        main = [arm for arm in mine if arm.budget[:2] == (50, 50) and arm.budget.human in (0, 300)]
        return (main or mine or [None])[0]

    def modes(self, task: str) -> list[str]:
        found = {record.mode for cell in self.suite.cells if cell.task == task for record in cell.rollouts}
        return sorted(found - {"nominal"})

    def by_mode(self, arm: Arm, task: str) -> dict[str, Rate]:
        return rates(self.suite.rollouts(arm, "recovery", task), by=lambda record: record.mode)

    def duel(self, first: Arm, second: Arm, regime: Regime, task: str | None = None) -> Duel | None:
        """None where they share no start."""
        return self.between((first,), (second,), regime, task)

    def between(self, first: Side, second: Side, regime: Regime, task: str | None = None) -> Duel | None:
        """Of arms or whole curves; None where they share no start."""
        key = (first, second, regime, task)
        if key not in self._duels:
            self._duels[key] = self._fight(*key)
        return self._duels[key]

    def _fight(self, first: Side, second: Side, regime: Regime, task: str | None) -> Duel | None:
        ours, theirs = on_shared_starts(
            [[self._counted(arm, regime, task) for arm in side] for side in (first, second)]
        )
        if not ours[0]:
            return None
        # By what tables call them, so that published intervals stay as they are when arms come to have more settings.
        names = [" + ".join(arm.full_label for arm in side) for side in (first, second)]
        rng = generator_for(seed=0, purpose="report: comparison", pair=f"{names[0]}|{names[1]}|{regime}|{task}")
        try:
            found = compare_groups(ours, theirs, rng)
        except NotComparable:
            return None  # evaluated in different versions of the workcell
        apart = [arm.training for arm in first] != [arm.training for arm in second]
        return Duel(
            sides=(first, second),
            regime=regime,
            tasks=tuple(sorted({record.task for record in ours[0]}, key=task_order)),
            seeds=(trained(ours), trained(theirs)),
            found=found,
            trainings=(
                with_other_trainings(found.difference, self.training_spread[regime], [ours, theirs])
                if apart
                else with_shared_trainings(found.difference, ours, theirs)
            ),
        )

    def rate_over_trainings(self, arm: Arm, regime: Regime) -> Interval | None:
        """Of the average over tasks."""
        found = self.suite.balanced(arm, regime)
        return with_other_trainings(rate(found).value, self.training_spread[regime], [[found]]) if found else None

    @cached_property
    def training_spread(self) -> dict[Regime, TrainingSpread | None]:
        """From training to training of the same method on the same task, over all that were repeated."""
        learned = [arm for arm in self.suite.arms if not arm.intervened]  # interventions share what they intervene in
        return {
            regime: training_spread(
                [one.value for one in rates(self.suite.rollouts(arm, regime, task), by=_seed).values()]
                for arm in learned
                for task in self.tasks
            )
            for regime in REGIMES
        }

    @cached_property
    def decisive(self) -> list[Duel]:
        """Pooled and per task, both regimes. None where the amount of data tells rows apart: curves tell more."""
        wanted = [
            self.duel(first, second, regime, task)
            for first, second in self._decisive_pairs
            for regime in reversed(REGIMES)
            for task in (None, *self._told_apart(first, second))
        ]
        return [duel for duel in wanted if duel is not None]

    @property
    def _decisive_pairs(self) -> list[tuple[Arm, Arm]]:
        if self.like in BUDGET_SUITES:
            return []
        if self.like in VARIANT_SUITES:
            full = self.find("egorecovery")
            return [(row.arm, full) for row in self.rows if full and row.run and row.arm != full]
        named = [[(self.find(first), self.find(second)) for first, second in pairs] for pairs in (DECISIVE, COARSE)]
        complete = [[(first, second) for first, second in pairs if first and second] for pairs in named]
        return complete[0] or complete[1]

    def _told_apart(self, first: Arm, second: Arm) -> list[str]:
        """The tasks that both have, where they are several."""
        shared = [task for task in self.tasks_of(first) if task in self.tasks_of(second)]
        return shared if len(shared) > 1 else []

    def over_seeds(self, arm: Arm, regime: Regime, task: str | None = None) -> SeedSummary | None:
        """For arms that were trained more than once."""
        found = self._counted(arm, regime, task)
        if trained([found]) < 2:
            return None
        return over_seeds(
            found, generator_for(seed=0, purpose="report: seeds", arm=str(arm), regime=regime, task=str(task))
        )

    @cached_property
    def not_run(self) -> list[str]:
        """The paper's rows without a cell, the tasks that a row lacks, and cells that did not end."""
        if not self.suite.cells:
            return ["every row: there is no finished cell yet", *self.suite.unfinished]
        if self.of_paper:
            wanted = {task for row in published(self.like) for task in row.tasks}
            said = [f"{TASKS[task]}: no method" for task in TASKS if task in wanted and task not in self.tasks]
            said += [f"{row.arm.full_label}: on no task" for row in self.rows if not row.run]
        else:
            said = ["all that the paper compares beside these methods and tasks"]
        for row in self.rows:
            absent = [task_title(task) for task in self.tasks if row.run and task not in self.tasks_of(row.arm)]
            said += [f"{row.arm.full_label}: not on {', '.join(absent)}"] if absent else []
        return [*said, *self.suite.unfinished]


def _seed(record: RolloutRecord) -> int:
    return record.subject.seed
