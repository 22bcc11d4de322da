"""Collecting in the workcell: repeatable, resumable, the same on any number of workers."""

import os
import signal
import subprocess
import sys
import time

import pytest

from egorecovery.cli.main import main
from egorecovery.episodes import EpisodeStore, Source
from egorecovery.errors import RecipeError
from egorecovery.recovery import AnnotationJournal
from egorecovery.workcell.collection import Order, collect

ORDER = {"task": "cube_stack", "image_size": 16}


def contents(root):
    """Every byte of a store that is data."""
    names = ("writer.lock",)
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in names
    }


def made(root, episodes=3, workers=1, source=Source.ROBOT_RECOVERY, **changes):
    store = EpisodeStore.create(root)
    collect([Order(**{**ORDER, "source": source, "episodes": episodes, **changes})], store, workers)
    return store


@pytest.mark.parametrize("source", [Source.ROBOT_RECOVERY, Source.HUMAN_RECOVERY])
def test_one_worker_and_two_give_the_same_bytes(tmp_path, source):
    made(tmp_path / "one", workers=1, source=source)
    made(tmp_path / "two", workers=2, source=source)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@pytest.mark.slow
def test_a_local_ray_cluster_gives_the_same_bytes(tmp_path):
    order = Order(**ORDER, source=Source.ROBOT_RECOVERY, episodes=2)
    for executor in ("local", "ray"):
        collect([order], EpisodeStore.create(tmp_path / executor), workers=2, executor=executor)
    assert contents(tmp_path / "local") == contents(tmp_path / "ray")


def test_several_orders_at_once_give_what_they_give_one_after_another(tmp_path):
    orders = [Order(**ORDER, source=source, episodes=2) for source in (Source.ROBOT_SUCCESS, Source.HUMAN_RECOVERY)]
    together, apart = EpisodeStore.create(tmp_path / "together"), EpisodeStore.create(tmp_path / "apart")
    reports = []
    collect(orders, together, workers=2, on_progress=lambda order, done, total: reports.append((order.source, done)))
    for order in orders:
        collect([order], apart)
    assert contents(together.root) == contents(apart.root)
    assert reports == [
        *((order.source, 0) for order in orders),
        *((order.source, done) for order in orders for done in (1, 2)),
    ]


def test_orders_that_name_the_same_episodes_are_refused_before_anything_is_made(tmp_path):
    orders = [Order(**ORDER, source=Source.ROBOT_SUCCESS, episodes=count) for count in (1, 2)]
    store = EpisodeStore.create(tmp_path / "store")
    with pytest.raises(RecipeError, match="the same episodes, such as cube_stack-robot_success-s0-0000"):
        collect(orders, store)
    assert not store.ids()


def test_another_seed_gives_other_episodes_and_more_episodes_begin_with_the_same(tmp_path):
    few, more = made(tmp_path / "few", 1), made(tmp_path / "more", 2)
    other = made(tmp_path / "other", 1, seed=1)
    name = few.ids()[0]
    assert few.card(name).content == more.card(name).content
    assert few.card(name).content != other.card(other.ids()[0]).content


@pytest.mark.fault
def test_a_run_killed_in_the_middle_ends_with_the_same_bytes_as_an_unbroken_one(tmp_path):
    made(tmp_path / "whole", 5)
    command = [sys.executable, "-m", "egorecovery", "simulate", "--task", "cube_stack", "--source", "robot_recovery"]
    command += ["--episodes", "5", "--image-size", "16", "--workers", "1", "--out", str(tmp_path / "broken")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as run:
        deadline_s = time.monotonic() + 120
        while len(list((tmp_path / "broken" / "episodes").glob("*/manifest.json"))) < 2:
            assert time.monotonic() < deadline_s
            assert run.poll() is None, "it ended before it could be killed"
            time.sleep(0.02)
        os.kill(run.pid, signal.SIGKILL)
    assert 2 <= len(EpisodeStore(tmp_path / "broken")) < 5
    assert main(command[3:]) == 0
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


def test_recovery_episodes_come_annotated_near_the_truth(tmp_path):
    store = made(tmp_path / "store", 3)
    annotations = AnnotationJournal(store.annotations_path).latest()
    assert set(annotations) == set(store.ids())
    for name, annotation in annotations.items():
        truth = store.read(name).provenance.details["true_boundary_s"] * 25
        assert abs(annotation.boundary - truth) <= 8
        assert annotation.candidate is not None


def test_success_episodes_need_no_annotation(tmp_path):
    store = made(tmp_path / "store", 1, source=Source.HUMAN_SUCCESS)
    assert AnnotationJournal(store.annotations_path).latest() == {}


def test_the_start_is_on_record_with_the_episode(tmp_path):
    store = made(tmp_path / "store", 1)
    start = store.read(store.ids()[0]).provenance.details["start"]
    assert start["kind"] == "recovery"
    assert "yellow_x" in start["parameters"]


def test_depth_is_recorded_when_asked_for(tmp_path):
    store = made(tmp_path / "store", 1, source=Source.HUMAN_SUCCESS, depth=True)
    depth_mm = store.read(store.ids()[0]).cameras["head"].depth_mm
    assert depth_mm is not None
    assert 300 < depth_mm[depth_mm > 0].mean() < 2000


def test_a_stand_in_is_seen_as_the_robot_and_told_as_hands(tmp_path):
    hands = made(tmp_path / "hands", 2, source=Source.HUMAN_RECOVERY, stand_in=True)
    for name in hands.ids():
        assert "-stand_in-" in name
        episode = hands.read(name)
        assert episode.source is Source.HUMAN_RECOVERY
        assert episode.provenance.operator == "simulated teleoperator"
    assert set(AnnotationJournal(hands.annotations_path).latest()) == set(hands.ids())


def test_the_robot_has_no_stand_in(tmp_path):
    with pytest.raises(RecipeError, match="stand_in is for human sources, not robot_recovery"):
        made(tmp_path / "store", 1, stand_in=True)


def test_an_unknown_task_is_refused_with_the_known_ones():
    with pytest.raises(RecipeError, match=r"juggling.*cup_brush"):
        Order(task="juggling", source=Source.ROBOT_SUCCESS, episodes=1)


def test_an_empty_order_is_refused():
    with pytest.raises(RecipeError, match="episodes must be at least 1, got 0"):
        Order(task="cube_stack", source=Source.ROBOT_SUCCESS, episodes=0)


def test_simulating_what_is_there_already_makes_nothing(tmp_path, capsys):
    command = ["simulate", "--task", "cube_stack", "--source", "robot_success", "--episodes", "1", "--image-size", "16"]
    command += ["--workers", "1", "--out", str(tmp_path / "store")]
    assert main(command) == 0
    before = contents(tmp_path / "store")
    assert main(command) == 0
    assert "0 episodes made, 1 were there" in capsys.readouterr().out
    assert contents(tmp_path / "store") == before
