"""The written rules shown beside a video."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

from egorecovery.storage.bounded_json import read_named_json
from egorecovery.storage.typed_json import from_json
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


class _TaskRules(TypedDict):
    """A task's criteria in a file, where `every_task` is said once for all."""

    title: str
    success: list[str]
    failure: list[str]
    allowed: NotRequired[list[str]]


class _RulesFile(TypedDict):
    tasks: Mapping[str, _TaskRules]
    every_task: NotRequired[list[str]]


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
    rules = from_json(_RulesFile, written, f"{path}: ", ScoringError, f"wanted is {_SHAPE}")
    return {task: _criteria(fields, rules.get("every_task", [])) for task, fields in rules["tasks"].items()}


def _criteria(rules: _TaskRules, every_task: list[str]) -> Criteria:
    return Criteria(
        title=rules["title"],
        success=tuple(rules["success"]),
        failure=tuple(rules["failure"]),
        allowed=tuple(rules.get("allowed", ())),
        every_task=tuple(every_task),
    )
