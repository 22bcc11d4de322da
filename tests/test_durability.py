"""What a call has acknowledged is on the disk: every file and folder was synchronised as it is at the return."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from egorecovery.episodes import EpisodeStore
from egorecovery.recovery import Annotation, AnnotationJournal
from egorecovery.storage.atomic_io import write_file
from tiny_episodes import FRAMES, tiny_episode


class Disk:
    """Which files and folders below `root` were written after their last `fsync`."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root, self._synced = root, {}
        really = os.fsync

        def fsync(descriptor: int) -> None:
            really(descriptor)
            self._synced[_inode(os.fstat(descriptor))] = _state(os.fstat(descriptor))

        monkeypatch.setattr(os, "fsync", fsync)

    def unsynced(self) -> list[str]:
        """Folders count too: they hold the names. Empty ones and empty files hold nothing that could be lost."""
        paths = [self._root, *self._root.rglob("*")]
        return [
            str(path.relative_to(self._root))
            for path in paths
            if not _is_empty(path) and self._synced.get(_inode(path.lstat())) != _state(path.lstat())
        ]


def _is_empty(path: Path) -> bool:
    return not any(path.iterdir()) if path.is_dir() else path.lstat().st_size == 0


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _state(status: os.stat_result) -> tuple[int, int]:
    return status.st_mtime_ns, 0 if stat.S_ISDIR(status.st_mode) else status.st_size


def put_episode(root: Path) -> None:
    with EpisodeStore.create(root / "store").writing() as writer:
        writer.add(tiny_episode("first"))


def confirm_boundary(root: Path) -> None:
    store = EpisodeStore(root / "store")
    annotation = Annotation(episode=store.ids()[0], boundary=3, annotator="ann")
    AnnotationJournal(store.annotations_path).save(annotation, n_frames=FRAMES, seen_revision=0)


def replace_file(root: Path) -> None:
    write_file(root / "summary.json", b"{}\n")


def save_checkpoint(root: Path) -> None:
    pytest.importorskip("torch")
    from tiny_checkpoint import save_tiny

    save_tiny(root / "run")


@pytest.mark.parametrize(
    ("before", "act"),
    [(None, put_episode), (put_episode, confirm_boundary), (replace_file, replace_file), (None, save_checkpoint)],
)
def test_when_a_write_returns_everything_it_wrote_is_on_the_disk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: Callable[[Path], None] | None,
    act: Callable[[Path], None],
) -> None:
    disk = Disk(tmp_path, monkeypatch)
    if before:
        before(tmp_path)
    act(tmp_path)
    assert disk.unsynced() == []
