"""Diagnoses in a report: figures, and each number beside the paper's."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from egorecovery.experiments.folder import DIAGNOSIS, ExperimentFolder
from egorecovery.experiments.report.arms import task_order, task_title
from egorecovery.experiments.report.cells import ReportError
from egorecovery.experiments.report.diagnostic_rows import DiagnosticRow, rows
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.containment import inside, is_file, read_bytes
from egorecovery.storage.foreign_text import inert_markdown

SCHEMA = 1
CAPTIONS = {
    "ks": "KS distance between robot and human by DCT coefficient: below the dotted line, no difference is shown.",
    "coverage": "Starts of recovery episodes beside those that evaluation draws, by failure mode.",
    "bottleneck": "What enters and leaves the Intent Head on recovery episodes that the policy never saw.",
    "gate": "The gate on recovery episodes that the policy never saw, aligned to the annotated boundary.",
    "probe": "Object position read linearly from frozen trunks, on robot episodes that neither policy saw.",
}


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
    def absent(self) -> list[str]:
        return [f"{one['what']}: {one['reason']}" for one in self.record.get("not_computed", ())]

    @property
    def notes(self) -> list[str]:
        return [str(note) for note in self.record.get("notes", ())]

    def summary(self) -> dict[str, Any]:
        kept = ("content_hash", "command", "data_hash", "fresh", "policies", "compare", "not_computed", "notes")
        return {**{name: self.record.get(name) for name in kept}, "rows": [asdict(row) for row in self.rows]}


def diagnoses(root: Path) -> list[TaskDiagnosis]:
    """Those of an experiment's folder, in the paper's order of tasks."""
    folders = sorted(ExperimentFolder(root).diagnoses(), key=lambda path: task_order(path.name))
    return [one for folder in folders if (one := diagnosis_in(folder))]


def diagnosis_in(folder: Path) -> TaskDiagnosis | None:
    """A finished diagnosis; None where there is none."""
    path = inside(folder, DIAGNOSIS)
    try:
        record = read_json(path, ReportError, "remove it, and diagnose again")
        if record["schema"] != SCHEMA:
            raise ReportError(f"{path} has schema {record['schema']}, this version reads {SCHEMA}; diagnose again")
        found = TaskDiagnosis(task=str(record["task"]), folder=folder, record=record)
        found.summary()
    except FileNotFoundError:
        return None
    except (ArithmeticError, LookupError, ValueError, TypeError, AttributeError) as error:
        raise ReportError(f"{path} is not a diagnosis ({error!r}); remove it, and diagnose again") from None
    return found


def section(found: Sequence[TaskDiagnosis]) -> str:
    """HTML; empty where nothing was diagnosed."""
    return "".join(_task(one) for one in found)


def _task(one: TaskDiagnosis) -> str:
    body, group = [], None
    for row in one.rows:
        if row.group != group:
            body.append(f'<tr class="part"><th colspan="3">{escape(row.group)}</th></tr>')
            group = row.group
        body.append(
            f'<tr><th scope="row">{escape(row.what)}</th><td>{escape(row.here)}</td><td>{escape(row.paper)}</td></tr>'
        )
    table = (
        '<div class="scroll"><table class="plain small"><thead><tr><th></th><th>Here</th><th>Paper</th></tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )
    pictures = "".join(
        _figure(read_bytes(path), f"{name}, {task_title(one.task)}", CAPTIONS.get(name, name))
        for name, path in one.figures.items()
    )
    lacking = "".join(f"<li>{escape(words)}</li>" for words in one.absent)
    absent = f'<div class="absent"><b>Not computed</b><ul>{lacking}</ul></div>' if lacking else ""
    told = "".join(f'<p class="note">{escape(words)}</p>' for words in one.notes)
    command = str(one.record.get("command") or "")
    made = f"<details><summary>To repeat it</summary><pre>{escape(command)}</pre></details>" if command else ""
    return f"<h3>{escape(task_title(one.task))}</h3>{table if body else ''}{absent}{told}{pictures}{made}"


def _figure(picture: bytes, name: str, caption: str) -> str:
    """Drawn at 200 dots per inch: shown at half its pixels, where its letters are as large as the page's."""
    width = int.from_bytes(picture[16:20], "big") // 2  # of a PNG's header
    source = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    return (
        f'<figure class="wide"><img alt="{escape(name)}" style="width: {width}px" src="{source}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def markdown(found: Sequence[TaskDiagnosis]) -> str:
    parts = ["## Diagnostics"]
    for one in found:
        cells = [[inert_markdown(words) for words in (row.group, row.what, row.here, row.paper)] for row in one.rows]
        lines = ["| " + " | ".join(row) + " |" for row in cells]
        parts.append(f"### {inert_markdown(task_title(one.task))}")
        parts += ["\n".join(["| | | here | paper |", "| --- | --- | --- | --- |", *lines])] if lines else []
        said = [f"- not computed: {inert_markdown(words)}" for words in one.absent]
        said += [f"- {inert_markdown(words)}" for words in one.notes]
        parts += ["\n".join(said)] if said else []
    return "\n\n".join(parts) if found else ""
