"""What is done when all cells are: policies are diagnosed, rollouts are filmed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from egorecovery.evaluation import REGIMES
from egorecovery.experiments.cell import CellPlan
from egorecovery.experiments.diagnosing import diagnose_cells
from egorecovery.experiments.events import Event, Stage, SuiteOutcome
from egorecovery.experiments.filming import film_cells, first_of_rows, one_seed
from egorecovery.experiments.folder import FILMS, ExperimentFolder
from egorecovery.experiments.resources import Resources
from egorecovery.experiments.time_left import Backlog, TimeLeft


@dataclass(frozen=True, kw_only=True)
class Afterwards:
    cells: Sequence[CellPlan]
    folder: ExperimentFolder
    resources: Resources
    deadline_s: float | None
    time_left: TimeLeft
    on_event: Callable[[Event], None]
    diagnostics: bool
    films: int  # per regime, of every task and row

    def announce(self) -> None:
        """It counts as time left while cells are under way."""
        self.time_left.after_cells("diagnostics", len(self._tasks) if self.diagnostics else 0)
        self.time_left.after_cells("films", sum(map(self._films_left, first_of_rows(self.cells))))

    def go(self, outcome: SuiteOutcome) -> None:
        if self.diagnostics:
            self._diagnose(outcome)
        if self.films:
            self._film(outcome)

    @property
    def _tasks(self) -> list[str]:
        return list(dict.fromkeys(plan.cell.task for plan in self.cells))

    def _diagnose(self, outcome: SuiteOutcome) -> None:
        tasks = self._tasks

        def progress(task: str, what: str, done: int, total: int) -> None:
            self._at("diagnostics", tasks.index(task), len(tasks))
            self._tell(outcome, "diagnostics", f"{task} {what}", done, total)

        found = diagnose_cells(self.cells, self.folder, self.resources, self.deadline_s, progress)
        outcome.diagnosed.update(found)
        self._at("diagnostics", len(tasks), len(tasks))

    def _film(self, outcome: SuiteOutcome) -> None:
        left = {plan.id: self._films_left(plan) for plan in one_seed(self.cells, self.folder)}
        asked = sum(left.values())

        def progress(cell: str, done: int, total: int) -> None:
            for earlier in list(left)[: list(left).index(cell)]:
                left[earlier] = 0
            left[cell] = total - done
            self._at("films", asked - sum(left.values()), asked)
            self._tell(outcome, "films", cell, done, total)

        seen_on = self.resources.evaluation_device
        found = film_cells(self.cells, self.folder, seen_on, self.films, self.deadline_s, progress)
        outcome.filmed.update(found)

    def _films_left(self, plan: CellPlan) -> int:
        wanted = len(REGIMES) * min(self.films, plan.protocol.rollouts)
        return max(0, wanted - len(list((self.folder.cell(plan.id) / FILMS).glob("*.mp4"))))

    def _at(self, stage: Stage, done: int, asked: int) -> None:
        self.time_left.at(stage, "", done, asked, where="")
        self.time_left.after_cells(stage, asked - done)

    def _tell(self, outcome: SuiteOutcome, stage: Stage, what: str, done: int, total: int) -> None:
        ahead = self.time_left.outlook(Backlog())
        self.on_event(
            Event(
                kind="progress",
                what=what,
                stage=stage,
                done=done,
                total=total,
                cells_left=len(outcome.left),
                left_s=ahead.left_s,
                then=ahead.then,
            )
        )
