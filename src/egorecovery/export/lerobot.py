"""A store as a LeRobot data set, v3.0: whole, or not there."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from egorecovery.episodes import EpisodeCard, EpisodeStore, Source
from egorecovery.errors import RecipeError, StoreError
from egorecovery.export.lerobot_video import VideoCodec
from egorecovery.export.lerobot_writer import DataSetWriter
from egorecovery.intent.current_labels import labels_of
from egorecovery.recovery import AnnotationJournal
from egorecovery.storage.atomic_io import explaining_full_disk, make_folder, sync_directory, sync_tree
from egorecovery.storage.drafts import draft_of, remove_drafts_of_the_dead

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class ExportRules:
    sources: tuple[Source, ...] = ()  # all where empty
    labels: bool = True  # recovery marks and intent as columns
    codec: VideoCodec = "libx264"
    instruction: str = ""  # the task in words; its name where empty


@dataclass(frozen=True, kw_only=True)
class Exported:
    episodes: int
    frames: int
    left_out: tuple[str, ...]  # discarded by their annotation
    depth_left_out: bool  # LeRobot 0.4 knows no depth


def export_lerobot(
    store: EpisodeStore, out: Path, rules: ExportRules, progress: Progress = lambda done, total: None
) -> Exported:
    """Written beside its place and renamed at the end: killed before, nothing is there."""
    if out.exists():
        raise StoreError(f"{out} exists; name a new directory")
    annotations = AnnotationJournal(store.annotations_path).latest()
    chosen = [card for card in map(store.card, store.ids()) if not rules.sources or card.source in rules.sources]
    discarded = [card.id for card in chosen if card.id in annotations and annotations[card.id].discard]
    cards = [card for card in chosen if card.id not in discarded]
    _require_alike(store, cards)
    make_folder(out.parent)
    remove_drafts_of_the_dead(out.parent, of=out.name)
    draft = draft_of(out)
    writer, depth = DataSetWriter(draft, rules.codec), False
    try:
        with explaining_full_disk(out):
            for number, card in enumerate(cards):
                labels = labels_of(store, card.id, None, annotations) if rules.labels else None
                episode = store.read(card.id)
                depth = depth or any(stream.depth_mm is not None for stream in episode.cameras.values())
                writer.add(episode, labels, rules.instruction or card.task.name)
                progress(number + 1, len(cards))
            writer.finish()
            sync_tree(draft)
            draft.rename(out)
            sync_directory(out.parent)
    except BaseException:
        writer.abandon()
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Exported(episodes=len(cards), frames=writer.frames, left_out=tuple(discarded), depth_left_out=depth)


def _require_alike(store: EpisodeStore, cards: Sequence[EpisodeCard]) -> None:
    if not cards:
        raise StoreError(f"{store.root} has no such episode to export")
    if len({card.source.embodiment for card in cards}) > 1:
        raise RecipeError(
            "joint angles of robots and hand poses of people cannot be in one data set: export one of them, as in "
            "--source robot_success robot_recovery"
        )
