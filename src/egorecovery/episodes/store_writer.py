"""How episodes get into a store: staged where no reader looks, then committed in one rename by the lock's holder."""

import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from egorecovery.episodes.attempt_log import Attempt, Attempted
from egorecovery.episodes.episode import Episode
from egorecovery.episodes.layout import explaining_damage, read_attributes, read_frames, write_group
from egorecovery.episodes.vocabulary import Camera, EpisodeId, episode_id
from egorecovery.errors import EpisodeExists, PicturesDiffer, StoreDamaged, StoreError
from egorecovery.storage.atomic_io import explaining_full_disk, sync_directory, sync_tree
from egorecovery.storage.containment import exists, inside, names_in, remove
from egorecovery.storage.drafts import remove_drafts_of_the_dead
from egorecovery.storage.manifest import Manifest

if TYPE_CHECKING:
    from egorecovery.episodes.store import EpisodeStore  # which makes writers


@dataclass(frozen=True)
class StagedEpisode:
    """An episode whose bytes are safe on disk but which no reader sees yet."""

    id: EpisodeId
    directory: Path
    manifest: Manifest
    attempt: Attempt


def stage(root: Path, episode: Episode) -> StagedEpisode:
    """Writes an episode's bytes where no reader looks. Worker processes call this; the lock's holder commits."""
    drafts = inside(root, ".drafts")
    directory = drafts / f"{episode_id(episode.id)}.{uuid.uuid4().hex}"
    try:
        with explaining_full_disk(directory):
            drafts.mkdir(exist_ok=True)
            directory.mkdir()
            write_group(directory, episode)
            sync_tree(directory)
        manifest = Manifest.of(directory)
        manifest.write(directory)
    except BaseException:
        with suppress(OSError):  # on a full disk, say: the first error is the one to tell
            remove(directory)
        raise
    return StagedEpisode(id=episode.id, directory=directory, manifest=manifest, attempt=Attempt.at(episode))


class StoreWriter:
    """Adds episodes under the lock. Made by `EpisodeStore.writing`."""

    def __init__(self, store: "EpisodeStore", recovered: str | None) -> None:
        self.store = store
        self.recovered = recovered  # the writer that died before us, in words, if one did
        self._sizes: dict[str, dict[str, str]] = {}  # of the pictures of each task's cameras

    def clear_drafts(self) -> None:
        """What a killed writer left half done. Nobody else writes while we hold the lock."""
        drafts = inside(self.store.root, ".drafts")
        drafts.mkdir(exist_ok=True)
        for name in names_in(drafts):
            remove(drafts / name)
        remove_drafts_of_the_dead(self.store.root)

    def log_committed(self) -> None:
        """Logs the one episode that a writer killed between rename and log may have left out."""
        logged = {attempt.episode for attempt in self.store.collection.attempts() if attempt.accepted}
        for identifier in self.store.ids():
            if identifier not in logged:
                self.store.collection.add(Attempt.at(self.store.read(identifier)))

    def add(self, episode: Episode) -> None:
        """Whole and on disk when this returns; absent if it does not."""
        self.commit(stage(self.store.root, episode))

    def commit(self, staged: StagedEpisode) -> None:
        """Makes a staged episode visible in one rename. Adding the same content again changes nothing."""
        home = inside(self.store.root, "episodes", episode_id(staged.id))
        if staged.id in self.store:
            remove(staged.directory)
            if Manifest.read(home).content != staged.manifest.content:
                raise EpisodeExists(f"{home} already holds another recording; choose another id or another store")
            return
        if exists(home):
            remove(staged.directory)
            raise StoreDamaged(f"{home} is there without its manifest; move it away, then add the episode again")
        try:
            self._require_same_pictures(staged)
        except PicturesDiffer:
            remove(staged.directory)
            raise
        with explaining_full_disk(home):
            staged.directory.rename(home)
            sync_directory(home.parent)
        try:
            self.store.collection.add(staged.attempt)
        except StoreError:  # nothing may be visible that was refused
            home.rename(staged.directory)
            sync_directory(home.parent)
            remove(staged.directory)
            raise

    def _require_same_pictures(self, staged: StagedEpisode) -> None:
        """Pictures of one camera have one size in a task: on a store with several, nothing could be trained."""
        task, sizes = _picture_sizes(staged.directory)
        if task not in self._sizes:
            self._sizes[task] = self._sizes_there(task)
        known = self._sizes[task]
        for camera, size in sizes.items():
            if known.setdefault(camera, size) != size:
                side, *_ = known[camera].split(" ")
                raise PicturesDiffer(
                    f"{staged.id} has {camera} pictures of {size}, the other episodes of {task} in {self.store.root} "
                    f"of {known[camera]}, and a policy trains on one size: make it with --image-size {side}, or name "
                    "another store with --out"
                )

    def _sizes_there(self, task: str) -> dict[str, str]:
        """Those of the first episode of a task that can be read; a damaged one keeps nobody from adding others."""
        for identifier in self.store.ids():
            with suppress(StoreDamaged, OSError):
                other, sizes = _picture_sizes(self.store.path(identifier))
                if other == task:
                    return sizes
        return {}

    def discard(self, attempted: Attempted, reasons: tuple[str, ...]) -> None:
        """Keeps the record of an attempt, not its data."""
        assert reasons, "a discarded episode has a reason"
        self.store.collection.add(Attempt.at(attempted, reasons))


def _picture_sizes(folder: Path) -> tuple[str, dict[str, str]]:
    """The task of an episode, and of each camera "WIDTH x HEIGHT"."""
    attributes = read_attributes(folder)
    with explaining_damage(folder):
        cameras = [Camera(name) for name in attributes["cameras"]]
        task = str(attributes["task"])
    sizes = {camera: read_frames(folder, camera).size_hw for camera in cameras}
    return task, {str(camera): f"{width} x {height}" for camera, (height, width) in sizes.items()}
