"""The logged time of every operator, from stores and recorders' logs. Impossible and overlapping times are refused."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from egorecovery.episodes import EpisodeStore, Source
from egorecovery.episodes.attempt_log import FIRST_KNOWN_TIME, SIMULATED, Activity, Attempt, AttemptLog
from egorecovery.episodes.store import STORE
from egorecovery.errors import AuditError
from egorecovery.recovery import AnnotationJournal

LOG = "collection.jsonl"
# Times are logged in milliseconds and one interval ends where the next begins, so rounding may make them overlap.
TOUCHING = timedelta(milliseconds=5)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An interval of an operator's time spent on one thing, and the log that says so."""

    operator: str
    begins: datetime
    ends: datetime
    what: str
    log: Path


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Every attempt and activity of some logs."""

    attempts: tuple[Attempt, ...]
    activities: tuple[Activity, ...]
    read: tuple[Path, ...]  # the logs
    untimed: int = 0  # imported attempts without times: left out, because their cost is unknown


def read_ledger(paths: Sequence[Path]) -> Ledger:
    """The ledger of stores, folders of raw recordings, or logs. Impossible times are refused with their place."""
    attempts: dict[tuple[str, str], tuple[Attempt, Path]] = {}
    activities: dict[Activity, Path] = {}
    logs = []
    for path in paths:
        log = _log(path)
        logs.append(log.journal.path)
        dropped = _dropped_by_annotators(path)
        for attempt in log.attempts():
            key = attempt.episode, attempt.started_at
            before = attempts[key][0] if key in attempts else None
            attempts[key] = _verdict(attempt, before, dropped), log.journal.path
        for activity in log.activities():
            activities.setdefault(activity, log.journal.path)
    timed = {key: times for key, times in attempts.items() if not _is_untimed(*times)}
    intervals = [_attempt_interval(attempt, where) for attempt, where in timed.values()]
    intervals += [_activity_interval(activity, where) for activity, where in activities.items()]
    _refuse_overlaps(intervals)
    return Ledger(
        attempts=tuple(attempt for attempt, _ in timed.values()),
        activities=tuple(activities),
        read=tuple(logs),
        untimed=len(attempts) - len(timed),
    )


def is_simulated(operator: str) -> bool:
    return operator.startswith(SIMULATED)


def _log(path: Path) -> AttemptLog:
    file = path / LOG if path.is_dir() else path
    if not file.is_file():
        raise AuditError(f"{path}: no {LOG} there; name stores, folders that 'egorecovery record' wrote, or their logs")
    return AttemptLog(file)


def _dropped_by_annotators(path: Path) -> frozenset[str]:
    """Episodes that an annotator discarded. Their time was spent and counts."""
    root = path if path.is_dir() else path.parent
    if not (root / STORE).is_file():
        return frozenset()
    saved = AnnotationJournal(EpisodeStore(root).annotations_path).latest()
    return frozenset(name for name, annotation in saved.items() if annotation.discard)


def _verdict(attempt: Attempt, before: Attempt | None, dropped: frozenset[str]) -> Attempt:
    """An attempt counts as accepted only if neither recorder, import nor annotator refused it."""
    if before is not None and not before.accepted:
        return replace(attempt, accepted=False, reasons=before.reasons)
    if attempt.accepted and attempt.episode in dropped:
        return replace(attempt, accepted=False, reasons=("discarded by the annotator",))
    return attempt


def moment(text: str, name: str, where: Path) -> datetime:
    try:
        parsed = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise AuditError(f"{where}: {name} is not a time: {text!r}; write it in ISO 8601") from None
    if parsed.tzinfo is None:
        raise AuditError(f"{where}: {name} has no time zone ({text}); write it as 2026-03-01T10:00:00+00:00")
    return parsed


def _name(attempt: Attempt) -> str:
    return f"attempt {attempt.episode!r} of {attempt.operator}"


def _is_untimed(attempt: Attempt, where: Path) -> bool:
    return moment(attempt.started_at, f"{_name(attempt)}: started_at", where) < FIRST_KNOWN_TIME


def _attempt_interval(attempt: Attempt, where: Path) -> Interval:
    name = _name(attempt)
    if attempt.source not in list(Source):
        raise AuditError(f"{where}: {name} has source {attempt.source!r}, not one of {', '.join(Source)}")
    begins, ends = _span(name, attempt.started_at, attempt.stopped_at, where)
    for cost in ("staging_s", "reset_s"):
        seconds = getattr(attempt, cost)
        if not 0 <= seconds < 86400:
            raise AuditError(f"{where}: {name} has {cost} {seconds}; a number of seconds from 0 to a day is wanted")
    return Interval(
        operator=attempt.operator,
        begins=begins - timedelta(seconds=attempt.staging_s),
        ends=ends + timedelta(seconds=attempt.reset_s),
        what=name,
        log=where,
    )


def _activity_interval(activity: Activity, where: Path) -> Interval:
    name = f"{activity.kind} of {activity.operator} from {activity.started_at}"
    begins, ends = _span(name, activity.started_at, activity.stopped_at, where)
    return Interval(operator=activity.operator, begins=begins, ends=ends, what=name, log=where)


def _span(name: str, started_at: str, stopped_at: str, where: Path) -> tuple[datetime, datetime]:
    begins, ends = moment(started_at, f"{name}: started_at", where), moment(stopped_at, f"{name}: stopped_at", where)
    if ends < begins:
        raise AuditError(
            f"{where}: {name} stops at {stopped_at}, before it starts at {started_at}: the clock ran backwards"
        )
    return begins, ends


def _refuse_overlaps(intervals: Sequence[Interval]) -> None:
    """Refuses overlapping intervals of one operator, which would count hours twice. Simulated times are not checked."""
    measured = [interval for interval in intervals if not is_simulated(interval.operator)]
    last: dict[str, Interval] = {}
    for interval in sorted(measured, key=lambda entry: (entry.begins, entry.ends)):
        before = last.get(interval.operator)
        if before is not None and interval.begins < before.ends - TOUCHING and interval.ends > interval.begins:
            raise AuditError(
                f"{interval.operator} cannot have done two things at once: {before.what} "
                f"({before.begins.isoformat()} to {before.ends.isoformat()}, staging and reset included, in "
                f"{before.log}) and {interval.what} ({interval.begins.isoformat()} to {interval.ends.isoformat()}, in "
                f"{interval.log}) overlap; correct the wrong one's times, or give two people two names"
            )
        if before is None or interval.ends > before.ends:
            last[interval.operator] = interval
