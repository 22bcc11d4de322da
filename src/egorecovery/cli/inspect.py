"""`egorecovery inspect`."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from egorecovery.errors import StoreError

if TYPE_CHECKING:
    from egorecovery.episodes import EpisodeStore


@dataclass(frozen=True, kw_only=True)
class Inspect:
    """Show what a store holds, or one episode in detail."""

    store: Positional[Path]
    episode: str | None = None
    """Show this one in detail."""
    json: bool = False
    """Print JSON instead of a table."""
    sheet: Path | None = None
    """Write a contact sheet (PNG) of the episode there."""
    film: Path | None = None
    """Write a film (MP4) of the episode there."""

    def run(self) -> int:
        from egorecovery.cli.console import console, print_json, tell_set_aside
        from egorecovery.episodes import EpisodeStore

        store = EpisodeStore(self.store)
        if self.episode is not None:
            self._draw(store, self.episode)
            facts = episode_facts(store, self.episode)
            print_json(facts) if self.json else _show_facts(facts)
            return 0
        if self.sheet or self.film:
            raise StoreError("--sheet and --film show one episode: name it with --episode")
        set_aside: dict[str, str] = {}
        rows = store_rows(store, set_aside)
        tell_set_aside(self.store, set_aside)
        if self.json:
            print_json(rows)
            return 1 if set_aside else 0
        from rich.box import SIMPLE
        from rich.table import Table

        hours = sum(row["duration_s"] for row in rows) / 3600
        attempts = store.collection.attempts()
        discarded = sum(not attempt.accepted for attempt in attempts)
        title = f"{self.store}: {len(rows)} episodes, {hours:.2f} h; {discarded} discarded attempts on record"
        table = Table(title=title, title_justify="left", box=SIMPLE)
        table.padding, table.collapse_padding = (0, 1), True
        for column in ("episode", "task", "source", "frames", "seconds", "boundary", "labels"):
            justify = "right" if column in ("frames", "seconds", "boundary") else "left"
            # In a narrow terminal the id alone is folded, whole words of the other columns stay readable.
            table.add_column(column, justify=justify, overflow="fold", no_wrap=column != "episode")
        for row in rows:
            boundary = "discarded" if row["discard"] else "" if row["boundary"] is None else str(row["boundary"])
            seconds = f"{row['duration_s']:.1f}"
            labels = row["labels"] or ""
            table.add_row(row["id"], row["task"], row["source"], str(row["frames"]), seconds, boundary, labels)
        console.print(table)
        return 1 if set_aside else 0

    def _draw(self, store: "EpisodeStore", identifier: str) -> None:
        from egorecovery.episodes.pictures import write_contact_sheet, write_film

        if self.sheet:
            write_contact_sheet(store.read(identifier), self.sheet)
        if self.film:
            write_film(store.read(identifier), self.film)


def store_rows(store: "EpisodeStore", set_aside: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """A row per episode; those that cannot be read go into `set_aside` with the reason, where that is given."""
    from egorecovery.intent import IntentSpec, LabelStore
    from egorecovery.intent.current_labels import label_state
    from egorecovery.recovery import AnnotationJournal

    annotations = AnnotationJournal(store.annotations_path).latest()
    labels = LabelStore(store.labels_path)
    rows = []
    for identifier in store.ids():
        try:
            card = store.card(identifier)
        except StoreError as error:
            if set_aside is None:
                raise
            set_aside[identifier] = str(error)
            continue
        annotation = annotations.get(card.id)
        derived = labels.card(card.id)
        fresh = label_state(card, annotation, derived, IntentSpec()) == "current"
        rows.append(
            {
                "id": card.id,
                "task": card.task.name,
                "source": str(card.source),
                "frames": card.frames,
                "duration_s": card.duration_s,
                "cameras": list(card.cameras),
                "operator": card.operator,
                "boundary": annotation.boundary if annotation else None,
                "discard": bool(annotation and annotation.discard),
                "labels": None if derived is None else "current" if fresh else "outdated",
                "content": card.content,
            }
        )
    return rows


def episode_facts(store: "EpisodeStore", identifier: str) -> dict[str, Any]:
    """Everything a person asks of one episode before looking at its pictures."""
    import numpy as np

    from egorecovery.intent import LabelStore, Verdict
    from egorecovery.recovery import AnnotationJournal, propose

    episode = store.read(identifier)
    path_m = episode.effector_m[:, list(episode.task.active_effectors)]
    annotations = [a for a in AnnotationJournal(store.annotations_path).history() if a.episode == identifier]
    labels = LabelStore(store.labels_path)
    facts: dict[str, Any] = {
        "id": episode.id,
        "task": episode.task.name,
        "active": [str(side) for side in episode.task.active],
        "source": str(episode.source),
        "frames": len(episode),
        "duration_s": round(episode.duration_s, 3),
        "path_m": round(float(np.linalg.norm(np.diff(path_m, axis=0), axis=-1).sum()), 3),
        "reliable": round(float(episode.reliable.mean()), 3),
        "cameras": {
            str(camera): {
                **asdict(stream.intrinsics),
                "bytes_per_frame": len(stream.frames.packed) // len(episode),
                "depth": stream.depth_mm is not None,
            }
            for camera, stream in episode.cameras.items()
        },
        "provenance": asdict(episode.provenance),
        "content": store.card(identifier).content,
    }
    if episode.source.is_recovery:
        facts["candidate"] = asdict(propose(store, identifier))
        facts["annotations"] = [annotation.record() for annotation in annotations]
    if labels.card(identifier) is not None:
        counts = labels.read(identifier).counts()
        facts["labels"] = {verdict.words: counts[verdict] for verdict in Verdict}
    return facts


def _show_facts(facts: dict[str, Any]) -> None:
    from rich.table import Table

    from egorecovery.cli.console import console

    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        for inner, shown in value.items() if isinstance(value, dict) else [("", value)]:
            table.add_row(f"{name}.{inner}" if inner else name, str(shown))
    console.print(table)
