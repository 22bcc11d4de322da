"""`egorecovery annotate`."""

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from tyro.conf import Positional

from egorecovery.cli.words import command
from egorecovery.errors import AnnotationError, StudioError

if TYPE_CHECKING:
    from egorecovery.episodes import EpisodeStore
    from egorecovery.recovery import Annotation


@dataclass(frozen=True, kw_only=True)
class Annotate:
    """Set where each recovery ends: in the browser, or without a page for one episode or for all."""

    EXAMPLE: ClassVar = "annotate runs/store"
    HEADINGS: ClassVar = {
        "annotator": "the page",
        "episode": "without a page",
    }

    store: Positional[Path]
    """The store whose recoveries get their boundary."""
    annotator: str | None = None
    """Your name, kept with every revision. The page asks for it; without a page it is needed."""
    host: str = "127.0.0.1"
    """The address to listen on. One that others can reach needs --token-file."""
    port: int | None = None
    """The port to listen on; 8765, or a free one where that is taken, if left out."""
    no_browser: bool = False
    """Print the address and do not open a browser."""
    token_file: Path | None = None
    """A file with the token that the address carries, instead of a random one."""
    episode: str | None = None
    """The episode to annotate, without a page."""
    boundary: int | None = None
    """The last frame of the correction."""
    quality: Literal["good", "fair", "poor"] = "good"
    """Of the demonstration."""
    discard: bool = False
    """Keep the episode out of training."""
    note: str = ""
    """Kept with the revision."""
    confirm_candidates: bool = False
    """Confirm the automatic candidate of every recovery that has no annotation yet."""
    boundary_noise: Path | None = None
    """Write how far apart two people placed the same boundaries, as JSON."""

    def run(self) -> int:
        headless = [self.episode is not None, self.confirm_candidates, self.boundary_noise is not None]
        if sum(headless) > 1:
            raise AnnotationError("choose one of --episode, --confirm-candidates and --boundary-noise")
        if self.episode is None and self._says_something():
            raise AnnotationError(
                "--boundary, --quality, --discard and --note are one episode's: name it with --episode, "
                "or leave them out"
            )
        if self.boundary_noise is not None:
            return self._write_noise(self.boundary_noise)
        return self._save_headless() if any(headless) else self._serve()

    def _says_something(self) -> bool:
        defaults = {each.name: each.default for each in fields(self)}
        return any(getattr(self, name) != defaults[name] for name in ("boundary", "quality", "discard", "note"))

    def _serve(self) -> int:
        from egorecovery.cli.console import console, end_interrupted_line
        from egorecovery.episodes import EpisodeStore

        try:
            from egorecovery.studio.annotating.routes import annotate_app
            from egorecovery.studio.server import Serving, serve
        except ImportError as error:
            raise StudioError(f"the studio needs {error.name}: pip install 'egorecovery[studio]'") from None
        store = EpisodeStore(self.store)
        serving = Serving(host=self.host, port=self.port, token_file=self.token_file, browser=not self.no_browser)

        def announce(address: str) -> None:
            console.print(f"{len(store)} episodes of {self.store}; annotate them at", soft_wrap=True)
            console.print(address, soft_wrap=True)
            console.print("The address carries a token: keep it to yourself. Ctrl-C ends.")

        serve(lambda access: annotate_app(store, access, annotator=self.annotator or ""), serving, announce)
        end_interrupted_line()
        console.print(f"stopped; what was confirmed is in {store.annotations_path}", soft_wrap=True)
        console.print(f"next: {command('label', self.store)}", soft_wrap=True)
        return 0

    def _write_noise(self, path: Path) -> int:
        import json

        from egorecovery.cli.console import console
        from egorecovery.episodes import EpisodeStore
        from egorecovery.recovery import AnnotationJournal
        from egorecovery.storage.atomic_io import write_file
        from egorecovery.studio.annotating.agreement import boundary_noise

        noise = boundary_noise(AnnotationJournal(EpisodeStore(self.store).annotations_path).history())
        if not noise["differences"]:
            raise AnnotationError(
                f"{self.store}: no clip has boundaries of two annotators; let a second person annotate some with "
                f"'{command('annotate', self.store)}', the candidate hidden"
            )
        write_file(path, (json.dumps(noise, indent=2, ensure_ascii=False) + "\n").encode())
        console.print(
            f"{len(noise['differences'])} differences, {noise['one_annotator_std_frames']:.1f} frames standard "
            f"deviation of one annotator: {path}",
            soft_wrap=True,
        )
        console.print(f"next: {command('annotate', self.store)}", soft_wrap=True)
        return 0

    def _save_headless(self) -> int:
        from egorecovery.cli.console import console
        from egorecovery.episodes import EpisodeStore
        from egorecovery.recovery import confirm_candidates

        if self.annotator is None:
            raise AnnotationError("give --annotator: an annotation names who made it")
        store = EpisodeStore(self.store)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        if self.episode is None:
            confirmed = confirm_candidates(store, self.annotator, saved_at=now)
            console.print(
                f"{len(confirmed)} candidates confirmed by {self.annotator}: {store.annotations_path}", soft_wrap=True
            )
        else:
            saved = self._save(store, self.episode, self.annotator, now)
            said = "discarded" if saved.discard else f"boundary {saved.boundary}"
            console.print(
                f"{saved.episode}: revision {saved.revision}, {said}: {store.annotations_path}", soft_wrap=True
            )
        console.print(f"next: {command('label', self.store)}", soft_wrap=True)
        return 0

    def _save(self, store: "EpisodeStore", identifier: str, annotator: str, now: str) -> "Annotation":
        from egorecovery.recovery import Annotation, AnnotationJournal, Quality, propose

        card = store.card(identifier)
        if not card.source.is_recovery and self.boundary is not None:
            raise AnnotationError(f"{identifier} is a {card.source} episode: it has no recovery and so no boundary")
        journal = AnnotationJournal(store.annotations_path)
        seen = journal.latest().get(identifier)
        annotation = Annotation(
            episode=identifier,
            boundary=self.boundary,
            annotator=annotator,
            quality=Quality(self.quality),
            discard=self.discard,
            candidate=propose(store, identifier).frame if card.source.is_recovery else None,
            note=self.note,
            saved_at=now,
        )
        return journal.save(annotation, n_frames=card.frames, seen_revision=seen.revision if seen else 0)
