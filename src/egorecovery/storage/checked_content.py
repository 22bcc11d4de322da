"""A cache of folders whose files match their manifest, so that unchanged files are hashed once.

The cache is a file beside the data. An entry is valid only while every file and folder keeps its inode, size,
modification time and change time on the same machine. The kernel sets those numbers, so a cache copied from another
machine is ignored and the files are hashed again.
"""

import hashlib
import os
import time
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from egorecovery.errors import StoreDamaged
from egorecovery.executors import cores
from egorecovery.storage.atomic_io import write_file
from egorecovery.storage.checksummed_json import read_checksummed, with_checksum
from egorecovery.storage.containment import is_relative_name, tree_below
from egorecovery.storage.manifest import MANIFEST, Manifest

CACHE_FILE = ".checked.json"
SCHEMA = 2
# A file may change twice within one tick of the file system's clock (about 4 ms) and show one time. Files younger than
# this are hashed but not cached.
MIN_AGE_S = 0.1
_UNSIGNED = (1 << 64) - 1

Names = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """A folder that matched its manifest."""

    names: Names  # the files and folders that are watched; a new file changes its folder's times
    mark: str  # hash of their inodes, sizes and times
    manifest: str  # the same of the manifest alone
    content: str  # the manifest's hash of all files


class CheckedContent:
    """Checks folders in `home` against their manifests. Results are cached in the file `cache_file`."""

    def __init__(self, home: Path, cache_file: Path, watched: Callable[[Names], Names] = lambda names: names) -> None:
        """`watched` selects the files and folders of one entry whose changes invalidate it."""
        self.home, self._cache_file, self._watched = home, cache_file, watched
        self._prefix = f"{home}/"
        self._loaded: dict[str, _Entry] | None = None

    def damages(self, names: Sequence[str]) -> dict[str, str]:
        """A description of the damage by folder name, for folders that do not match their manifest."""
        known = self._known()
        changed = [
            name for name in names if name not in known or self._mark(name, known[name].names) != known[name].mark
        ]
        damages: dict[str, str] = {}
        intact_now: dict[str, _Entry] = {}
        if changed:
            with ThreadPoolExecutor(cores()) as pool:  # hashing releases the interpreter's lock
                for name, (intact, problem) in zip(changed, pool.map(self._check, changed), strict=True):
                    if problem is not None:
                        damages[name] = problem
                    if intact is not None:
                        intact_now[name] = intact
        if intact_now:
            known |= intact_now
            with suppress(OSError, StoreDamaged, ValueError):  # without the cache, everything is hashed each time
                write_file(self._cache_file, with_checksum(_record(known)))
        return damages

    def content(self, name: str) -> str:
        """The manifest's hash of all files of a folder. The manifest is parsed only if it is not in the cache."""
        known = self._known().get(name)
        if known is not None and self._mark(name, (MANIFEST,)) == known.manifest:
            return known.content
        return Manifest.read(self.home / name).content

    def _check(self, name: str) -> tuple[_Entry | None, str | None]:
        """A cache entry for an intact folder, or a description of the damage."""
        folder = self.home / name
        try:
            names = self._watched(tuple(tree_below(folder)))
            # Before the files are read, so that a change made meanwhile is noticed next time.
            identities = _identities(str(folder), names)
            manifest_identities = _identities(str(folder), (MANIFEST,))
            manifest = Manifest.read(folder)
            damages = manifest.damages(folder)
        except FileNotFoundError:
            return None, f"{folder} has no {MANIFEST}, or is not there; restore it from a copy"
        except (StoreDamaged, OSError) as error:
            return None, str(error)
        if damages:
            more = f" (and {len(damages) - 1} more)" if len(damages) > 1 else ""
            return None, f"{damages[0]}{more}"
        if max(identities[4::5]) / 1e9 > time.time() - MIN_AGE_S:
            return None, None
        mark, of_manifest = _hashed(names, identities), _hashed((MANIFEST,), manifest_identities)
        return _Entry(names=names, mark=mark, manifest=of_manifest, content=manifest.content), None

    def _mark(self, name: str, names: Names) -> str | None:
        """A hash that differs when any of these files may have changed; None if one is missing."""
        try:
            return _hashed(names, _identities(self._prefix + name, names))
        except OSError:
            return None

    def _known(self) -> dict[str, _Entry]:
        if self._loaded is None:
            try:
                self._loaded = _entries(read_checksummed(self._cache_file))
            except (StoreDamaged, OSError, LookupError, TypeError, ValueError):
                self._loaded = {}
        return self._loaded


def _identities(folder: str, names: Names) -> "array[int]":
    """Five numbers per name, the last one the change time. Links are not followed: parent folders are names too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        statuses = [os.lstat(name, dir_fd=descriptor) for name in names]
    finally:
        os.close(descriptor)
    return array(
        "Q",
        [
            number
            for status in statuses
            for number in (
                status.st_dev,
                status.st_ino,
                status.st_size,
                status.st_mtime_ns & _UNSIGNED,  # before 1970 it is negative
                status.st_ctime_ns & _UNSIGNED,
            )
        ],
    )


def _hashed(names: Names, numbers: "array[int]") -> str:
    digest = _of_names(names).copy()
    digest.update(numbers)
    return digest.hexdigest()


@cache
def _of_names(names: Names) -> Any:
    return hashlib.sha256(_machine() + "\n".join(names).encode(errors="surrogateescape"))


def _record(known: dict[str, _Entry]) -> dict[str, Any]:
    """The cache as JSON. Most folders hold the same file names, so each list of names is written once."""
    layouts = list(dict.fromkeys(entry.names for entry in known.values()))
    numbers = {names: number for number, names in enumerate(layouts)}
    return {
        "schema": SCHEMA,
        "layouts": [list(names) for names in layouts],
        "checked": {
            name: [numbers[entry.names], entry.mark, entry.manifest, entry.content] for name, entry in known.items()
        },
    }


def _entries(record: dict[str, Any]) -> dict[str, _Entry]:
    """The entries of a cache file; none if another version wrote it or it is malformed."""
    if record["schema"] != SCHEMA:
        return {}
    layouts = [tuple(names) for names in record["layouts"]]
    for names in layouts:
        # The folder itself must be among the names: its inode ties the mark to this machine.
        if names[:1] != (".",) or len(set(names)) != len(names) or not all(map(is_relative_name, names[1:])):
            return {}
    return {
        str(name): _Entry(names=layouts[number], mark=str(mark), manifest=str(manifest), content=str(content))
        for name, (number, mark, manifest, content) in record["checked"].items()
    }


@cache
def _machine() -> bytes:
    """The machine's id. It makes a cache from another machine invalid."""
    try:
        return Path("/etc/machine-id").read_bytes().strip() + b"\n"
    except OSError:
        return os.uname().nodename.encode() + b"\n"
