"""What a run of a suite tells while it goes on, and what it comes to."""

from dataclasses import dataclass, field
from typing import Literal

Stage = Literal["data", "training", "evaluation", "diagnostics", "films"]


@dataclass(frozen=True, kw_only=True)
class Event:
    """What a watcher is told."""

    kind: Literal["progress", "done", "failed", "left"]
    what: str  # a cell, a training's first cell, or a task and source
    stage: Stage | None = None
    done: int = 0  # of `total` episodes, steps or rollouts
    total: int = 0
    message: str = ""
    cells_left: int = 0
    left_s: float | None = None  # until all that was asked for is done, where every stage was seen or begun
    then: tuple[Stage, ...] = ()  # comes after that, and nobody has seen how long it takes
    here_s: float | None = None  # until this is done, as it goes; of data all that its store lacks


@dataclass(kw_only=True)
class SuiteOutcome:
    there: list[str] = field(default_factory=list)  # were done before
    done: list[str] = field(default_factory=list)  # now
    failed: dict[str, str] = field(default_factory=dict)  # why
    left: list[str] = field(default_factory=list)  # for want of time
    diagnosed: dict[str, str] = field(default_factory=dict)  # by task, what became of it; empty where not asked for
    filmed: dict[str, str] = field(default_factory=dict)  # by cell, what became of its films; empty where not asked for

    @property
    def exit_code(self) -> int:
        return 1 if self.failed else 0
