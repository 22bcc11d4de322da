"""Labelling a store: parallel, idempotent, and with an account of every frame."""

import os
import subprocess
import sys

import numpy as np
import pytest

from egorecovery.episodes import EpisodeStore, Source
from egorecovery.errors import AnnotationError, StoreError
from egorecovery.intent import IntentSpec, LabelStore, Verdict, frame_labels, label_store, labelling, labels_of
from egorecovery.recovery import Annotation, AnnotationJournal
from making import make_episode


def annotate(store, identifier, boundary=20, seen=0, **changes):
    annotation = Annotation(**{"episode": identifier, "boundary": boundary, "annotator": "ada", **changes})
    AnnotationJournal(store.annotations_path).save(annotation, n_frames=10_000, seen_revision=seen)


@pytest.fixture
def annotated(store):
    for identifier in ("robot_recovery-0", "human_recovery-0"):
        annotate(store, identifier)
    return store


def snapshot(store):
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in store.labels_path.iterdir()}


def test_labels_on_disk_are_those_of_the_pure_function(annotated):
    label_store(annotated)
    episode = annotated.read("human_recovery-0")
    expected = frame_labels(
        effector_m=episode.effector_m,
        reliable=episode.reliable,
        active=episode.task.active_effectors,
        source=episode.source,
        boundary=20,
        spec=IntentSpec(),
    )
    found = LabelStore(annotated.labels_path).read("human_recovery-0")
    for name, array in expected.arrays().items():
        np.testing.assert_array_equal(getattr(found, name), array)
    assert found.intent_mask.any()


def test_labelling_again_changes_nothing_and_reports_the_same_frames(annotated):
    first = label_store(annotated)
    before = snapshot(annotated)
    second = label_store(annotated)
    assert snapshot(annotated) == before
    assert all(tally.labelled == 0 and tally.unchanged == 1 for tally in second.values())
    assert {s: t.frames for s, t in first.items()} == {s: t.frames for s, t in second.items()}


def test_a_moved_boundary_relabels_that_episode_alone(annotated):
    label_store(annotated)
    annotate(annotated, "robot_recovery-0", boundary=30, seen=1)
    again = label_store(annotated)
    assert again[Source.ROBOT_RECOVERY].labelled == 1
    assert sum(tally.labelled for tally in again.values()) == 1
    assert LabelStore(annotated.labels_path).read("robot_recovery-0").in_recovery.sum() == 31


def test_another_spec_relabels_everything(annotated):
    label_store(annotated)
    again = label_store(annotated, IntentSpec(coefficients=6))
    assert sum(tally.labelled for tally in again.values()) == 4
    assert LabelStore(annotated.labels_path).read("robot_recovery-0").intent_m.shape == (40, 6)


def test_two_workers_write_the_same_bytes_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr(labelling, "WORTH_WORKERS", 1)
    monkeypatch.setattr(labelling, "CHUNK", 8)
    stores = [EpisodeStore.create(tmp_path / name) for name in ("one", "two")]
    for workers, store in enumerate(stores, start=1):
        with store.writing() as writer:
            for number in range(40):
                writer.add(make_episode(f"ep-{number}", frames=30 + number, cameras={}))
        for number in range(40):
            annotate(store, f"ep-{number}", boundary=number % 30)
        progress = []
        tallies = label_store(
            store, workers=workers, on_progress=lambda done, total, seen=progress: seen.append((done, total))
        )
        assert progress[-1] == (40, 40)
        assert tallies[Source.ROBOT_RECOVERY].labelled == 40
    contents = [{name: payload for name, (_, payload) in snapshot(store).items()} for store in stores]
    assert contents[0] == contents[1]


def test_what_a_killed_label_left_half_written_is_removed_by_the_next(annotated):
    label_store(annotated)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    draft = annotated.labels_path / f".human_recovery-0.json.{ended.pid}.draft"
    draft.write_bytes(b"{")
    os.utime(draft, (0, 0))  # of an older version; those of this one are in test_drafts.py
    label_store(annotated)
    assert LabelStore(annotated.labels_path).damages() == []


def test_an_unannotated_recovery_episode_gets_no_labels_and_is_counted(store):
    tallies = label_store(store)
    assert tallies[Source.ROBOT_RECOVERY].unannotated == 1
    assert tallies[Source.ROBOT_SUCCESS].labelled == 1
    with pytest.raises(StoreError, match="robot_recovery-0 has no labels"):
        LabelStore(store.labels_path).read("robot_recovery-0")


def test_a_discarded_episode_loses_its_labels(annotated):
    label_store(annotated)
    annotate(annotated, "human_recovery-0", boundary=None, seen=1, discard=True)
    tallies = label_store(annotated)
    assert tallies[Source.HUMAN_RECOVERY].discarded == 1
    assert "human_recovery-0" not in LabelStore(annotated.labels_path).episodes()


def test_success_frames_are_all_accounted_for_and_none_is_valid(annotated):
    tallies = label_store(annotated)
    for source in (Source.ROBOT_SUCCESS, Source.HUMAN_SUCCESS):
        assert tallies[source].frames.total() == 40
        assert tallies[source].frames[Verdict.VALID] == 0


def test_a_boundary_that_no_longer_fits_names_the_episode_and_the_remedy(store):
    annotate(store, "robot_recovery-0", boundary=200)
    with pytest.raises(AnnotationError, match=r"robot_recovery-0: boundary 200 .*egorecovery annotate"):
        label_store(store)


@pytest.mark.parametrize("suffix", ["json", "safetensors"])
@pytest.mark.parametrize("harm", ["flipped", "deleted"])
def test_labels_damaged_on_disk_are_refused_and_derived_again(annotated, suffix, harm):
    label_store(annotated)
    before = {name: payload for name, (_, payload) in snapshot(annotated).items()}
    path = annotated.labels_path / f"robot_recovery-0.{suffix}"
    if harm == "deleted":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-9] + b"x" + path.read_bytes()[-8:])
    with pytest.raises(StoreError, match="run 'egorecovery label'"):
        LabelStore(annotated.labels_path).read("robot_recovery-0")
    assert label_store(annotated)[Source.ROBOT_RECOVERY].labelled == 1
    assert {name: payload for name, (_, payload) in snapshot(annotated).items()} == before


def test_labels_older_than_the_annotation_are_refused(annotated):
    label_store(annotated)
    assert labels_of(annotated, "robot_recovery-0").in_recovery.sum() == 21
    annotate(annotated, "robot_recovery-0", boundary=5, seen=1)
    with pytest.raises(StoreError, match="older than its annotation"):
        labels_of(annotated, "robot_recovery-0")
    label_store(annotated)
    assert labels_of(annotated, "robot_recovery-0").in_recovery.sum() == 6
    annotate(annotated, "robot_recovery-0", boundary=None, seen=2, discard=True)
    with pytest.raises(StoreError, match="discarded"):
        labels_of(annotated, "robot_recovery-0")
