"""Writers killed with SIGKILL: what was acknowledged is there, what was not is whole or absent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from egorecovery.episodes import Episode, EpisodeStore
from egorecovery.recovery import Annotation, AnnotationJournal
from tiny_episodes import FRAMES, tiny_episode

pytestmark = pytest.mark.fault

KILLS = 50
LANES = 2  # victims at a time, each with a store of its own
VICTIM = Path(__file__).with_name("killed_writer.py")


@dataclass(frozen=True)
class Victim:
    """One killed process and what it had said by then."""

    pid: int
    words: list[str]


@contextmanager
def victims(what: str, root: Path) -> Iterator[Callable[[int, float], Victim]]:
    """Yields a function that starts a process, lets it say some words, then work for some seconds, and kills it.

    Counting words first makes the moment depend on the victim's progress, not on how busy the machine is.
    """
    command = [sys.executable, VICTIM, what, root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        orders, news = starter.stdin, starter.stdout
        assert orders is not None
        assert news is not None

        def kill_one_after(n_words: int, delay_s: float) -> Victim:
            orders.write("start\n")
            orders.flush()
            pid = int(news.readline().removeprefix("victim "))
            words = [news.readline().strip() for _ in range(n_words)]
            time.sleep(delay_s)
            os.kill(pid, signal.SIGKILL)
            while not (word := news.readline().strip()).startswith("ended"):
                assert word, "whoever starts the victims is gone"
                words.append(word)
            assert word == "ended -9", "the victim must not have ended by itself"
            return Victim(pid, words)

        yield kill_one_after
        orders.close()


def assert_whole(store: EpisodeStore, wanted: Episode) -> None:
    """Not one byte differs from what was to be written."""
    assert store.damages(wanted.id) == []
    episode = store.read(wanted.id)
    for stream in ("timestamps_s", "state", "action", "effector_m", "reliable"):
        np.testing.assert_array_equal(getattr(episode, stream), getattr(wanted, stream))
    assert episode.cameras.keys() == wanted.cameras.keys()
    for camera, stream in wanted.cameras.items():
        np.testing.assert_array_equal(episode.cameras[camera].frames.decode(), stream.frames.decode())
        np.testing.assert_array_equal(episode.cameras[camera].depth_mm, stream.depth_mm)


def test_writer_killed_at_50_random_points_leaves_each_episode_whole_or_absent(tmp_path):
    with EpisodeStore.create(tmp_path / "calm").writing() as writer:
        writer.add(tiny_episode("first"))  # pays for zarr's import
        started_s = time.perf_counter()
        writer.add(tiny_episode("second"))
        write_s = time.perf_counter() - started_s

    def one_lane(lane: int) -> tuple[int, int]:
        """Kills one writer after the other in one store; counts those caught in a draft, and whole episodes."""
        rng = np.random.default_rng([2, lane])
        root, caught, acknowledged = tmp_path / f"lane{lane}", 0, set()
        EpisodeStore.create(root)
        with victims("add", root) as kill_one_after:
            for kills in range(1, KILLS // LANES + 1):
                victim = kill_one_after(int(rng.integers(0, 4)), rng.uniform(0, write_s))
                acknowledged |= {word.split()[1] for word in victim.words if word.startswith("added ")}
                caught += any((root / ".drafts").iterdir())
                assert_nothing_lost_and_nothing_half_done(EpisodeStore(root), acknowledged, kills)
                with EpisodeStore(root).writing() as writer:
                    assert "locked" not in victim.words or f"process {victim.pid} of " in str(writer.recovered)
                    assert not any((root / ".drafts").iterdir())
                    logged = [attempt.episode for attempt in writer.store.collection.attempts()]
                    assert logged == writer.store.ids()
        return caught, len(acknowledged)

    with ThreadPoolExecutor(LANES) as lanes:
        caught, acknowledged = np.sum(list(lanes.map(one_lane, range(LANES))), axis=0)
    # The points were well placed: many in the middle of a write, and many writes had been acknowledged.
    assert caught >= KILLS // 10
    assert acknowledged >= KILLS // 10


def assert_nothing_lost_and_nothing_half_done(store: EpisodeStore, acknowledged: set[str], kills: int) -> None:
    assert store.folders() == store.ids(), "a directory without a manifest is half an episode"
    assert acknowledged <= set(store.ids())
    assert len(store) <= len(acknowledged) + kills, "a kill hides at most one acknowledgement"
    for name in store.ids():
        assert_whole(store, tiny_episode(name))


def test_annotator_killed_at_50_random_points_loses_no_acknowledged_revision(tmp_path):
    def one_lane(lane: int) -> int:
        rng = np.random.default_rng([3, lane])
        root = tmp_path / f"lane{lane}"
        journal = AnnotationJournal(EpisodeStore.create(root).annotations_path)
        acknowledged, saved_by_victims = 0, 0
        with victims("annotate", root) as kill_one_after:
            for _ in range(KILLS // LANES):
                victim = kill_one_after(int(rng.integers(0, 4)), rng.uniform(0, 0.005))
                saved_by_victims += len(victim.words)
                acknowledged = max([acknowledged, *(int(word.removeprefix("saved ")) for word in victim.words)])

                history = journal.history()
                assert [annotation.revision for annotation in history] == list(range(1, len(history) + 1))
                assert len(history) in (acknowledged, acknowledged + 1), "the last save may be unacknowledged"
                assert [annotation.boundary for annotation in history] == [i % FRAMES for i in range(len(history))]

                survivor = Annotation(episode="e", boundary=len(history) % FRAMES, annotator="survivor")
                acknowledged = journal.save(survivor, n_frames=FRAMES, seen_revision=len(history)).revision
                assert acknowledged == len(history) + 1
                assert journal.latest()["e"].annotator == "survivor"
        return saved_by_victims

    with ThreadPoolExecutor(LANES) as lanes:
        assert sum(lanes.map(one_lane, range(LANES))) >= KILLS, "the victims hardly came to save anything"


def test_run_killed_before_any_change_of_any_file_is_taken_up_by_the_next_without_help(tmp_path):
    """Random kills rarely hit the short gaps between two steps; these victims die in all of them."""
    command = [sys.executable, VICTIM, "die-before-each", tmp_path]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[-1] == "ended 0", "the last victim must have lived through all its steps"
    killed = [Path(line.removeprefix("killed ")) for line in lines if line.startswith("killed ")]
    assert len(killed) >= 20, "making a store and adding an episode takes at least so many steps"
    wanted = tiny_episode("e", cameras=0)
    for root in killed:
        store = EpisodeStore.create(root)
        assert store.folders() == store.ids(), root
        assert f"added {root}" not in lines or store.ids() == ["e"], root
        history = AnnotationJournal(store.annotations_path).history()
        assert (f"saved {root}" in lines) <= len(history) <= 1, root  # the anchor may be what the kill left out
        with store.writing() as writer:
            writer.add(wanted)
        assert [attempt.episode for attempt in store.collection.attempts()] == ["e"], root
        assert_whole(store, wanted)


def test_journal_cut_at_any_byte_of_its_last_line_keeps_the_earlier_revisions_and_takes_the_next(tmp_path):
    """The torn append that a kill or a power cut leaves."""
    path = tmp_path / "annotations.jsonl"
    journal = AnnotationJournal(path)
    sizes, anchors = [], []
    for seen in range(3):
        annotation = Annotation(episode="e", boundary=seen, annotator="a")
        journal.save(annotation, n_frames=FRAMES, seen_revision=seen)
        sizes.append(path.stat().st_size)
        anchors.append(journal.journal.anchor_path.read_bytes())
    whole = path.read_bytes()
    for size in range(sizes[1] + 1, sizes[2] - 1):
        path.write_bytes(whole[:size])
        journal.journal.anchor_path.write_bytes(anchors[1])  # comes after the line
        assert [annotation.boundary for annotation in journal.history()] == [0, 1]
        assert len(journal.journal.problems()) == 1
        again = Annotation(episode="e", boundary=9, annotator="b")
        assert journal.save(again, n_frames=FRAMES, seen_revision=2).revision == 3
        assert [annotation.boundary for annotation in journal.history()] == [0, 1, 9]
        assert journal.journal.problems() == []
