"""Which folders were hashed whole and found to be what their manifest says, so that bytes are read once per revision.

The memory is a file beside the data and is not believed by itself: an entry counts only while every file and folder is
the same inode of the same size, modification and change time on the same machine. Those times and numbers are the
kernel's, so a copied or a stranger's memory is worth nothing here, and the bytes are read again.
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

MEMORY = ".checked.json"
SCHEMA = 2
# A file may change twice within one tick of the file system's clock (some 4 ms) and show one time; what is this
# young is checked, and not remembered.
YOUNG_S = 0.1
_UNSIGNED = (1 << 64) - 1

Names = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Known:
    """A folder that was found intact."""

    names: Names  # of what is looked at: a file that is added changes its folder's times
    mark: str  # of their inodes, sizes and times
    manifest: str  # the mark of its manifest alone
    content: str  # the manifest's hash of everything


class CheckedContent:
    """Of the folders in `home`, each with a manifest; remembers in `memory`."""

    def __init__(self, home: Path, memory: Path, watched: Callable[[Names], Names] = lambda names: names) -> None:
        """`watched`: of all files and folders in one those by which a change of what is read shows."""
        self.home, self._memory, self._watched = home, memory, watched
        self._prefix = f"{home}/"
        self._loaded: dict[str, _Known] | None = None

    def damages(self, names: Sequence[str]) -> dict[str, str]:
        """What is wrong, in words, with those of the folders that are not what was written."""
        known = self._known()
        changed = [
            name for name in names if name not in known or self._mark(name, known[name].names) != known[name].mark
        ]
        found: dict[str, str] = {}
        fresh: dict[str, _Known] = {}
        if changed:
            with ThreadPoolExecutor(cores()) as pool:  # hashing releases the interpreter's lock
                for name, (intact, problem) in zip(changed, pool.map(self._look, changed), strict=True):
                    if problem is not None:
                        found[name] = problem
                    if intact is not None:
                        fresh[name] = intact
        if fresh:
            known |= fresh
            with suppress(
                OSError, StoreDamaged, ValueError
            ):  # where it cannot be written all is checked anew each time
                write_file(self._memory, with_checksum(_record(known)))
        return found

    def content(self, name: str) -> str:
        """The hash of all files of a folder, as its manifest has it; parsed only where the manifest is not known."""
        known = self._known().get(name)
        if known is not None and self._mark(name, (MANIFEST,)) == known.manifest:
            return known.content
        return Manifest.read(self.home / name).content

    def _look(self, name: str) -> tuple[_Known | None, str | None]:
        """What to remember, if anything, and what is wrong, if anything is."""
        folder = self.home / name
        try:
            names = self._watched(tuple(tree_below(folder)))
            found = _identities(
                str(folder), names
            )  # before the bytes are read: what changes meanwhile is looked at again
            alone = _identities(str(folder), (MANIFEST,))
            manifest = Manifest.read(folder)
            damages = manifest.damages(folder)
        except FileNotFoundError:
            return None, f"{folder} has no {MANIFEST}, or is not there; restore it from a copy"
        except (StoreDamaged, OSError) as error:
            return None, str(error)
        if damages:
            more = f" (and {len(damages) - 1} more)" if len(damages) > 1 else ""
            return None, f"{damages[0]}{more}"
        if max(found[4::5]) / 1e9 > time.time() - YOUNG_S:
            return None, None
        mark, of_manifest = _hashed(names, found), _hashed((MANIFEST,), alone)
        return _Known(names=names, mark=mark, manifest=of_manifest, content=manifest.content), None

    def _mark(self, name: str, names: Names) -> str | None:
        """Changes when any of these files may have; None where one is missing."""
        try:
            return _hashed(names, _identities(self._prefix + name, names))
        except OSError:
            return None

    def _known(self) -> dict[str, _Known]:
        if self._loaded is None:
            try:
                self._loaded = _remembered(read_checksummed(self._memory))
            except (StoreDamaged, OSError, LookupError, TypeError, ValueError):
                self._loaded = {}
        return self._loaded


def _identities(folder: str, names: Names) -> "array[int]":
    """Five numbers a name, the last its time of change. No link is followed: each folder on the way is a name too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = [os.lstat(name, dir_fd=descriptor) for name in names]
    finally:
        os.close(descriptor)
    return array(
        "Q",
        [
            number
            for status in found
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
    told = _of_names(names).copy()
    told.update(numbers)
    return told.hexdigest()


@cache
def _of_names(names: Names) -> Any:
    return hashlib.sha256(_machine() + "\n".join(names).encode(errors="surrogateescape"))


def _record(known: dict[str, _Known]) -> dict[str, Any]:
    """Most folders hold files of the same names, which are written once."""
    layouts = list(dict.fromkeys(one.names for one in known.values()))
    numbers = {names: number for number, names in enumerate(layouts)}
    return {
        "schema": SCHEMA,
        "layouts": [list(names) for names in layouts],
        "checked": {name: [numbers[one.names], one.mark, one.manifest, one.content] for name, one in known.items()},
    }


def _remembered(record: dict[str, Any]) -> dict[str, _Known]:
    """Of another version, or of somebody else's making: nothing."""
    if record["schema"] != SCHEMA:
        return {}
    layouts = [tuple(names) for names in record["layouts"]]
    for names in layouts:
        # Without the folder itself a mark could say nothing about this machine, and be anybody's.
        if names[:1] != (".",) or len(set(names)) != len(names) or not all(map(is_relative_name, names[1:])):
            return {}
    return {
        str(name): _Known(names=layouts[number], mark=str(mark), manifest=str(manifest), content=str(content))
        for name, (number, mark, manifest, content) in record["checked"].items()
    }


@cache
def _machine() -> bytes:
    """Who we are to the kernel: a memory from another machine is none."""
    try:
        return Path("/etc/machine-id").read_bytes().strip() + b"\n"
    except OSError:
        return os.uname().nodename.encode() + b"\n"
