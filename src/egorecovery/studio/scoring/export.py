"""Unblinding: people's verdicts in the evaluator's format, and their agreement."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from egorecovery.evaluation.rater_agreement import Agreement, agreement
from egorecovery.evaluation.results import ResultFile, RolloutRecord
from egorecovery.evaluation.rollout_videos import FILM_LIST
from egorecovery.storage.atomic_io import write_file
from egorecovery.studio.scoring.errors import ScoringError
from egorecovery.studio.scoring.ratings import Line, Ratings
from egorecovery.studio.scoring.session import Session, read_key, whole_folder

RESULTS, SUMMARY, TABLE = "results.jsonl", "agreement.json", "ratings.csv"
SCORED_BY = {"scored_by": "people"}  # in the protocol, to distinguish it from the rules' verdict on the same rollout


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One video after unblinding."""

    video: str
    source: str
    record: RolloutRecord  # with the people's verdict
    automatic: str | None
    verdicts: Mapping[str, str]  # by rater
    notes: Mapping[str, str]
    adjudicated_by: str | None


@dataclass(frozen=True, kw_only=True)
class Agreements:
    """Agreements; None if there is nothing to compare."""

    raters: Agreement | None
    automatic: Agreement | None  # the final verdicts against the rules'
    automatic_by_rater: Mapping[str, Agreement]
    unlike: Sequence[Scored]  # videos whose final verdict differs from the automatic one


@dataclass(frozen=True, kw_only=True)
class Unblinded:
    scored: Sequence[Scored]
    agreements: Agreements

    @property
    def records(self) -> list[RolloutRecord]:
        return [rollout.record for rollout in self.scored]


def unblind(session: Session, at: str, key_file: Path | None = None) -> Unblinded:
    """Closes the ratings permanently and reveals the rollouts. Refused while anything is open."""
    ratings = Ratings(session.plan, session.journal.records())
    if not ratings.unblinded:
        ratings.next_unblinding(at)  # refuses an incomplete session before the key is read
    key = read_key(session, key_file)  # refuses a missing key before the ratings are closed
    if not ratings.unblinded:

        def close(lines: list[Line]) -> Line:
            return Ratings(session.plan, lines).next_unblinding(at)

        session.journal.append_after(close)
        ratings = Ratings(session.plan, session.journal.records())
    scored = [_scored(video.id, key[video.id], ratings) for video in session.plan.videos]
    return Unblinded(scored=scored, agreements=_agreements(scored))


def _scored(video: str, known: Mapping[str, Any], ratings: Ratings) -> Scored:
    ratings_of_raters, verdict = ratings.on(video), ratings.final(video)
    assert verdict is not None, "only complete sessions are unblinded"
    decided = ratings.decision(video) if video in ratings.disagreements else None
    final = [decided] if decided else ratings_of_raters
    notes = {rating.by: rating.note for rating in [*ratings_of_raters, *([decided] if decided else [])] if rating.note}
    record = RolloutRecord.of(known["rollout"], f"video {video} of the key")
    return Scored(
        video=video,
        source=known["source"],
        record=replace(
            record,
            outcome=verdict,
            reason="; ".join(dict.fromkeys(rating.note for rating in final if rating.note)) or f"people: {verdict}",
            protocol={**record.protocol, **SCORED_BY},
        ),
        automatic=known["automatic"],
        verdicts={rating.by: rating.verdict for rating in ratings_of_raters},
        notes=notes,
        adjudicated_by=decided.by if decided else None,
    )


def _agreements(scored: Sequence[Scored]) -> Agreements:
    raters = list(dict.fromkeys(name for rollout in scored for name in rollout.verdicts))
    judged = [rollout for rollout in scored if rollout.automatic is not None]
    # An error counts as a failure.
    by_rules = ["success" if rollout.automatic == "success" else "failure" for rollout in judged]
    by_rater = [[rollout.verdicts[name] for rollout in scored] for name in raters]
    return Agreements(
        raters=agreement(*by_rater) if len(raters) == 2 else None,
        automatic=agreement([rollout.record.outcome for rollout in judged], by_rules) if judged else None,
        automatic_by_rater={
            name: agreement([rollout.verdicts[name] for rollout in judged], by_rules) for name in raters if judged
        },
        unlike=[rollout for rollout, rules in zip(judged, by_rules, strict=True) if rollout.record.outcome != rules],
    )


def write_export(unblinded: Unblinded, out: Path) -> list[Path]:
    """Writes the result file for `evaluate`'s statistics, the agreement, and a table; all of them or none."""
    if out.exists():
        raise ScoringError(f"{out} exists already; choose another folder for the export")
    with whole_folder(out) as draft:
        ResultFile(draft / RESULTS).append_all(unblinded.records)
        write_file(draft / SUMMARY, json.dumps(_summary(unblinded), indent=1, ensure_ascii=False).encode() + b"\n")
        write_file(draft / TABLE, _table(unblinded.scored).encode())
        films = {rollout.record.key: rollout.source for rollout in unblinded.scored}
        write_file(draft / FILM_LIST, json.dumps(films, indent=1, ensure_ascii=False).encode() + b"\n")
    return [out / name for name in (RESULTS, SUMMARY, TABLE, FILM_LIST)]


def _summary(unblinded: Unblinded) -> dict[str, Any]:
    agreements = unblinded.agreements

    def numbers(pair: Agreement | None) -> dict[str, Any] | None:
        return pair and {**asdict(pair), "raw": pair.raw}

    return {
        "videos": len(unblinded.scored),
        "adjudicated": sum(rollout.adjudicated_by is not None for rollout in unblinded.scored),
        "between_raters": numbers(agreements.raters),
        "with_automatic_verdict": numbers(agreements.automatic),
        "with_automatic_verdict_by_rater": {
            name: numbers(pair) for name, pair in agreements.automatic_by_rater.items()
        },
        "unlike_automatic_verdict": [rollout.source for rollout in agreements.unlike],
    }


def _table(scored: Sequence[Scored]) -> str:
    raters = list(dict.fromkeys(name for rollout in scored for name in rollout.verdicts))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    known = ("video", "source", "method", "seed", "task", "regime", "start", "mode")
    writer.writerow(map(_inert, [*known, *raters, "adjudicated_by", "verdict", "automatic", "notes"]))
    for rollout in scored:
        record = rollout.record
        which = (rollout.video, rollout.source, record.subject.policy, record.subject.seed)
        start = (record.task, record.regime, record.index, record.mode)
        notes = "; ".join(f"{name}: {note}" for name, note in rollout.notes.items())
        verdicts = [rollout.verdicts[name] for name in raters]
        row = [*which, *start, *verdicts, rollout.adjudicated_by or "", record.outcome, rollout.automatic or "", notes]
        writer.writerow(map(_inert, row))
    return text.getvalue()


def _inert(cell: object) -> str:
    """A cell's text. A spreadsheet must not interpret a name or note as a formula."""
    text = str(cell)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
