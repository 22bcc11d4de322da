"""Which folders were hashed whole and found to be what their manifest says, so that bytes are read once per revision.

The memory is a file beside the data and is not believed by itself: an entry counts only while every file is the same
inode of the same size, modification and change time on the same machine. Those times and numbers are the kernel's, so
a copied or a stranger's memory is worth nothing here, and the bytes are read again.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

from egorecovery.errors import StoreDamaged
from egorecovery.executors import cores
from egorecovery.storage.atomic_io import write_file
from egorecovery.storage.checksummed_json import read_checksummed, with_checksum
from egorecovery.storage.containment import files_below
from egorecovery.storage.manifest import Manifest

MEMORY = ".checked.json"
# A file may change twice within one tick of the file system's clock (some 4 ms) and show one time; what is this
# young is checked, and not remembered.
YOUNG_S = 0.1


class CheckedContent:
    """Of the folders in `home`, each with a manifest; remembers in `memory`."""

    def __init__(self, home: Path, memory: Path) -> None:
        self.home, self._memory = home, memory
        self._known: dict[str, str] | None = None

    def damages(self, names: Sequence[str]) -> dict[str, str]:
        """What is wrong, in words, with those of the folders that are not what was written."""
        known = self._known = self._remembered() if self._known is None else self._known
        fresh: dict[str, str] = {}
        found: dict[str, str] = {}

        def look(name: str) -> tuple[str, str | None, str | None]:
            try:
                return (name, *self._look(name, known.get(name)))
            except (StoreDamaged, OSError) as error:
                return name, None, str(error)

        with ThreadPoolExecutor(cores()) as pool:  # hashing releases the interpreter's lock
            for name, mark, problem in pool.map(look, names):
                if problem is not None:
                    found[name] = problem
                elif mark is not None and known.get(name) != mark:
                    fresh[name] = mark
        if fresh:
            known |= fresh
            with suppress(OSError, StoreDamaged):  # a store that cannot be written is checked anew each time
                write_file(self._memory, with_checksum({"checked": known}))
        return found

    def _look(self, name: str, known: str | None) -> tuple[str | None, str | None]:
        """The mark to remember, if any, and what is wrong, if anything is."""
        folder = self.home / name
        files = files_below(folder)
        manifest = Manifest.read(folder)
        mark = _mark(manifest, files)
        if mark == known:
            return mark, None
        damages = manifest.damages(folder)
        if damages:
            more = f" (and {len(damages) - 1} more)" if len(damages) > 1 else ""
            return None, f"{damages[0]}{more}"
        newest_s = max((status.st_ctime_ns for status in files.values()), default=0) / 1e9
        return (mark if newest_s < time.time() - YOUNG_S else None), None

    def _remembered(self) -> dict[str, str]:
        try:
            checked = read_checksummed(self._memory)["checked"]
        except (StoreDamaged, OSError, KeyError):
            return {}
        return dict(checked) if isinstance(checked, dict) else {}


def _mark(manifest: Manifest, files: dict[str, os.stat_result]) -> str:
    """Changes when any file of the folder may have."""
    told = hashlib.sha256(f"{_machine()}\n{manifest.content}\n".encode())
    for name, status in sorted(files.items()):
        places = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        told.update(f"{name} {places}\n".encode(errors="surrogateescape"))
    return told.hexdigest()


@cache
def _machine() -> str:
    """Who we are to the kernel: a memory from another machine is none."""
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return os.uname().nodename
