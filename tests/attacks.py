"""What a stranger can do to a folder before it is shared: links, special files, and files with valid checksums."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from egorecovery.episodes import EpisodeStore
from egorecovery.intent import label_store
from egorecovery.recovery import Annotation, AnnotationJournal
from egorecovery.storage.checksummed_json import CHECKSUM, with_checksum
from egorecovery.storage.manifest import Manifest
from tiny_episodes import FRAMES, tiny_episode

EPISODES = ("one", "three", "two")
DEEP = b"[" * 100_000 + b"]" * 100_000


def make_labelled_store(root: Path) -> EpisodeStore:
    """Three episodes, one of them without cameras, all annotated and labelled; one discarded attempt."""
    store = EpisodeStore.create(root)
    journal = AnnotationJournal(store.annotations_path)
    with store.writing() as writer:
        for number, name in enumerate(EPISODES):
            writer.add(tiny_episode(name, cameras=number))
            annotation = Annotation(episode=name, boundary=12, annotator="ada")
            journal.save(annotation, n_frames=FRAMES, seen_revision=0)
        writer.discard(tiny_episode("four"), ("hands: tracking lost",))
    label_store(store)
    return store


def copied(store: EpisodeStore, to: Path) -> EpisodeStore:
    return EpisodeStore(shutil.copytree(store.root, to, symlinks=True))


def victim(folder: Path) -> Path:
    """A folder of the reader's own, outside of what was shared."""
    (folder / "inner").mkdir(parents=True)
    (folder / "thesis.txt").write_text("years of work")
    (folder / "inner" / "notes.json").write_text("{}")
    (folder / "inner" / "one.safetensors").write_text("mine")
    return folder


def listing(folder: Path) -> dict[str, bytes]:
    """All there is below a folder, to compare."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def replace_by_link(path: Path, target: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.symlink_to(target)


def reseal(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes a sealed file and its checksum with it."""
    record = json.loads(path.read_bytes())
    record.pop(CHECKSUM, None)
    change(record)
    path.write_bytes(with_checksum(record))


def reseal_episode(folder: Path) -> None:
    """A new manifest of whatever lies there."""
    (folder / "manifest.json").unlink(missing_ok=True)
    Manifest.of(folder).write(folder)


def change_attributes(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Of an episode, resealed."""
    header = folder / "episode.zarr" / "zarr.json"
    record = json.loads(header.read_bytes())
    change(record["attributes"])
    header.write_text(json.dumps(record))
    reseal_episode(folder)


@contextmanager
def within_s(seconds: int):
    """A hang is a failure, not a lost afternoon."""
    import signal

    def ring(*_: object) -> None:
        raise TimeoutError(f"did not come back within {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)
