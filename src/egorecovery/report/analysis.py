"""What the report says, as numbers: tables beside the paper's, modes, comparisons, seeds, what was not run."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any

from egorecovery.episodes import PAPER_TASKS
from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.evaluation.statistics import (
    Interval,
    Rate,
    SeedSummary,
    TrainingSpread,
    over_seeds,
    rate,
    rates,
)
from egorecovery.experiments.condition import (
    Condition,
    episode_counts,
    human_episodes,
    task_order,
    task_title,
)
from egorecovery.experiments.paper import ROLLOUTS, PaperRow, paper_rows
from egorecovery.experiments.suites import SUITES, Suite
from egorecovery.experiments.suites.suite import Side
from egorecovery.randomness import generator_for
from egorecovery.report.paired import (
    PairedComparison,
    compare_sides,
    count_trainings,
    spread_of_trainings,
    with_other_trainings,
)
from egorecovery.report.results import SuiteResults

# The comparisons that decide, the one expected to do better second ...
DECISIVE = (
    ("direct_human_recovery_mix", "egorecovery"),
    ("robot_recovery", "egorecovery"),
    ("robot_recovery", "direct_human_recovery_mix"),
)
COARSE = (("robot_success", "robot_recovery"), ("robot_success", "egorecovery"))  # ... and those of a small run


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row of ours, of the paper's, or of both."""

    condition: Condition
    paper: PaperRow | None
    run: bool


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """A condition that was trained several times."""

    condition: Condition
    task: str | None  # None: the average
    regime: Regime
    seeds: SeedSummary


