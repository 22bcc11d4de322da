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
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from platform import python_version
from typing import Any

from egorecovery.errors import EgoRecoveryError, StoreDamaged
from egorecovery.evaluation.results import ResultFile, Subject
from egorecovery.experiments.cell import CellPlan, settled
from egorecovery.policy.config_json import flat
from egorecovery.storage.atomic_io import sync_directory, sync_tree, write_file
from egorecovery.storage.checksummed_json import read_checksummed, with_checksum
from egorecovery.storage.lock import WriterLock

SCHEMA = 1
# Raised by hand whenever tasks, labels, policy or protocol come to compute something else from the same settings, or
# a setting's usual value changes.
COMPUTED_BY = 3
FILMS = "films"  # of a cell
DIAGNOSTICS = "diagnostics"  # one folder per task
DIAGNOSIS = "diagnostics.json"  # in each of them, written last
COPIED = {"cells", "data", "trainings", DIAGNOSTICS}  # what a person may have put together from several machines


class FolderError(EgoRecoveryError):
    """A folder that holds something else than this experiment, or results that contradict each other."""


class ExperimentFolder:
    def __init__(self, root: Path, work: Path | None = None) -> None:
        self.root, self._work = root, work or root

    @classmethod
    def create(cls, root: Path, suite: str, work: Path | None = None) -> "ExperimentFolder":
        """Opens the folder of a suite, making it first where there is none."""
        found = cls(root, work)
        if (root / "suite.json").exists():
            if found.suite != suite:
                raise FolderError(f"{root} holds the suite {found.suite!r}, not {suite!r}; use another --out")
            found.require_current()
            found._begin_work()
            return found
        if root.exists() and not {path.name for path in root.iterdir()} <= COPIED:
            raise FolderError(f"{root} is not empty and holds no experiment; name an empty or a new folder with --out")
        root.mkdir(parents=True, exist_ok=True)
        card = {"suite": suite, "schema": SCHEMA, "computed_by": COMPUTED_BY}
        write_file(root / "suite.json", json.dumps(card).encode() + b"\n")
        found._begin_work()
        return found

    def _begin_work(self) -> None:
        """What is shared must have been computed as we do, too."""
        if self._work == self.root:
            return
        cards = [card for name in ("work.json", "suite.json") if (card := self._work / name).exists()]
        if not cards:
            self._work.mkdir(parents=True, exist_ok=True)
            write_file(self._work / "work.json", json.dumps({"computed_by": COMPUTED_BY}).encode() + b"\n")
        elif (version := json.loads(cards[0].read_text()).get("computed_by", 1)) != COMPUTED_BY:
            raise FolderError(f"{self._work} {_made_by(version)}; use another --work")

    @property
    def suite(self) -> str:
        try:
            record = json.loads((self.root / "suite.json").read_text())
            name, schema = str(record["suite"]), record["schema"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FolderError(f"{self.root} is not the folder of an experiment: suite.json: {error!r}") from None
        if schema != SCHEMA:
            raise FolderError(f"{self.root / 'suite.json'} has schema {schema}, this version reads {SCHEMA}")
        return name

    @property
    def computed_by(self) -> int:
        return json.loads((self.root / "suite.json").read_text()).get("computed_by", 1)

    def require_current(self) -> None:
        if (version := self.computed_by) != COMPUTED_BY:
            raise FolderError(f"{self.root} {_made_by(version)}; use another folder")

    def diagnoses(self) -> list[Path]:
        """The finished ones."""
        return sorted(path.parent for path in (self.root / DIAGNOSTICS).glob(f"[!.]*/{DIAGNOSIS}"))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One experiment at a time, also where several share their work."""
        with ExitStack() as stack:
            for folder in dict.fromkeys((self.root.resolve(), self._work.resolve())):
                stack.enter_context(WriterLock(folder / "writer.lock"))
            yield

    def data(self, store: str) -> Path:
        return self._work / "data" / store

    @property
    def trainings(self) -> Path:
        return self._work / "trainings"

    def training(self, training_id: str) -> Path:
        return self.trainings / training_id

    @property
    def turn_file(self) -> Path:
        """Held by the training whose turn on the GPU it is."""
        return self._work / "turn.lock"

    def cell(self, cell_id: str) -> Path:
        return self.root / "cells" / cell_id

    def rollouts(self, cell_id: str) -> ResultFile:
        return ResultFile(self.cell(cell_id) / "rollouts.jsonl")

    def done(self) -> list[str]:
        """Finished cells, by name."""
        return sorted(path.parent.name for path in (self.root / "cells").glob("*/cell.json"))

    def card(self, cell_id: str) -> dict[str, Any] | None:
        """What is known of a finished cell; None of one that is not."""
        path = self.cell(cell_id) / "cell.json"
        if not path.exists():
            return None
        try:
            card = read_checksummed(path)
        except StoreDamaged as error:
            raise FolderError(f"{error}, or remove the cell's folder and run it again") from None
        if card.get("schema") != SCHEMA:
            raise FolderError(f"{path} has schema {card.get('schema')}, this version reads {SCHEMA}")
        return card

    def is_done(self, plan: CellPlan) -> bool:
        """Whether a cell has its result already. One of another recipe, data or protocol is refused, not replaced."""
        card = self.card(plan.id)
        if card is None:
            return False
        if card["cell_hash"] != plan.hash or card["suite"] != plan.cell.suite:
            raise FolderError(
                f"{self.cell(plan.id)} holds a result of other settings ({_unlike(card, plan)}); "
                "use another --out, or remove the cell's folder"
            )
        return card["protocol"]["rollouts"] >= plan.protocol.rollouts

    def begin_rollouts(self, plan: CellPlan, subject: Subject) -> ResultFile:
        """Where to add rollouts. Those of another training or protocol, if the file has any, are put aside."""
        folder = self.cell(plan.id)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cell.json").unlink(missing_ok=True)  # more rollouts are wanted than it speaks of
        results = self.rollouts(plan.id)
        other = [
            record
            for record in results.records()
            if record.subject != subject or record.protocol != plan.protocol.identity()
        ]
        if other:
            former = other[0].subject.policy_hash[:8]
            if (folder / FILMS).exists():  # they show what is put aside
                shutil.rmtree(folder / f"{FILMS}.{former}", ignore_errors=True)
                (folder / FILMS).rename(folder / f"{FILMS}.{former}")
            results.path.rename(results.path.with_name(f"rollouts.{former}.jsonl"))
            results = self.rollouts(plan.id)
        return results

    def finish(self, plan: CellPlan, training: dict[str, Any], evaluation_s: float) -> None:
        """The training's log, then the card, which makes the cell done. `training` is what it says of itself."""
        folder, log = self.cell(plan.id), self.training(plan.training_id) / "log.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        if log.exists():
            write_file(folder / "log.jsonl", log.read_bytes())
        result = {
            "data_hash": training["data_hash"],
            "training": {name: training[name] for name in ("seconds", "steps", "samples_per_s", "scores")},
            "evaluation": {"seconds": round(evaluation_s, 1), "versions": versions()},
            "hardware": training["hardware"],
            "revision": training["revision"],
            "finished_at": now(),
        }
        write_file(folder / "cell.json", with_checksum({**plan.card(), **result}))
        (folder / "error.json").unlink(missing_ok=True)

    def failed(self, plan: CellPlan, stage: str, error: str, traceback: str = "") -> None:
        folder = self.cell(plan.id)
        folder.mkdir(parents=True, exist_ok=True)
        record = {"schema": SCHEMA, "cell": plan.id, "stage": stage, "error": error, "at": now()}
        record["traceback"] = traceback
        write_file(folder / "error.json", json.dumps(record, indent=1).encode() + b"\n")


def merge(sources: Sequence[Path], into: Path, suite: str | None = None) -> list[str]:
    """Copies finished cells that `into` lacks; returns their names. Two different results of a cell are refused.

    Diagnoses come along, the first of each task.
    """
    folders = [ExperimentFolder(source) for source in sources]
    if not folders:
        return []
    suite = suite or folders[0].suite
    for folder in folders:
        if folder.suite != suite:
            raise FolderError(f"{folder.root} holds the suite {folder.suite!r}, not {suite!r}")
        folder.require_current()
    target = ExperimentFolder.create(into, suite)
    with target.lock():
        fresh: dict[str, ExperimentFolder] = {}
        for folder in folders:
            for cell in folder.done():
                known = fresh.get(cell) or (target if target.card(cell) else None)
                if known is None:
                    fresh[cell] = folder
                else:
                    _require_same(cell, known, folder)
        for cell, folder in fresh.items():
            _copy(folder.cell(cell), target.cell(cell), target.root / ".merging")
        for diagnosis in (path for folder in folders for path in folder.diagnoses()):
            home = target.root / DIAGNOSTICS / diagnosis.name
            if not (home / DIAGNOSIS).exists():
                _copy(diagnosis, home, target.root / ".merging")
    return sorted(fresh)


def _require_same(cell: str, first: ExperimentFolder, second: ExperimentFolder) -> None:
    """Which machine wrote the card does not matter; what it says of the policy and its rollouts does."""
    cards = [folder.card(cell) for folder in (first, second)]
    kept = ("cell_hash", "data_hash", "protocol", "training_id")
    same_card = len({json.dumps([card and card[name] for name in kept]) for card in cards}) == 1
    ours, theirs = ({record.key: record for record in folder.rollouts(cell).records()} for folder in (first, second))
    if not same_card or ours != theirs:
        raise FolderError(
            f"cell {cell} has different results in {first.root} and in {second.root}: it was run twice, on machines "
            "or with settings that differ; keep one of them (remove the other's folder), then merge again"
        )


def _copy(source: Path, home: Path, draft: Path) -> None:
    """Whole or not at all: elsewhere first. A started but unfinished cell gives way."""
    home.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(source, draft)
    sync_tree(draft)
    if home.exists():
        shutil.rmtree(home)
    draft.rename(home)
    sync_directory(home.parent)


def _unlike(card: dict[str, Any], plan: CellPlan) -> str:
    parts = ("suite", "recipe", "orders", "intervention", "protocol")
    before, after = ({name: _by_name(settled(name, each[name])) for name in parts} for each in (card, plan.card()))
    left, right = flat(before), flat(after)
    unlike = [f"{name}: {left.get(name)} against {right.get(name)}" for name in right if left.get(name) != right[name]]
    return "; ".join(unlike[:3]) or "fields that are no longer known"


def _made_by(version: int) -> str:
    told = f"was made by version {version} of workcell and policy, this is {COMPUTED_BY}"
    return f"{told}: old and new results must not be mixed"


def _by_name(value: Any) -> Any:
    return {str(number): each for number, each in enumerate(value)} if isinstance(value, list) else value


def versions() -> dict[str, str]:
    """Of what computes results, here and now."""
    import numpy
    import torch

    from egorecovery.workcell.physics import mujoco

    found = {"mujoco": mujoco.__version__, "numpy": numpy.__version__, "torch": str(torch.__version__)}
    return {"python": python_version(), **found}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
