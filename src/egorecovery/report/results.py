"""A suite's folder, read: finished cells with their rollouts, logs and videos, and what is not finished."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from egorecovery.errors import EgoRecoveryError, StoreDamaged
from egorecovery.evaluation.protocol import Regime
from egorecovery.evaluation.results import ResultFile, RolloutRecord
from egorecovery.experiments.cell_card import CARD, ROLLOUTS, read_cell_card, require_bound
from egorecovery.experiments.condition import Condition, task_order
from egorecovery.experiments.folder import FILMS
from egorecovery.experiments.suites import SUITES, Suite
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.containment import exists, inside, is_file, is_folder, names_in

SCHEMA = 1
VIDEO_ENDINGS = (".mp4", ".gif")


class ReportError(EgoRecoveryError):
    """A suite's folder from which no report can be made."""


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
    card: Mapping[str, Any]
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
        return _in_regime(cells, regime)


def read_results(root: Path) -> SuiteResults:
    card = _suite_card(root / "suite.json")
    home = inside(root, "cells")
    folders = [home / name for name in names_in(home) if not name.startswith(".") and is_folder(home / name)]
    cells = [_cell(folder) for folder in folders if exists(folder / CARD)]
    _require_distinct(cells)
    return SuiteResults(
        name=str(card["suite"]),
        root=root,
        card=card,
        cells=tuple(sorted(cells, key=lambda cell: (cell.condition.order, task_order(cell.task), cell.seed))),
        unfinished=tuple(_state(folder) for folder in folders if not exists(folder / CARD)),
    )


def _suite_card(path: Path) -> dict[str, Any]:
    try:
        card = read_json(path, ReportError)
        suite, schema = card["suite"], card["schema"]
    except FileNotFoundError:
        raise ReportError(f"{path.parent} is not the folder of a suite: it has no suite.json") from None
    except KeyError as error:
        raise ReportError(f"{path} is not the card of a suite ({error!r}); run the suite again into it") from None
    if schema != SCHEMA:
        raise ReportError(f"{path} of suite {suite} has schema {schema}, this version reads {SCHEMA}")
    return card


def _cell(folder: Path) -> FinishedCell:
    card = read_cell_card(folder)
    require_bound(folder, card)
    path = inside(folder, ROLLOUTS)
    rollouts = tuple(ResultFile(path).records())
    for rollout in rollouts:
        if (rollout.task, rollout.subject.seed) != (card["task"], card["seed"]):
            raise ReportError(
                f"{path} holds a rollout of {rollout.task}, seed {rollout.subject.seed}, but the cell is of "
                f"{card['task']}, seed {card['seed']}; the file belongs to another cell"
            )
    return FinishedCell(id=folder.name, folder=folder, card=card, rollouts=rollouts)


def _require_distinct(cells: Sequence[FinishedCell]) -> None:
    seen: dict[tuple[Condition, str, int], str] = {}
    for cell in cells:
        twin = seen.setdefault((cell.condition, cell.task, cell.seed), cell.id)
        if twin != cell.id:
            raise ReportError(f"cells {twin} and {cell.id} are the same method, task and seed; keep one of them")


def _state(folder: Path) -> str:
    """Of a cell without a result."""
    try:
        failure = read_json(inside(folder, "error.json"))
        return f"cell {folder.name}: failed in {failure['stage']}: {str(failure['error']).splitlines()[0]}"
    except (OSError, StoreDamaged, KeyError, IndexError):
        return f"cell {folder.name}: begun, not finished"


def _in_regime(cells: Iterable[FinishedCell], regime: Regime) -> list[RolloutRecord]:
    return [rollout for cell in cells for rollout in cell.rollouts if rollout.regime == regime]
