"""What an annotator says of an episode, kept forever: revisions are appended, never overwritten."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from egorecovery.errors import AnnotationError, StaleRevision
from egorecovery.recovery.labels import require_boundary
from egorecovery.storage.journal import Journal
from egorecovery.storage.typed_json import from_json, to_json


class Quality(StrEnum):
    GOOD = "good"
    FAIR = "fair"
    POOR = "poor"


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """One pass of one annotator over one episode (paper, annotation schema)."""

    episode: str
    boundary: int | None  # t_rec, the last frame of the recovery; None only where the episode is discarded
    annotator: str
    quality: Quality = Quality.GOOD
    discard: bool = False
    candidate: int | None = None  # what the motion-energy curve proposed
    note: str = ""
    saved_at: str = ""  # ISO 8601, from the caller's clock
    revision: int = 0  # 1 for the first save; set by the journal

    def __post_init__(self) -> None:
        if not self.annotator.strip():
            raise AnnotationError(f"{self.episode}: an annotation names its annotator")
        if self.boundary is None and not self.discard:
            raise AnnotationError(f"{self.episode}: give a boundary, or discard the episode")
        for name in ("annotator", "note"):
            try:
                getattr(self, name).encode()
            except UnicodeEncodeError:
                raise AnnotationError(f"{self.episode}: {name} is not UTF-8 text; write it again") from None

    def record(self) -> dict[str, Any]:
        return to_json(self)

    @classmethod
    def of(cls, record: dict[str, Any]) -> "Annotation":
        """A line of the journal, each field of its type."""
        return from_json(cls, record, "annotation", AnnotationError)


class AnnotationJournal:
    """A store's `annotations.jsonl`. A save that returned survives a kill."""

    def __init__(self, path: Path) -> None:
        self.journal = Journal(path, check=Annotation.of)

    def history(self) -> list[Annotation]:
        return [Annotation.of(record) for record in self.journal.records()]

    def problems(self) -> list[str]:
        """What `verify` should say: damaged or lost lines, and revisions that do not follow each other."""
        problems = self.journal.problems()
        if problems:
            return problems
        revisions: dict[str, int] = {}
        for number, annotation in enumerate(self.history(), start=1):
            revisions[annotation.episode] = revisions.get(annotation.episode, 0) + 1
            if annotation.revision != revisions[annotation.episode]:
                problems.append(
                    f"{self.journal.path} line {number} is revision {annotation.revision} of {annotation.episode}, "
                    f"{revisions[annotation.episode]} was next: two saves did not see each other; annotate it again"
                )
        return problems

    def latest(self) -> dict[str, Annotation]:
        """The last word on each episode."""
        return {annotation.episode: annotation for annotation in self.history()}

    def save_first(self, annotations: Sequence[Annotation]) -> None:
        """First annotations of many episodes at once, boundaries already known to fit; all or none of them."""

        def first_revisions(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
            known = {record["episode"] for record in records}
            for annotation in annotations:
                if annotation.episode in known:
                    raise StaleRevision(f"{annotation.episode} has been annotated meanwhile; run again")
                known.add(annotation.episode)
            return [{**annotation.record(), "revision": 1} for annotation in annotations]

        self.journal.append_all_after(first_revisions)

    def save(self, annotation: Annotation, *, n_frames: int, seen_revision: int) -> Annotation:
        """Appends the next revision; refused when someone else saved one since `seen_revision` (0: none yet)."""
        if annotation.boundary is not None:
            try:
                require_boundary(annotation.boundary, n_frames)
            except AnnotationError as error:
                raise AnnotationError(f"{annotation.episode}: {error}") from None

        def next_revision(records: list[dict[str, Any]]) -> dict[str, Any]:
            current = next((r for r in reversed(records) if r["episode"] == annotation.episode), None)
            revision = current["revision"] if current else 0
            if revision != seen_revision:
                raise StaleRevision(
                    f"{annotation.episode}: revision {revision}"
                    + (f" by {current['annotator']} (boundary {current['boundary']})" if current else "")
                    + f" is newer than the one you saw ({seen_revision}); reload it, then save again"
                )
            return {**annotation.record(), "revision": revision + 1}

        return Annotation.of(self.journal.append_after(next_revision))
