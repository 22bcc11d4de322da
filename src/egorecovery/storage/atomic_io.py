"""Writes that survive a kill: acknowledged data are on disk, unacknowledged data leave no trace."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from egorecovery.errors import StoreError
from egorecovery.storage.drafts import draft_of

_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would exceed the size limit",
}


@contextmanager
def explaining_full_disk(path: Path) -> Iterator[None]:
    """Raises one message for the several errors that mean 'no space'. Data committed before stay readable."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise StoreError(
            f"{path}: {_FULL[error.errno]}; nothing was added, what was there is intact; free space and run again"
        ) from error


def is_full_disk(error: BaseException) -> bool:
    """Whether an error means 'no space': the system's own, or the one that explains it."""
    return any(isinstance(one, OSError) and one.errno in _FULL for one in (error, error.__cause__))


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Makes a folder and its missing parents, and syncs their names to disk. An existing folder is left as it is."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def sync_tree(root: Path) -> None:
    """Syncs every file below a folder, then every directory that names it."""
    for folder, _, files in os.walk(root, topdown=False):
        for name in files:
            sync_file(Path(folder, name))
        sync_directory(Path(folder))


def write_file(path: Path, payload: bytes) -> None:
    """Replaces a file in one step. Readers see the old bytes or the new ones."""
    draft = draft_of(path)
    try:
        with explaining_full_disk(path), draft.open("xb") as stream:
            stream.write(payload)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_directory(path.parent)
