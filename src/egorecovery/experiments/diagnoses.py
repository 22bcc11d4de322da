"""Finished diagnoses of an experiment's policies, read from their folders."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from egorecovery.experiments.condition import task_order
from egorecovery.experiments.diagnostic_rows import DiagnosticRow, rows
from egorecovery.experiments.folder import DIAGNOSIS, ExperimentFolder, FolderError
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.containment import inside, is_file

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class TaskDiagnosis:
    """A finished diagnosis, as it lies in its folder."""

    task: str
    folder: Path
    record: Mapping[str, Any]

    @property
    def rows(self) -> list[DiagnosticRow]:
        return rows(self.record)

    @property
    def figures(self) -> dict[str, Path]:
        named = {name: self.folder / Path(file).name for name, file in self.record.get("figures", {}).items()}
        return {name: path for name, path in named.items() if path.suffix == ".png" and is_file(path)}

    @property
    def whole(self) -> bool:
        """No figure has been lost."""
        return len(self.figures) == len(self.record.get("figures", {}))

    @property
    def content_hash(self) -> str:
        return str(self.record["content_hash"])

    @property
    def not_computed(self) -> list[str]:
        return [f"{entry['what']}: {entry['reason']}" for entry in self.record.get("not_computed", ())]

    @property
    def notes(self) -> list[str]:
        return [str(note) for note in self.record.get("notes", ())]

    @property
    def command(self) -> str:
        return str(self.record.get("command") or "")

    def summary(self) -> dict[str, Any]:
        kept = ("content_hash", "command", "data_hash", "fresh", "policies", "compare", "not_computed", "notes")
        return {**{name: self.record.get(name) for name in kept}, "rows": [asdict(row) for row in self.rows]}


def diagnoses(root: Path) -> list[TaskDiagnosis]:
    """Those of an experiment's folder, in the paper's order of tasks."""
    folders = sorted(ExperimentFolder(root).diagnoses(), key=lambda path: task_order(path.name))
    return [diagnosis for folder in folders if (diagnosis := diagnosis_in(folder))]


def diagnosis_in(folder: Path) -> TaskDiagnosis | None:
    """A finished diagnosis; None where there is none."""
    path = inside(folder, DIAGNOSIS)
    try:
        record = read_json(path, FolderError, "remove it, and diagnose again")
        if record["schema"] != SCHEMA:
            raise FolderError(f"{path} has schema {record['schema']}, this version reads {SCHEMA}; diagnose again")
        diagnosis = TaskDiagnosis(task=str(record["task"]), folder=folder, record=record)
        diagnosis.summary()  # fails here, by name, where the record is not as diagnoses are written
    except FileNotFoundError:
        return None
    except (ArithmeticError, LookupError, ValueError, TypeError, AttributeError) as error:
        raise FolderError(f"{path} is not a diagnosis ({error!r}); remove it, and diagnose again") from None
    return diagnosis
