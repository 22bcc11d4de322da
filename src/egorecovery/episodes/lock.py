"""One writer at a time, and a name to ask when it is not you."""

import fcntl
import getpass
import json
import os
import socket
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from egorecovery.errors import StoreLocked


class WriterLock:
    """An advisory lock that the kernel drops when its holder dies, so a killed writer never blocks the next."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recovered: str | None = None  # who held it last, when that writer died without letting go
        self._descriptor: int | None = None

    def __enter__(self) -> "WriterLock":
        # Close-on-exec: a worker started by the holder must not keep the lock alive after the holder's death.
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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
        self._write(
            {
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "user": getpass.getuser(),
                "command": " ".join(sys.argv)[:200],
                "since": datetime.now(UTC).isoformat(timespec="seconds"),
            }
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        assert self._descriptor is not None
        os.ftruncate(self._descriptor, 0)  # the file stays: removing it would race with the next writer's open
        os.close(self._descriptor)
        self._descriptor = None

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def holder(self) -> str | None:
        """Who wrote the lock file last, in words; None when it was let go of properly."""
        try:
            who = json.loads(self.path.read_text() or "null")
        except (OSError, ValueError):
            return "an unknown process"
        if not isinstance(who, dict):
            return None
        return (
            f"process {who.get('pid')} of {who.get('user')} on {who.get('host')} "
            f"({who.get('command')}, since {who.get('since')})"
        )

    def _write(self, who: dict[str, Any]) -> None:
        assert self._descriptor is not None
        payload = json.dumps(who).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, payload, 0)
