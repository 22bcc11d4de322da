"""Trainings that share a GPU step one after another; the next one gets ready meanwhile.

Two processes on one GPU are not run side by side but in slices, which costs more than it gains: 13,400 samples a second
together against 16,500 of one alone (docs/log.md). What can overlap is starting up: imports, decoding, statistics.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from egorecovery.storage.containment import open_for_append


@contextmanager
def turn(path: Path | None) -> Iterator[float]:
    """Holds the file's lock; gives the seconds waited for it. Without a path there is nobody to wait for.

    The lock goes with its process, however that ends.
    """
    if path is None:
        yield 0.0
        return
    since_s = time.monotonic()
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(open_for_append(path), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield time.monotonic() - since_s
