"""A suite's folder, read: finished cells with their rollouts, logs and films, and what is not finished."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from egorecovery.errors import EgoRecoveryError, StoreDamaged
from egorecovery.evaluation.protocol import Regime
from egorecovery.evaluation.results import ResultFile, RolloutRecord
from egorecovery.experiments.cell_card import read_cell_card, require_bound
from egorecovery.experiments.report.arms import Arm, Sources, arm_order, task_order
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.containment import exists, inside, is_file, is_folder, names_in

SCHEMA = 1
FILMS = (".mp4", ".gif")


class ReportError(EgoRecoveryError):
    """A suite's folder from which no report can be made."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training and its evaluation."""

    id: str
    folder: Path
    record: Mapping[str, Any]
    rollouts: tuple[RolloutRecord, ...]

    @property
    def task(self) -> str:
        return self.record["task"]

    @property
    def seed(self) -> int:
        return self.record["seed"]

    @property
    def arm(self) -> Arm:
        acts = self.record.get("intervention") or {}
        return Arm(
            method=self.record["method"],
            budget=Sources.of(self.record["budget"]),
            zero_intent=bool(acts.get("zero_intent", False)),
            gate=str(acts.get("gate", "learned")),
            variant=self.record.get("variant"),
            robot_failures=str(self.record.get("robot_failures", "staged")),
            humans=str(self.record.get("humans", "people")),
        )

    @property
    def finished_at(self) -> str:
        return str(self.record.get("finished_at") or "")

    @property
    def films(self) -> list[Path]:
        return _files(inside(self.folder, "films"), FILMS)

    def part(self, name: str) -> Mapping[str, Any]:
        """One of the record's groups, such as `training`; empty where the cell has none."""
        return self.record.get(name) or {}


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What lies in a folder."""

    name: str
    root: Path
    card: Mapping[str, Any]
    cells: tuple[Cell, ...]
    unfinished: tuple[str, ...]  # sentences on cells that were begun

    @cached_property
    def arms(self) -> list[Arm]:
        return sorted({cell.arm for cell in self.cells}, key=arm_order)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        return tuple(sorted({cell.task for cell in self.cells}, key=task_order))

    @cached_property
    def seeds(self) -> list[int]:
        return sorted({cell.seed for cell in self.cells})

    def of(self, arm: Arm, task: str | None = None) -> list[Cell]:
        return [cell for cell in self.cells if cell.arm == arm and task in (None, cell.task)]

    def rollouts(self, arm: Arm, regime: Regime, task: str | None = None) -> list[RolloutRecord]:
        return _in_regime(self.of(arm, task), regime)

    def balanced(self, arm: Arm, regime: Regime) -> list[RolloutRecord]:
        """For an average: of the seeds that every task of the arm has, so that no task weighs more than another."""
        cells = self.of(arm)
        per_task = [{cell.seed for cell in cells if cell.task == task} for task in {cell.task for cell in cells}]
        shared = set.intersection(*per_task) if per_task else set()
        return _in_regime([cell for cell in cells if cell.seed in shared or not shared], regime)


def read_suite(root: Path) -> Suite:
    card = _card(root / "suite.json")
    home = inside(root, "cells")
    folders = [home / name for name in names_in(home) if not name.startswith(".") and is_folder(home / name)]
    cells = [_cell(folder) for folder in folders if exists(folder / "cell.json")]
    _require_distinct(cells)
    return Suite(
        name=str(card["suite"]),
        root=root,
        card=card,
        cells=tuple(sorted(cells, key=lambda cell: (arm_order(cell.arm), task_order(cell.task), cell.seed))),
        unfinished=tuple(_state(folder) for folder in folders if not exists(folder / "cell.json")),
    )


def _card(path: Path) -> dict[str, Any]:
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


def _cell(folder: Path) -> Cell:
    record = read_cell_card(folder)
    require_bound(folder, record)
    path = inside(folder, "rollouts.jsonl")
    rollouts = tuple(ResultFile(path).records())
    for rollout in rollouts:
        if (rollout.task, rollout.subject.seed) != (record["task"], record["seed"]):
            raise ReportError(
                f"{path} holds a rollout of {rollout.task}, seed {rollout.subject.seed}, but the cell is of "
                f"{record['task']}, seed {record['seed']}; the file belongs to another cell"
            )
    return Cell(id=folder.name, folder=folder, record=record, rollouts=rollouts)


def _require_distinct(cells: Sequence[Cell]) -> None:
    seen: dict[tuple, str] = {}
    for cell in cells:
        twin = seen.setdefault((cell.arm, cell.task, cell.seed), cell.id)
        if twin != cell.id:
            raise ReportError(f"cells {twin} and {cell.id} are the same method, task and seed; keep one of them")


def _state(folder: Path) -> str:
    """Of a cell without a result."""
    try:
        failure = read_json(inside(folder, "error.json"))
        return f"cell {folder.name}: failed in {failure['stage']}: {str(failure['error']).splitlines()[0]}"
    except (OSError, StoreDamaged, KeyError, IndexError):
        return f"cell {folder.name}: begun, not finished"


def _in_regime(cells: Iterable[Cell], regime: Regime) -> list[RolloutRecord]:
    return [rollout for cell in cells for rollout in cell.rollouts if rollout.regime == regime]


def _files(folder: Path, endings: Sequence[str]) -> list[Path]:
    paths = [folder / name for name in names_in(folder)]
    return [path for path in paths if path.suffix.lower() in endings and is_file(path)]
