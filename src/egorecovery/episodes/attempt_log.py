"""Every attempt at an episode, kept or not: what the operator-hour accounting counts."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from egorecovery.episodes.episode import Provenance, checked_fields
from egorecovery.episodes.vocabulary import EpisodeId, Source, Task
from egorecovery.storage.journal import Journal


@runtime_checkable
class Attempted(Protocol):
    """What an attempt leaves even if no episode comes of it: an `Episode` and a raw recording both have these."""

    @property
    def id(self) -> EpisodeId: ...
    @property
    def task(self) -> Task: ...
    @property
    def source(self) -> Source: ...
    @property
    def provenance(self) -> Provenance: ...


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One recording attempt and its cost. A discarded one keeps its record and loses only its frames."""

    episode: str
    task: str
    source: str
    operator: str
    started_at: str
    stopped_at: str
    staging_s: float
    reset_s: float
    accepted: bool
    reasons: tuple[str, ...] = ()  # why it was discarded

    @classmethod
    def at(cls, attempted: Attempted, reasons: tuple[str, ...] = ()) -> "Attempt":
        """Accepted when there is no reason against it."""
        made = attempted.provenance
        return cls(
            episode=attempted.id,
            task=attempted.task.name,
            source=str(attempted.source),
            operator=made.operator,
            started_at=made.started_at,
            stopped_at=made.stopped_at,
            staging_s=made.staging_s,
            reset_s=made.reset_s,
            accepted=not reasons,
            reasons=reasons,
        )

    @classmethod
    def of(cls, record: dict[str, Any]) -> "Attempt":
        """A line of the log, each field of its type."""
        return cls(**checked_fields(cls, record, "attempt"))


class AttemptLog:
    """The store's `collection.jsonl`."""

    def __init__(self, path: Path) -> None:
        self.journal = Journal(path, check=Attempt.of)

    def add(self, attempt: Attempt) -> None:
        self.journal.append({**asdict(attempt), "reasons": list(attempt.reasons)})

    def attempts(self) -> list[Attempt]:
        """Each attempt once, with its latest verdict: importing a recording again costs no operator time."""
        attempts = map(Attempt.of, self.journal.records())
        return list({(attempt.episode, attempt.started_at): attempt for attempt in attempts}.values())
