"""Every attempt at an episode, kept or not: what the operator-hour accounting counts."""

from dataclasses import asdict, dataclass
from pathlib import Path

from egorecovery.episodes.episode import Episode
from egorecovery.episodes.journal import Journal


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
    def at(cls, episode: Episode, reasons: tuple[str, ...] = ()) -> "Attempt":
        """Accepted when there is no reason against it."""
        made = episode.provenance
        return cls(
            episode=episode.id,
            task=episode.task.name,
            source=str(episode.source),
            operator=made.operator,
            started_at=made.started_at,
            stopped_at=made.stopped_at,
            staging_s=made.staging_s,
            reset_s=made.reset_s,
            accepted=not reasons,
            reasons=reasons,
        )


class CollectionLog:
    """The store's `collection.jsonl`."""

    def __init__(self, path: Path) -> None:
        self.journal = Journal(path)

    def add(self, attempt: Attempt) -> None:
        self.journal.append({**asdict(attempt), "reasons": list(attempt.reasons)})

    def attempts(self) -> list[Attempt]:
        """Each attempt once, with its latest verdict: importing a recording again costs no operator time."""
        attempts = (Attempt(**{**record, "reasons": tuple(record["reasons"])}) for record in self.journal.records())
        return list({(attempt.episode, attempt.started_at): attempt for attempt in attempts}.values())
