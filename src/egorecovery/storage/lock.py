"""An advisory lock that allows one writer at a time and names the process that holds it."""

import fcntl
import getpass
import json
import os
import socket
import sys
import weakref
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from egorecovery.errors import StoreDamaged, StoreLocked
from egorecovery.storage.atomic_io import explaining_full_disk
from egorecovery.storage.bounded_json import BadJson, parse_json
from egorecovery.storage.containment import open_for_append, read_bytes


class WriterLock:
    """An advisory lock that the kernel releases when its holder dies. A killed writer never blocks the next."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recovered: str | None = None  # the previous holder, if it died without releasing the lock
        self._descriptor: int | None = None

    def __enter__(self) -> "WriterLock":
        # Close-on-exec: a worker started by the holder must not keep the lock alive after the holder's death.
        descriptor = open_for_append(self.path, flags=0)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise StoreLocked(
                f"{self.path.parent} is being written by {self.holder() or 'another process'}; "
                f"wait for it to end, or end it, then run again"
            ) from None
        self.recovered = self.holder()
        self._descriptor = descriptor
        _HELD.add(self)
        try:
            self._sign()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._descriptor is not None:  # None in a forked child, which never held it
            os.ftruncate(self._descriptor, 0)  # the file stays: removing it would race with the next writer's open
            self._release()

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def holder(self) -> str | None:
        """A description of the last holder; None if it released the lock."""
        try:
            who = parse_json(read_bytes(self.path, largest=4096) or b"null")
        except (OSError, BadJson, StoreDamaged):
            return "an unknown process"
        if not isinstance(who, dict):
            return None
        return (
            f"process {who.get('pid')} of {who.get('user')} on {who.get('host')} "
            f"({who.get('command')}, since {who.get('since')})"
        )

    def _sign(self) -> None:
        """Writes this process's description into the lock file, for others that find it taken."""
        assert self._descriptor is not None
        who = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "user": _user(),
            "command": " ".join(sys.argv)[:200],
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        with explaining_full_disk(self.path):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(who).encode(), 0)

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user without a name
        return f"uid {os.getuid()}"


def _release_in_child() -> None:
    """Closes inherited locks in a forked child. Kept open, they would outlive a killed parent."""
    for lock in list(_HELD):
        lock._release()


_HELD: "weakref.WeakSet[WriterLock]" = weakref.WeakSet()
os.register_at_fork(after_in_child=_release_in_child)
