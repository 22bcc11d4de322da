"""A suite's folder, read: finished cells with their rollouts, logs and videos, and what is not finished."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from egorecovery.errors import StoreDamaged
from egorecovery.evaluation.protocol import Regime
from egorecovery.evaluation.results import RolloutRecord
from egorecovery.experiments.cell_card import require_bound
from egorecovery.experiments.condition import Condition, task_order
from egorecovery.experiments.folder import FILMS, ExperimentFolder, FolderError
from egorecovery.experiments.suites import SUITES, Suite
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.containment import inside, is_file, names_in

VIDEO_ENDINGS = (".mp4", ".gif")


@dataclass(frozen=True, kw_only=True)
class FinishedCell:
    """One training and its evaluation."""

    id: str
    folder: Path
    card: Mapping[str, Any]
    rollouts: tuple[RolloutRecord, ...]

    @property
    def task(self) -> str:
        return self.card["task"]

    @property
    def seed(self) -> int:
        return self.card["seed"]

    @cached_property
    def condition(self) -> Condition:
        return Condition.of_card(self.card)

    @property
    def finished_at(self) -> str:
        return str(self.card.get("finished_at") or "")

    @property
    def videos(self) -> list[Path]:
        folder = inside(self.folder, FILMS)
        paths = [folder / name for name in names_in(folder)]
        return [path for path in paths if path.suffix.lower() in VIDEO_ENDINGS and is_file(path)]

    def part(self, name: str) -> Mapping[str, Any]:
        """One of the card's groups, such as `training`; empty where the cell has none."""
        return self.card.get(name) or {}


@dataclass(frozen=True, kw_only=True)
class SuiteResults:
    """What lies in a folder."""

    name: str
    root: Path
    stated_commands: tuple[str, ...]  # by whoever made the folder, where it was not `egorecovery experiment`
    cells: tuple[FinishedCell, ...]
    unfinished: tuple[str, ...]  # sentences on cells that were begun

    @property
    def suite(self) -> Suite:
        """Its definition; one that is not ours, such as the demo's, is shown as a table of methods."""
        return SUITES.get(self.name) or Suite(name=self.name, conditions=())

    @property
    def title(self) -> str:
        return self.suite.title or self.name.replace("_", " ").capitalize()

    @cached_property
    def conditions(self) -> list[Condition]:
        return sorted({cell.condition for cell in self.cells}, key=lambda condition: condition.order)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        return tuple(sorted({cell.task for cell in self.cells}, key=task_order))

    @cached_property
    def seeds(self) -> list[int]:
        return sorted({cell.seed for cell in self.cells})

    def of(self, condition: Condition, task: str | None = None) -> list[FinishedCell]:
        return [cell for cell in self.cells if cell.condition == condition and task in (None, cell.task)]

    def rollouts(self, condition: Condition, regime: Regime, task: str | None = None) -> list[RolloutRecord]:
        """Of one task. Over all of them, only of the seeds that every task has, so that none weighs more."""
        cells = self.of(condition, task)
        if task is None:
            per_task = [{cell.seed for cell in cells if cell.task == name} for name in {cell.task for cell in cells}]
            shared = set.intersection(*per_task) if per_task else set()
            cells = [cell for cell in cells if cell.seed in shared or not shared]
        return [rollout for cell in cells for rollout in cell.rollouts if rollout.regime == regime]


def read_results(root: Path) -> SuiteResults:
    folder = ExperimentFolder(root)
    done = folder.done()
    cells = [_finished(folder, cell) for cell in done]
    _require_distinct(cells)
    return SuiteResults(
        name=folder.suite,
        root=root,
        stated_commands=tuple(map(str, folder.record.get("commands") or ())),
        cells=tuple(sorted(cells, key=lambda cell: (cell.condition.order, task_order(cell.task), cell.seed))),
        unfinished=tuple(_state(folder.cell(cell)) for cell in folder.cells() if cell not in done),
    )


def _finished(folder: ExperimentFolder, name: str) -> FinishedCell:
    card, results = folder.card(name), folder.rollouts(name)
    assert card is not None, "only finished cells are read"
    require_bound(folder.cell(name), card)
    rollouts = tuple(results.records())
    for rollout in rollouts:
        if (rollout.task, rollout.subject.seed) != (card["task"], card["seed"]):
            raise FolderError(
                f"{results.path} holds a rollout of {rollout.task}, seed {rollout.subject.seed}, but the cell is of "
                f"{card['task']}, seed {card['seed']}; the file belongs to another cell"
            )
    return FinishedCell(id=name, folder=folder.cell(name), card=card, rollouts=rollouts)


def _require_distinct(cells: Sequence[FinishedCell]) -> None:
    seen: dict[tuple[Condition, str, int], str] = {}
    for cell in cells:
        twin = seen.setdefault((cell.condition, cell.task, cell.seed), cell.id)
        if twin != cell.id:
            raise FolderError(f"cells {twin} and {cell.id} are the same method, task and seed; keep one of them")


def _state(folder: Path) -> str:
    """Of a cell without a result."""
    try:
        failure = read_json(inside(folder, "error.json"))
        return f"cell {folder.name}: failed in {failure['stage']}: {str(failure['error']).splitlines()[0]}"
    except (OSError, StoreDamaged, KeyError, IndexError):
        return f"cell {folder.name}: begun, not finished"
