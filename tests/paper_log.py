"""A collection log by an imaginary lab that works at exactly the paper's rates."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from egorecovery.audit.accounts import paper_rates
from egorecovery.episodes.attempt_log import Attempt, AttemptLog

FIRST_DAY = datetime(2026, 3, 2, 9, tzinfo=UTC)


def write_paper_log(path: Path, operator: str = "ada") -> list[Attempt]:
    """One hour of each task and source, one after the other; every 20th attempt fails, and its time is the others'."""
    attempts = []
    begins = FIRST_DAY
    for task, rates in paper_rates().items():
        for source, rate in rates.items():
            hour = one_hour(task, str(source), round(rate), begins, operator)
            attempts += hour
            begins += timedelta(hours=1)
    lines = [{**vars(attempt), "reasons": list(attempt.reasons)} for attempt in attempts]
    AttemptLog(path).journal.append_all(lines)
    return attempts


def one_hour(task: str, source: str, accepted: int, begins: datetime, operator: str) -> list[Attempt]:
    """Attempts that fill an hour without a gap: a third each for staging, recording and reset."""
    count = accepted + accepted // 20
    failing = {number * count // (accepted // 20) for number in range(accepted // 20)}
    edges = [begins + timedelta(microseconds=round(3.6e9 * number / (3 * count))) for number in range(3 * count + 1)]
    attempts = []
    for number in range(count):
        staged, started, stopped, reset = edges[3 * number : 3 * number + 4]
        kept = Attempt(
            episode=f"{task}-{source}-{number:04d}",
            task=task,
            source=source,
            operator=operator,
            started_at=started.isoformat(),
            stopped_at=stopped.isoformat(),
            staging_s=(started - staged).total_seconds(),
            reset_s=(reset - stopped).total_seconds(),
            accepted=True,
        )
        attempts.append(replace(kept, accepted=False, reasons=("slipped",)) if number in failing else kept)
    return attempts
