"""The annotation desk: a store's annotations as each annotator may see them, and saving of new ones."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from egorecovery.episodes import EpisodeCard
from egorecovery.errors import AnnotationError, StaleRevision
from egorecovery.recovery import Annotation, AnnotationJournal, Quality
from egorecovery.studio.annotating.clips import ClipIndex
from egorecovery.studio.annotating.pace import clips_per_hour

# The journal cannot return a clip to "not annotated". Discarding keeps the clip out of training like an unannotated
# one, and this note distinguishes it from a clip that was discarded on purpose.
WITHDRAWN = "(withdrawn: the annotator undid their first word on this clip)"
CONTENT_LETTERS = 16  # of a recording's hash, for the pages
MAX_RETRIES = 10  # of an independent save, while others save the same clip


@dataclass(frozen=True, kw_only=True)
class Viewer:
    """The annotator of a page. An independent one does not see the candidate and others' boundaries."""

    annotator: str
    independent: bool = False


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An annotator's entry for one clip. `withdraw` removes all earlier entries from view."""

    boundary: int | None
    quality: Quality = Quality.GOOD
    discard: bool = False
    note: str = ""
    withdraw: bool = False
    seen_content: str = ""  # the recording that the annotator saw; empty: not said


class Conflict(StaleRevision):
    """Someone else saved this clip meanwhile; nothing was written."""

    def __init__(self, clip: str, theirs: Annotation | None) -> None:
        super().__init__(f"{clip}: somebody else saved this clip since you opened it")
        self.theirs = theirs