class Analysis:
    """Computed once, for the page, the Markdown and the JSON alike."""

    def __init__(self, results: SuiteResults) -> None:
        self.results, self.suite = results, results.suite
        # Suites of our own are read as the main one, and judged by its claims if they have none.
        self.paper = paper_rows(results.name if self.suite.of_paper else "main")
        self.claims_suite: Suite = self.suite if self.suite.claims else SUITES["main"]
        self.compare = cache(self._compare)

    @cached_property
    def rows(self) -> list[TableRow]:
        """The paper's rows in its order, each with what was run of it; then rows that only we have."""
        left, rows = list(self.results.conditions), []
        for row in self.paper:
            ours = [condition for condition in left if self._same(condition, row.condition)]
            left = [condition for condition in left if condition not in ours]
            rows += [TableRow(condition=condition, paper=row, run=True) for condition in ours]
            if self.suite.of_paper and not ours:
                rows.append(TableRow(condition=row.condition, paper=row, run=False))
        return rows + [TableRow(condition=condition, paper=None, run=True) for condition in left]

    def _same(self, ours: Condition, papers: Condition) -> bool:
        return ours.role == papers.role and (not self.suite.by_budget or ours.budget == papers.budget)

    @property
    def run_rows(self) -> list[TableRow]:
        return [row for row in self.rows if row.run]

    @property
    def tasks(self) -> tuple[str, ...]:
        return self.results.tasks

    @property
    def columns(self) -> list[str | None]:
        """Tasks, and None for their average where there are several."""
        return [*self.tasks, *([None] if len(self.tasks) > 1 else [])]

    def rate(self, condition: Condition, regime: Regime, task: str | None = None) -> Rate | None:
        """Of one task, or pooled over all that were run; None where nothing was."""
        records = self.results.rollouts(condition, regime, task)
        return rate(records) if records else None

    def average(self, condition: Condition, regime: Regime, tasks: Sequence[str]) -> Rate | None:
        """Pooled over these tasks alone; None where nothing was run."""
        records = [record for record in self.results.rollouts(condition, regime) if record.task in tasks]
        return rate(records) if records else None

    def as_the_paper_counts(self, condition: Condition, regime: Regime, task: str | None = None) -> Rate | None:
        """Of the first 20 starts and the first seed alone."""
        records = self.results.rollouts(condition, regime, task)
        first = min((record.subject.seed for record in records), default=0)
        kept = [record for record in records if record.index < ROLLOUTS and record.subject.seed == first]
        return rate(kept) if kept else None

    def paper_rate(self, row: TableRow, regime: Regime, task: str | None) -> Rate | None:
        if row.paper is None:
            return None
        return row.paper.over(regime, self.tasks) if task is None else row.paper.rate(regime, task)

    def part(self, condition: Condition) -> str:
        """Of how many tasks an average is, where it is not of all."""
        count = len(self.tasks_of(condition))
        return f"{count} of {len(self.tasks)} tasks" if 0 < count < len(self.tasks) else ""

    def tasks_of(self, condition: Condition) -> tuple[str, ...]:
        return tuple(sorted({cell.task for cell in self.results.of(condition) if cell.rollouts}, key=task_order))

    def seeds_of(self, condition: Condition) -> list[int]:
        return sorted({cell.seed for cell in self.results.of(condition)})

    def find(self, method: str, **collected: Any) -> Condition | None:
        return self.in_role(Condition(method=method, **collected))

    def in_role(self, wanted: Condition) -> Condition | None:
        """What was run in its role, at the paper's main budget if there are several."""
        run = [row.condition for row in self.run_rows if row.condition.role == wanted.role]
        main = [
            condition
            for condition in run
            if episode_counts(condition.budget)[:2] == (50, 50) and human_episodes(condition.budget) in (0, 300)
        ]
        return (main or run or [None])[0]

    def modes(self, task: str) -> list[str]:
        modes = {record.mode for cell in self.results.cells if cell.task == task for record in cell.rollouts}
        return sorted(modes - {"nominal"})

    def by_mode(self, condition: Condition, task: str) -> dict[str, Rate]:
        return rates(self.results.rollouts(condition, "recovery", task), by=lambda record: record.mode)

    def _compare(self, first: Side, second: Side, regime: Regime, task: str | None = None) -> PairedComparison | None:
        """Of conditions or whole curves; None where they share no start."""
        return compare_sides(self.results, (first, second), regime, task, self.training_spread[regime])

    def rate_over_trainings(self, condition: Condition, regime: Regime) -> Interval | None:
        """Of the average over tasks."""
        records = self.results.rollouts(condition, regime)
        spread = self.training_spread[regime]
        return with_other_trainings(rate(records).value, spread, [[records]]) if records else None

    @cached_property
    def training_spread(self) -> dict[Regime, TrainingSpread | None]:
        return {regime: spread_of_trainings(self.results, regime) for regime in REGIMES}

    @cached_property
    def decisive(self) -> list[PairedComparison]:
        """Pooled and per task, both regimes. None where the amount of data tells rows apart: curves say more."""
        comparisons = [
            self.compare((first,), (second,), regime, task)
            for first, second in self._decisive_pairs
            for regime in reversed(REGIMES)
            for task in (None, *self._shared_tasks(first, second))
        ]
        return [comparison for comparison in comparisons if comparison is not None]

    @property
    def _decisive_pairs(self) -> list[tuple[Condition, Condition]]:
        if self.suite.layout == "curves":
            return []
        if self.suite.layout == "variants":
            full = self.find("egorecovery")
            return [(row.condition, full) for row in self.run_rows if full and row.condition != full]
        named = [[(self.find(first), self.find(second)) for first, second in pairs] for pairs in (DECISIVE, COARSE)]
        complete = [[(first, second) for first, second in pairs if first and second] for pairs in named]
        return complete[0] or complete[1]

    def _shared_tasks(self, first: Condition, second: Condition) -> list[str]:
        """Where they are several."""
        shared = [task for task in self.tasks_of(first) if task in self.tasks_of(second)]
        return shared if len(shared) > 1 else []

    def repeated(self, regimes: Sequence[Regime]) -> list[Repeated]:
        """Conditions that were trained more than once, on each task and on average."""
        return [
            Repeated(condition=condition, task=task, regime=regime, seeds=seeds)
            for condition in self.results.conditions
            for task in self.columns
            for regime in regimes
            if (seeds := self._over_seeds(condition, regime, task))
        ]

    def _over_seeds(self, condition: Condition, regime: Regime, task: str | None) -> SeedSummary | None:
        records = self.results.rollouts(condition, regime, task)
        if count_trainings([records]) < 2:
            return None
        name = _published_name(condition)
        return over_seeds(
            records, generator_for(seed=0, purpose="report: seeds", arm=name, regime=regime, task=str(task))
        )

    @cached_property
    def not_run(self) -> list[str]:
        """The paper's rows without a cell, the tasks that a row lacks, and cells that did not end."""
        if not self.results.cells:
            return ["every row: there is no finished cell yet", *self.results.unfinished]
        if self.suite.of_paper:
            wanted = {task for row in self.paper for task in row.tasks}
            missing = [f"{task_title(task)}: no method" for task in PAPER_TASKS if task in wanted - set(self.tasks)]
            missing += [f"{row.condition.full_label}: on no task" for row in self.rows if not row.run]
        else:
            missing = ["all that the paper compares beside these methods and tasks"]
        for row in self.run_rows:
            absent = [task_title(task) for task in self.tasks if task not in self.tasks_of(row.condition)]
            missing += [f"{row.condition.full_label}: not on {', '.join(absent)}"] if absent else []
        return [*missing, *self.results.unfinished]


def _published_name(condition: Condition) -> str:
    """Names the random stream of an interval: written as ever, so that published intervals keep their digits."""
    sources = ", ".join(f"{name}={count}" for name, count in asdict(condition.budget).items())
    return (
        f"Arm(method={condition.method!r}, budget=Sources({sources}), "
        f"zero_intent={condition.intervention.zero_intent}, gate={condition.intervention.gate!r}, "
        f"variant={condition.variant!r}, robot_failures={condition.robot_failures!r}, humans={condition.humans!r})"
    )
