"""What a run of a suite reports while it goes on, and its outcome."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from egorecovery.errors import EgoRecoveryError

Stage = Literal["data", "training", "evaluation", "diagnostics", "videos"]
Reporter = Callable[[Stage, str, int, int], None]  # of what, done, total


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of progress."""

    kind: Literal["progress", "done", "failed", "left"]
    what: str  # a cell, a training's first cell, or a task and source
    stage: Stage | None = None
    label: str = ""  # for people: the condition, such as "EgoRecovery"; empty where the event is about no cell
    task: str = ""
    number: int = 0  # of the `of` trainings or cells that this run makes
    of: int = 0
    done: int = 0  # of `total` episodes, steps, rollouts or videos
    total: int = 0
    message: str = ""
    cells_left: int = 0


@dataclass(kw_only=True)
class SuiteOutcome:
    there: list[str] = field(default_factory=list)  # were done before
    done: list[str] = field(default_factory=list)  # now
    failed: dict[str, str] = field(default_factory=dict)  # why
    left: list[str] = field(default_factory=list)  # for want of time
    diagnosed: dict[str, str] = field(default_factory=dict)  # by task, what became of it; empty where not asked for
    filmed: dict[str, str] = field(default_factory=dict)  # by cell, what became of its videos; empty where not asked

    @property
    def exit_code(self) -> int:
        return 1 if self.failed else 0


def error_words(error: Exception) -> str:
    """Our own errors speak for themselves; others are named."""
    return str(error) if isinstance(error, EgoRecoveryError) else f"{type(error).__name__}: {error}"
