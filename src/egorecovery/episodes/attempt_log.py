"""Every attempt at an episode, kept or not, and the work around them: what the operator-hour accounting counts."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from egorecovery.episodes.episode import Provenance
from egorecovery.episodes.vocabulary import EpisodeId, Source, Task
from egorecovery.errors import EpisodeError
from egorecovery.storage.journal import Journal
from egorecovery.storage.typed_json import from_json, to_json

SIMULATED = "simulated "  # how the name of an operator begins whose times nobody measured
# Where neither a data set nor a person says when: its episodes are laid end to end from here.
UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_KNOWN_TIME = UNKNOWN_TIME + timedelta(days=365)


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
        return from_json(cls, record, "attempt", EpisodeError)


class ActivityKind(StrEnum):
    """Time of an operator that belongs to no single attempt."""

    SETUP = "setup"  # preparing the rig or the scene; also staging that no recording followed
    SYNCHRONISATION = "synchronisation"  # until all cameras deliver
    PAUSE = "pause"  # away from the rig: shown, but not counted as operator time


@dataclass(frozen=True, kw_only=True)
class Activity:
    """A stretch of a recording session between attempts."""

    kind: ActivityKind
    task: str
    source: str
    operator: str
    started_at: str
    stopped_at: str

    @classmethod
    def of(cls, record: dict[str, Any]) -> "Activity":
        """A line of the log, each field of its type."""
        return from_json(cls, record, "activity", EpisodeError)


class AttemptLog:
    """The `collection.jsonl` of a store, or of a folder of raw recordings."""

    def __init__(self, path: Path) -> None:
        self.journal = Journal(path, check=_line)

    def add_activity(self, activity: Activity) -> None:
        self.journal.append(to_json(activity))

    def add(self, attempt: Attempt) -> None:
        self.journal.append(to_json(attempt))

    def attempts(self) -> list[Attempt]:
        """Each attempt once, with its latest verdict: importing a recording again costs no operator time."""
        attempts = (Attempt.of(record) for record in self.journal.records() if "kind" not in record)
        return list({(attempt.episode, attempt.started_at): attempt for attempt in attempts}.values())

    def activities(self) -> list[Activity]:
        """Each once. Logs that were written before there were activities have none."""
        records = (record for record in self.journal.records() if "kind" in record)
        return list(dict.fromkeys(map(Activity.of, records)))


def _line(record: dict[str, Any]) -> "Attempt | Activity":
    return Activity.of(record) if "kind" in record else Attempt.of(record)
