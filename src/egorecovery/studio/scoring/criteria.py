"""The written rules shown beside a video."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from egorecovery.storage.bounded_json import read_named_json
from egorecovery.studio.scoring.errors import ScoringError

WRITTEN = Path(__file__).with_name("criteria.json")
_SHAPE = (
    '{"tasks": {"TASK": {"title": "...", "success": ["..."], "failure": ["..."], "allowed": ["..."]}}} and, if wanted, '
    '"every_task": ["..."]'
)


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """Success criteria of one task (paper, appendix on success criteria)."""

    title: str
    success: tuple[str, ...]  # all of these
    failure: tuple[str, ...]  # any of these
    allowed: tuple[str, ...] = ()
    every_task: tuple[str, ...] = ()

    def record(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def of(cls, record: dict[str, Any]) -> "Criteria":
        title, *sentences = (record[name] for name in ("title", "success", "failure", "allowed", "every_task"))
        success, failure, allowed, every_task = map(tuple, sentences)
        return cls(title=title, success=success, failure=failure, allowed=allowed, every_task=every_task)


def criteria_for(tasks: Iterable[str], own: Path | None = None) -> dict[str, Criteria]:
    """The criteria of each task. `own` is a JSON file of the same form that overrides the built-in ones."""
    known = {**_read(WRITTEN), **(_read(own) if own else {})}
    wanted = sorted(set(tasks))
    missing = [task for task in wanted if task not in known]
    if missing:
        raise ScoringError(
            f"there are no written success criteria for {', '.join(missing)}; there are for {', '.join(known)}; "
            f"write them into a JSON file, {_SHAPE}, and give it with --criteria"
        )
    return {task: known[task] for task in wanted}


def _read(path: Path) -> dict[str, Criteria]:
    written = read_named_json(path, ScoringError)
    try:
        every_task = _sentences(written.get("every_task", []))
        return {str(task): _criteria(fields, every_task) for task, fields in written["tasks"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ScoringError(f"{path} does not hold success criteria ({error}); wanted {_SHAPE}") from None


def _criteria(fields: dict[str, Any], every_task: tuple[str, ...]) -> Criteria:
    return Criteria(
        title=str(fields["title"]),
        success=_sentences(fields["success"]),
        failure=_sentences(fields["failure"]),
        allowed=_sentences(fields.get("allowed", [])),
        every_task=every_task,
    )


def _sentences(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(sentence, str) for sentence in value):
        raise TypeError(f"wanted a list of sentences, got {value!r}")
    return tuple(value)
