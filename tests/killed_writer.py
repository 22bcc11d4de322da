"""Processes to be killed: `killed_writer.py WHAT STORE`. Each says on stdout what it has done, one line at a time."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import zarr  # noqa: F401 - the store imports it at the first write; here that is paid before the fork

from egorecovery.episodes import EpisodeStore
from egorecovery.recovery import Annotation, AnnotationJournal
from tiny_episodes import FRAMES, tiny_episode

CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate")
WRITABLE = os.O_WRONLY | os.O_RDWR


def say(*words: object) -> None:
    """In one system call: `print` may take several, and a victim killed between them would leave half a line."""
    os.write(sys.stdout.fileno(), (" ".join(map(str, words)) + "\n").encode())


def start_victims(root: Path, work: Callable[[Path], None]) -> None:
    """One victim for each line on stdin, forked so that the imports are paid once; tells its end as well."""
    for _ in sys.stdin:
        victim = os.fork()
        if victim == 0:
            say("victim", os.getpid())
            work(root)
            os._exit(0)
        _, status = os.waitpid(victim, 0)
        say("ended", os.waitstatus_to_exitcode(status))


def add_episodes(root: Path) -> None:
    """Adds episodes until killed."""
    store = EpisodeStore.create(root)
    with store.writing() as writer:
        say("locked")
        for number in count(len(store)):
            writer.add(tiny_episode(f"episode-{number:04d}"))
            say("added", f"episode-{number:04d}")


def save_annotations(root: Path) -> None:
    """Saves revisions of one annotation until killed."""
    journal = AnnotationJournal(EpisodeStore(root).annotations_path)
    known = journal.latest().get("e")
    for seen in count(known.revision if known else 0):
        annotation = Annotation(episode="e", boundary=seen % FRAMES, annotator=f"victim {os.getpid()}")
        say("saved", journal.save(annotation, n_frames=FRAMES, seen_revision=seen).revision)


def die_before_each_change(root: Path) -> None:
    """In store after store: makes it, adds and annotates an episode, and dies one change of a file later each time."""
    for fatal in count(1):
        store = root / f"{fatal:04d}"
        child = os.fork()
        if child == 0:
            _die_before(fatal, store)
            _one_of_everything(store)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            say("killed", store)
        else:
            say("ended", os.waitstatus_to_exitcode(status))
            return


def _one_of_everything(root: Path) -> None:
    store = EpisodeStore.create(root)
    say("created", root)
    with store.writing() as writer:
        writer.add(tiny_episode("e", cameras=0))
        say("added", root)
    annotation = Annotation(episode="e", boundary=3, annotator="victim")
    AnnotationJournal(store.annotations_path).save(annotation, n_frames=FRAMES, seen_revision=0)
    say("saved", root)


def _die_before(fatal: int, root: Path) -> None:
    """SIGKILL to ourselves before the `fatal`-th change below `root`: the interpreter announces each."""
    changes = count(1)

    def die_on_time(event: str, details: tuple[Any, ...]) -> None:
        change = event in CHANGES or (event == "open" and details[2] & WRITABLE)
        # A descriptor instead of a path is the journal or the lock being truncated.
        ours = change and (isinstance(details[0], int) or str(root) in os.fsdecode(details[0]))
        if ours and next(changes) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die_on_time)


def hold_lock(root: Path) -> None:
    with EpisodeStore(root).writing():
        say("locked")
        sys.stdin.read()  # until the test lets go, or kills


def hold_lock_with_worker(root: Path, start_method: str) -> None:
    """A worker that outlives its parent, as a data loader's does when the parent is killed."""
    context = multiprocessing.get_context(start_method)
    with EpisodeStore(root).writing():
        ready, worker_ready = context.Pipe()
        worker = context.Process(target=_idle, args=(worker_ready,))
        worker.start()
        ready.recv()
        say("locked", worker.pid)
        sys.stdin.read()


def _idle(ready: Connection) -> None:
    ready.send("up")
    time.sleep(120)  # the test ends it long before


if __name__ == "__main__":
    what, store = sys.argv[1], Path(sys.argv[2])
    match what:
        case "add":
            start_victims(store, add_episodes)
        case "annotate":
            start_victims(store, save_annotations)
        case "die-before-each":
            die_before_each_change(store)
        case "hold":
            hold_lock(store)
        case "hold-with-worker":
            hold_lock_with_worker(store, start_method=sys.argv[3])