class Desk:
    """One store's annotations. All state is in the journal, so a kill loses nothing."""

    def __init__(self, clips: ClipIndex, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.clips = clips
        self.journal = AnnotationJournal(clips.store.annotations_path)
        self._now = now
        self._lock = threading.Lock()  # the journal caches what it has read and is used by several threads

    def history(self) -> list[Annotation]:
        with self._lock:
            return self.journal.history()

    def rows(self, viewer: Viewer) -> list[dict[str, Any]]:
        """The list of clips as this viewer may see it."""
        latest, seen = _views(self.history(), viewer)
        rows = [_row(card, latest.get(card.id), seen.get(card.id)) for card in self.clips.cards().values()]
        rows += [_damaged_row(clip, damage, latest.get(clip)) for clip, damage in self.clips.damaged().items()]
        return sorted(rows, key=lambda row: row["id"])

    def row(self, clip: str, viewer: Viewer) -> dict[str, Any]:
        card = self.clips.card(clip)
        latest, seen = _views((annotation for annotation in self.history() if annotation.episode == clip), viewer)
        return _row(card, latest.get(clip), seen.get(clip))

    def progress(self, viewer: Viewer) -> dict[str, Any]:
        mine = [annotation.saved_at for annotation in self.history() if annotation.annotator == viewer.annotator]
        return {"clips_per_hour": clips_per_hour(mine), "annotators": self.annotators()}

    def annotators(self) -> list[str]:
        return sorted({annotation.annotator for annotation in self.history()})

    def save(
        self, clip: str, entry: Entry, viewer: Viewer, *, candidate: int | None, seen_revision: int
    ) -> dict[str, Any]:
        """Saves an entry to disk. If someone else saved the clip meanwhile, raises `Conflict` with their value."""
        card = self.clips.card(clip)
        if entry.seen_content not in ("", card.content[:CONTENT_LETTERS]):
            raise AnnotationError(f"{clip} was replaced by another recording since you opened it; reload the page")
        annotation = self._annotation(card, entry, viewer, None if viewer.independent else candidate)
        for _ in range(MAX_RETRIES):
            try:
                saved = self._append(annotation, card, seen_revision)
            except Conflict as conflict:
                # An independent annotator must not see the other boundary, so both entries stay in the journal.
                theirs = conflict.theirs
                if not viewer.independent or theirs is None or theirs.annotator == viewer.annotator:
                    raise
                seen_revision = theirs.revision
                continue
            return _row(card, saved, saved)
        raise AnnotationError(f"{clip}: others keep saving this clip; try again")

    def undo(self, clip: str, viewer: Viewer, *, to_revision: int, seen_revision: int) -> dict[str, Any]:
        """Restores revision `to_revision` (0: no annotation), unless someone saved since."""
        card = self.clips.card(clip)
        history = [annotation for annotation in self.history() if annotation.episode == clip]
        if (history[-1].revision if history else 0) != seen_revision or not 0 <= to_revision < seen_revision:
            raise Conflict(clip, history[-1] if history else None)
        earlier = history[:to_revision]
        mine = next((annotation for annotation in reversed(earlier) if annotation.annotator == viewer.annotator), None)
        if mine is None:
            restored = [self._annotation(card, Entry(boundary=None, withdraw=True), viewer, None)]
        else:
            restored = [replace(mine, saved_at=self._timestamp())]
        if earlier and earlier[-1].annotator != viewer.annotator:
            restored.append(earlier[-1])  # keeps its author, because agreement compares people
        for annotation in restored:
            seen_revision = self._append(annotation, card, seen_revision).revision
        return self.row(clip, viewer)

    def _append(self, annotation: Annotation, card: EpisodeCard, seen_revision: int) -> Annotation:
        try:
            with self._lock:
                return self.journal.save(annotation, n_frames=card.frames, seen_revision=seen_revision)
        except StaleRevision:
            raise Conflict(card.id, self._latest(card.id)) from None

    def _timestamp(self) -> str:
        return self._now().isoformat(timespec="milliseconds")

    def _latest(self, clip: str) -> Annotation | None:
        return next((annotation for annotation in reversed(self.history()) if annotation.episode == clip), None)

    def _annotation(self, card: EpisodeCard, entry: Entry, viewer: Viewer, candidate: int | None) -> Annotation:
        annotation = Annotation(
            episode=card.id,
            boundary=entry.boundary,
            annotator=viewer.annotator,
            quality=entry.quality,
            discard=entry.discard or entry.withdraw,
            candidate=candidate,
            note=entry.note,
            saved_at=self._timestamp(),
        )
        if card.source.is_recovery:
            return replace(annotation, boundary=None, note=WITHDRAWN) if entry.withdraw else annotation
        if annotation.discard and not entry.withdraw:
            return replace(annotation, boundary=None)
        # A success episode has no recovery. A restored one is saved with its last frame as the boundary, which the
        # labels of success episodes ignore.
        return replace(annotation, boundary=card.frames - 1, discard=False)


def is_withdrawn(annotation: Annotation) -> bool:
    return annotation.discard and annotation.note == WITHDRAWN


def _views(history: Iterable[Annotation], viewer: Viewer) -> tuple[dict[str, Annotation], dict[str, Annotation]]:
    """The latest annotation of each clip, and the latest one that the viewer may see."""
    latest: dict[str, Annotation] = {}
    seen: dict[str, Annotation] = {}
    for annotation in history:
        latest[annotation.episode] = annotation
        if not viewer.independent or annotation.annotator == viewer.annotator:
            seen[annotation.episode] = annotation
    return latest, seen


def _row(card: EpisodeCard, latest: Annotation | None, seen: Annotation | None) -> dict[str, Any]:
    """One clip of the list, with its annotation if the viewer may see it."""
    annotation = None if seen is None or is_withdrawn(seen) else seen
    return {
        "id": card.id,
        "task": card.task.name,
        "active": [str(side) for side in card.task.active],
        "source": str(card.source),
        "frames": card.frames,
        "cameras": list(card.cameras),
        "operator": card.operator,
        "has_boundary": card.source.is_recovery,
        "state": _state(card, annotation),
        "content": card.content[:CONTENT_LETTERS],
        "revision": latest.revision if latest else 0,
        "annotation": None if annotation is None else plain(annotation),
    }


def _damaged_row(clip: str, damage: str, latest: Annotation | None) -> dict[str, Any]:
    """An episode that cannot be opened. It stays in the list, so that it is not taken for annotated or missing."""
    unknown = {
        "task": "",
        "active": [],
        "source": "",
        "frames": 0,
        "cameras": [],
        "operator": "",
        "content": "",
        "annotation": None,
    }
    revision = latest.revision if latest else 0
    return {"id": clip, **unknown, "has_boundary": False, "state": "damaged", "revision": revision, "damage": damage}


def _state(card: EpisodeCard, annotation: Annotation | None) -> str:
    if annotation is not None and annotation.discard:
        return "discarded"
    if not card.source.is_recovery:
        return "success"
    return "open" if annotation is None else "annotated"


def plain(annotation: Annotation) -> dict[str, Any]:
    return {**asdict(annotation), "quality": str(annotation.quality)}
