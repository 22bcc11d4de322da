"""The collection log of a folder of raw recordings. The recorder writes it and the audit reads it."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from egorecovery.capture.clip_draft import BEGUN, leftovers
from egorecovery.capture.clocks import SessionClock
from egorecovery.capture.recording_files import load_header
from egorecovery.episodes import EpisodeId, EpisodeStore, Provenance, Source, Task
from egorecovery.episodes.attempt_log import SIMULATED, Activity, ActivityKind, Attempt, AttemptLog
from egorecovery.errors import CaptureError, EpisodeError
from egorecovery.storage.containment import is_file, is_folder, names_in
from egorecovery.storage.typed_json import to_json

LOG = "collection.jsonl"
KILLED = "the recorder was killed before the clip was accepted"


class SessionLog:
    """One operator's session on one task and source."""

    def __init__(self, root: Path, task: Task, source: Source, operator: str, clock: SessionClock) -> None:
        self._log = AttemptLog(root / LOG)
        self._task, self._source, self._operator, self._clock = task, source, operator, clock

    def add(self, attempt: Attempt) -> None:
        self._log.add(attempt)

    def add_activity(self, kind: ActivityKind, start_s: float, stop_s: float) -> None:
        self._log.add_activity(
            Activity(
                kind=kind,
                task=self._task.name,
                source=str(self._source),
                operator=self._operator,
                started_at=self._clock.calendar(start_s),
                stopped_at=self._clock.calendar(stop_s),
            )
        )

    def attempt(self, name: EpisodeId, made: Provenance, reasons: tuple[str, ...]) -> Attempt:
        return Attempt(
            episode=name,
            task=self._task.name,
            source=str(self._source),
            operator=made.operator,
            started_at=made.started_at,
            stopped_at=made.stopped_at,
            staging_s=made.staging_s,
            reset_s=made.reset_s,
            accepted=not reasons,
            reasons=reasons,
        )

    def interrupted_attempt(self, name: EpisodeId, made: Provenance) -> dict[str, Any]:
        """The log entry of this clip if the recorder is killed while recording it."""
        return to_json(self.attempt(name, made, (KILLED,)))

    def require_clock(self) -> None:
        """Refuses a system clock that was set back, which would make an operator's intervals overlap."""
        stops = [
            datetime.fromisoformat(spent.stopped_at)
            for spent in [*self._log.attempts(), *self._log.activities()]
            if spent.operator == self._operator and not spent.operator.startswith(SIMULATED)
        ]
        now = datetime.fromisoformat(self._clock.calendar(self._clock.now_s()))
        if stops and now < max(stops):
            raise CaptureError(
                f"{self._log.journal.path}: {self._operator}'s last entry ends at {max(stops).isoformat()}, now it "
                f"is {now.isoformat()}: this machine's clock was set back; set it right, or record into another folder"
            )


def clear_leftovers(root: Path) -> list[str]:
    """Logs and removes the unfinished clips of a killed recorder; returns their names."""
    log = AttemptLog(root / LOG)
    cleared = []
    for draft, record, touched_s in leftovers(root):
        attempt = _attempt(record)
        if attempt is not None:
            stopped_at = datetime.fromtimestamp(touched_s, UTC).isoformat(timespec="milliseconds")
            stopped_at = max(attempt.started_at, stopped_at, key=datetime.fromisoformat)
            log.add(replace(attempt, stopped_at=stopped_at))
        draft.discard()
        cleared.append(draft.name)
    accepted = {attempt.episode for attempt in log.attempts() if attempt.accepted}
    for folder in (root / name for name in names_in(root) if is_folder(root / name)):
        if not is_file(folder / BEGUN):  # present if the recorder was killed between rename and log
            continue
        if folder.name not in accepted:
            log.add(Attempt.at(load_header(folder)))
        (folder / BEGUN).unlink()
    return cleared


def _attempt(record: dict[str, Any] | None) -> Attempt | None:
    """The attempt that a draft describes; None if the description does not fit."""
    try:
        attempt = Attempt.of(record or {})
        return attempt if datetime.fromisoformat(attempt.started_at).tzinfo else None
    except (EpisodeError, ValueError):
        return None


def adopt_logs(store: EpisodeStore, recordings: Iterable[Path]) -> int:
    """Copies entries that an import does not create from the recorder's logs: discarded attempts, setup, pauses.

    Returns the number of new entries. Repeating it adds none.
    """
    known = {(attempt.episode, attempt.started_at) for attempt in store.collection.attempts()}
    seen = set(store.collection.activities())
    adopted = 0
    for root in sorted({recording.parent for recording in recordings}):
        log = AttemptLog(root / LOG)
        for attempt in log.attempts():
            if not attempt.accepted and (attempt.episode, attempt.started_at) not in known:
                store.collection.add(attempt)
                adopted += 1
        for activity in log.activities():
            if activity not in seen:
                store.collection.add_activity(activity)
                adopted += 1
    return adopted
