"""`egorecovery annotate`."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from egorecovery.errors import AnnotationError

if TYPE_CHECKING:
    from egorecovery.episodes import EpisodeStore
    from egorecovery.recovery import Annotation


@dataclass(frozen=True, kw_only=True)
class Annotate:
    """Set the recovery boundary of one episode, or confirm the automatic candidates of all."""

    store: Positional[Path]
    annotator: str
    """Your name: kept with every revision."""
    episode: str | None = None
    """The episode to annotate."""
    boundary: int | None = None
    """The last frame of the correction."""
    quality: Literal["good", "fair", "poor"] = "good"
    discard: bool = False
    """Keep the episode out of training."""
    note: str = ""
    confirm_candidates: bool = False
    """Accept the motion-energy candidate of every recovery episode that has no annotation yet."""

    def run(self) -> int:
        from egorecovery.cli.console import console
        from egorecovery.episodes import EpisodeStore
        from egorecovery.recovery import confirm_candidates

        if self.confirm_candidates == (self.episode is not None):
            raise AnnotationError("name one --episode with its --boundary (or --discard), or --confirm-candidates")
        if self.confirm_candidates and (self.boundary is not None or self.discard or self.note):
            raise AnnotationError(
                "--confirm-candidates takes no --boundary, --discard or --note: those are one episode's"
            )
        store = EpisodeStore(self.store)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        if self.episode is None:
            confirmed = confirm_candidates(store, self.annotator, saved_at=now)
            console.print(f"{len(confirmed)} candidates confirmed by {self.annotator}")
        else:
            saved = self._save(store, self.episode, now)
            console.print(f"{saved.episode}: revision {saved.revision}, boundary {saved.boundary}")
        return 0

    def _save(self, store: "EpisodeStore", identifier: str, now: str) -> "Annotation":
        from egorecovery.recovery import Annotation, AnnotationJournal, Quality, propose

        card = store.card(identifier)
        if not card.source.is_recovery and self.boundary is not None:
            raise AnnotationError(f"{identifier} is a {card.source} episode: it has no recovery and so no boundary")
        journal = AnnotationJournal(store.annotations_path)
        seen = journal.latest().get(identifier)
        annotation = Annotation(
            episode=identifier,
            boundary=self.boundary,
            annotator=self.annotator,
            quality=Quality(self.quality),
            discard=self.discard,
            candidate=propose(store, identifier).frame,
            note=self.note,
            saved_at=now,
        )
        return journal.save(annotation, n_frames=card.frames, seen_revision=seen.revision if seen else 0)
