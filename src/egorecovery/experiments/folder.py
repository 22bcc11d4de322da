"""An experiment on disk. Cells are folders of their own: results of several machines merge by copying them together.

OUT/suite.json                      which suite
WORK/data/STORE/                    episodes: of a task, or of a task collected in another way (see `Cell.store`)
WORK/trainings/TRAINING/            training run, shared by cells that differ only in what is done at test time
OUT/cells/CELL/cell.json            sealed, written last: the cell is done
               rollouts.jsonl       one sealed line per rollout
               log.jsonl            of the training
               error.json           why it failed, until it succeeds
               films/               of some of its rollouts, if they were asked for; the report shows them
OUT/diagnostics/TASK/               what `egorecovery diagnose` says of the task's policies, if it was asked

WORK is OUT, or a folder that several suites share.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from egorecovery.errors import EgoRecoveryError, StoreDamaged
from egorecovery.evaluation.results import ResultFile, Subject
from egorecovery.experiments.cell import CellPlan
from egorecovery.experiments.cell_card import (
    CARD,
    LOG,
    ROLLOUTS,
    Name,
    finished_card,
    other_settings,
    read_cell_card,
    require_bound,
)
from egorecovery.experiments.machine import now
from egorecovery.storage.atomic_io import write_file
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.checksummed_json import with_checksum
from egorecovery.storage.containment import (
    JOURNAL_BYTES,
    exists,
    inside,
    is_file,
    is_folder,
    names_in,
    read_bytes,
    remove,
)
from egorecovery.storage.drafts import remove_drafts_of_the_dead
from egorecovery.storage.lock import WriterLock
from egorecovery.storage.manifest import MANIFEST
from egorecovery.storage.typed_json import from_json

SCHEMA = 1
# Raised by hand whenever tasks, labels, policy or protocol come to compute something else from the same settings, or
# a setting's usual value changes.
COMPUTED_BY = 3
FILMS = "films"  # of a cell
DIAGNOSTICS = "diagnostics"  # one folder per task
DIAGNOSIS = "diagnostics.json"  # in each of them, written last
OTHER_OPTIONS = "give the options that it was made with ({report}, 'To repeat it'), or another --out"
COPIED = {"cells", "data", "trainings", DIAGNOSTICS}  # what a person may have put together from several machines


class FolderError(EgoRecoveryError):
    """A folder that holds something else than this experiment, or results that contradict each other."""


class OtherSettings(FolderError):
    """A finished cell of another recipe, data or protocol than is planned."""


class ExperimentFolder:
    def __init__(self, root: Path, work: Path | None = None) -> None:
        self.root, self._work = root, work or root

    @classmethod
    def create(cls, root: Path, suite: str, work: Path | None = None) -> "ExperimentFolder":
        """Opens the folder of a suite, making it first where there is none."""
        folder = cls(root, work)
        if (root / "suite.json").exists():
            if folder.suite != suite:
                raise FolderError(f"{root} holds the suite {folder.suite!r}, not {suite!r}; use another --out")
            folder.require_current()
        elif root.exists() and not {path.name for path in root.iterdir()} <= COPIED:
            raise FolderError(f"{root} is not empty and holds no experiment; name an empty or a new folder with --out")
        else:
            root.mkdir(parents=True, exist_ok=True)
            card = {"suite": suite, "schema": SCHEMA, "computed_by": COMPUTED_BY}
            write_file(root / "suite.json", json.dumps(card).encode() + b"\n")
        folder._begin_work()
        return folder

    def _begin_work(self) -> None:
        """What is shared must have been computed as we do, too."""
        if self._work == self.root:
            return
        cards = [card for name in ("work.json", "suite.json") if exists(card := self._work / name)]
        if cards:
            _require_current(self._work, read_json(cards[0], FolderError), "use another --work")
        else:
            self._work.mkdir(parents=True, exist_ok=True)
            write_file(self._work / "work.json", json.dumps({"computed_by": COMPUTED_BY}).encode() + b"\n")

    @property
    def record(self) -> dict[str, Any]:
        """What `suite.json` says."""
        path = inside(self.root, "suite.json")
        try:
            record = read_json(path, FolderError)
            name, schema = record["suite"], record["schema"]
        except FileNotFoundError:
            raise FolderError(f"{self.root} is not the folder of an experiment: it has no suite.json") from None
        except KeyError as error:
            raise FolderError(f"{path} is not the card of a suite ({error!r}); run the suite again into it") from None
        from_json(Name, name, f"{path}: suite", FolderError)
        if schema != SCHEMA:
            raise FolderError(f"{path} has schema {schema}, this version reads {SCHEMA}")
        if not isinstance(record.get("commands", []), list):
            raise FolderError(f"{path}: commands must be a list, got {str(record['commands'])[:80]}")
        return record

    @property
    def suite(self) -> str:
        return self.record["suite"]

    def require_current(self) -> None:
        _require_current(self.root, self.record, "use another folder")

    def diagnoses(self) -> list[Path]:
        """The finished ones."""
        return [folder for folder in self._folders(DIAGNOSTICS) if is_file(folder / DIAGNOSIS)]

    def diagnosis(self, task: str) -> Path:
        return inside(self.root, DIAGNOSTICS, task)

    def _folders(self, name: str) -> list[Path]:
        home = inside(self.root, name)
        return [home / entry for entry in names_in(home) if not entry.startswith(".") and is_folder(home / entry)]

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One experiment at a time, also where several share their work."""
        with ExitStack() as stack:
            for folder in dict.fromkeys((self.root.resolve(), self._work.resolve())):
                stack.enter_context(WriterLock(folder / "writer.lock"))
                remove_drafts_of_the_dead(folder)
            yield

    def data(self, store: str) -> Path:
        return inside(self._work, "data", store)

    @property
    def trainings(self) -> Path:
        return self._work / "trainings"

    def training(self, training_id: str) -> Path:
        return inside(self._work, "trainings", training_id)

    @property
    def turn_file(self) -> Path:
        """Held by the training whose turn on the GPU it is."""
        return self._work / "turn.lock"

    def cell(self, cell_id: str) -> Path:
        return inside(self.root, "cells", cell_id)

    def rollouts(self, cell_id: str) -> ResultFile:
        return ResultFile(inside(self.cell(cell_id), ROLLOUTS))

    def cells(self) -> list[str]:
        """Finished and begun ones, by name."""
        return [folder.name for folder in self._folders("cells")]

    def done(self) -> list[str]:
        """Finished cells, by name."""
        return [cell for cell in self.cells() if exists(self.cell(cell) / CARD)]

    def card(self, cell_id: str) -> dict[str, Any] | None:
        """What is known of a finished cell; None of one that is not."""
        if not exists(self.cell(cell_id) / CARD):
            return None
        try:
            return read_cell_card(self.cell(cell_id))
        except StoreDamaged as error:
            raise FolderError(f"{error}, or remove the cell's folder and run it again") from None

    def is_done(self, plan: CellPlan) -> bool:
        """Whether a cell has its result already. One of another recipe, data or protocol is refused, not replaced."""
        card = self.card(plan.id)
        if card is None:
            return False
        if card.get("cell_hash") != plan.hash or card.get("suite") != plan.cell.suite:
            raise OtherSettings(
                f"{self.cell(plan.id)} holds a result of other settings ({other_settings(card, plan)}); "
                + OTHER_OPTIONS.format(report=self.root / "report.md")
            )
        require_bound(self.cell(plan.id), card)
        return card["protocol"]["rollouts"] >= plan.protocol.rollouts

    def begin_rollouts(self, plan: CellPlan, subject: Subject) -> ResultFile:
        """Where to add rollouts. Those of another training or protocol, if the file has any, get another name."""
        folder = self.cell(plan.id)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CARD).unlink(missing_ok=True)  # more rollouts are wanted than it speaks of
        results = self.rollouts(plan.id)
        others = (
            record
            for record in results.records()
            if record.subject != subject or record.protocol != plan.protocol.identity()
        )
        if other := next(others, None):
            former = other.subject.policy_hash[:8]
            if exists(folder / FILMS):  # they show those rollouts
                remove(folder / f"{FILMS}.{former}")
                (folder / MANIFEST).unlink(missing_ok=True)
                (folder / FILMS).rename(folder / f"{FILMS}.{former}")
            results.path.rename(results.path.with_name(f"rollouts.{former}.jsonl"))
            results = self.rollouts(plan.id)
        return results

    def finish(self, plan: CellPlan, training: dict[str, Any], evaluation_s: float) -> None:
        """The training's log, then the card, which makes the cell done. `training` is what it says of itself."""
        folder, log = self.cell(plan.id), self.training(plan.training_id) / "log.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        if exists(log):
            write_file(folder / LOG, read_bytes(log, JOURNAL_BYTES))
        write_file(folder / CARD, with_checksum(finished_card(plan, folder, training, evaluation_s)))
        (folder / "error.json").unlink(missing_ok=True)

    def failed(self, plan: CellPlan, stage: str, error: str, traceback: str = "") -> None:
        folder = self.cell(plan.id)
        folder.mkdir(parents=True, exist_ok=True)
        record = {"schema": SCHEMA, "cell": plan.id, "stage": stage, "error": error, "at": now()}
        record["traceback"] = traceback
        write_file(folder / "error.json", with_checksum(record))


def _require_current(path: Path, record: Mapping[str, Any], advice: str) -> None:
    version = record.get("computed_by", 1)
    if version != COMPUTED_BY:
        raise FolderError(
            f"{path} was made by version {version} of workcell and policy, this is {COMPUTED_BY}: old and new results "
            f"must not be mixed; {advice}"
        )
