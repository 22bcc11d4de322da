"""The annotation desk without a browser: what is saved, undone and shown, and what the pages compute from."""

import shutil
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egorecovery.episodes import Camera, EpisodeStore, Source
from egorecovery.errors import AnnotationError, StudioError
from egorecovery.intent import IntentSpec, labels_of
from egorecovery.motion import PhaseGrid
from egorecovery.recovery import Annotation, Quality, labels
from egorecovery.studio.annotating.agreement import agreements, boundary_noise
from egorecovery.studio.annotating.clip_motion import clip_motion, inside_from
from egorecovery.studio.annotating.clips import ClipIndex
from egorecovery.studio.annotating.desk import Conflict, Desk, Entry, Viewer
from egorecovery.studio.annotating.pace import clips_per_hour
from making import make_episode

ADA, GRACE = Viewer(annotator="ada"), Viewer(annotator="grace")
ALONE = Viewer(annotator="grace", independent=True)
CLIP = "human_recovery-0"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One small episode of each source."""
    store = EpisodeStore.create(tmp_path_factory.mktemp("made") / "store")
    with store.writing() as writer:
        for source in Source:
            writer.add(make_episode(f"{source}-0", source=source))
    return store


@pytest.fixture
def desk(made, tmp_path):
    return Desk(ClipIndex(EpisodeStore(shutil.copytree(made.root, tmp_path / "store"))))


def save(desk, boundary, viewer=ADA, seen=0, candidate=12, clip=CLIP, **changes):
    return desk.save(clip, Entry(boundary=boundary, **changes), viewer, candidate=candidate, seen_revision=seen)


def state(desk, viewer=ADA, clip=CLIP):
    row = desk.row(clip, viewer)
    return row["state"], row["annotation"] and row["annotation"]["boundary"]


@given(frames=st.integers(1, 400), points=st.integers(2, 300), window=st.integers(1, 40), data=st.data())
def test_the_pages_rule_for_valid_windows_is_that_of_the_labels(frames, points, window, data):
    grid = PhaseGrid(points=points, window=min(window, points))
    boundary = data.draw(st.integers(0, frames - 1))
    _, inside = labels(frames, boundary, Source.HUMAN_RECOVERY, grid)
    if frames >= grid.window:  # a shorter episode has no window at all
        assert np.array_equal(inside_from(frames, grid) <= boundary, inside)


@pytest.mark.parametrize("boundary", [0, 7, 20, 39])
def test_what_the_page_shades_is_what_training_uses(desk, boundary):
    from egorecovery.intent import label_store

    store = desk.clips.store
    save(desk, boundary)
    label_store(store)
    motion = clip_motion(store, CLIP)
    shaded = motion.target_exists & (motion.inside_from <= boundary)
    assert np.array_equal(shaded, labels_of(store, CLIP).intent_mask)
    assert motion.intent_m.shape == (40, IntentSpec().coefficients)


def test_batches_hold_the_stored_bytes_of_every_camera(desk):
    store = desk.clips.store
    batch = desk.clips.frame_batch(CLIP, 30, 64)
    cameras, frames = np.frombuffer(batch, "<u4", 2)
    assert (cameras, frames) == (3, 10)
    offsets = np.frombuffer(batch, "<u4", 3 * 11, offset=8).reshape(3, 11)
    start = 8 + offsets.nbytes
    for camera, of_camera in zip(Camera, offsets, strict=True):
        stored = store.frames(CLIP, camera)
        for index in range(10):
            sent = batch[start + of_camera[index] : start + of_camera[index + 1]]
            assert sent == stored.encoded(30 + index).tobytes()
        start += of_camera[-1]
    assert start == len(batch)


def test_an_episode_added_later_appears_without_a_restart(desk):
    assert len(desk.rows(ADA)) == 4
    with desk.clips.store.writing() as writer:
        writer.add(make_episode("later"))
    assert desk.clips.card("later").frames == 40
    assert len(desk.rows(ADA)) == 5


def test_a_damaged_episode_is_listed_as_such_and_the_others_are_annotated(desk):
    home = desk.clips.store.root / "episodes"
    (home / "robot_recovery-0" / "episode.zarr" / "zarr.json").write_text("{")
    (home / "robot_success-0" / "manifest.json").unlink()
    rows = {row["id"]: row for row in desk.rows(ADA)}
    damaged = {name: row["damage"] for name, row in rows.items() if row["state"] == "damaged"}
    assert list(rows) == sorted(rows)
    assert damaged.keys() == {"robot_recovery-0", "robot_success-0"}
    assert "egorecovery verify" in damaged["robot_recovery-0"]
    with pytest.raises(StudioError, match="egorecovery verify"):
        desk.clips.card("robot_recovery-0")
    assert save(desk, 10)["state"] == "annotated"


@pytest.mark.parametrize("clip", [CLIP, "robot_success-0"])
def test_nothing_is_saved_for_an_episode_that_was_removed_meanwhile(desk, clip):
    assert len(desk.rows(ADA)) == 4
    shutil.rmtree(desk.clips.store.root / "episodes" / clip)
    with pytest.raises(StudioError, match="no such clip"):
        save(desk, 10, clip=clip, discard=True)
    assert desk.history() == []
    assert len(desk.rows(ADA)) == 3


def test_an_episode_that_was_replaced_meanwhile_is_the_new_one(desk):
    assert desk.clips.card(CLIP).frames == 40
    opened = desk.row(CLIP, ADA)["content"]
    shutil.rmtree(desk.clips.store.root / "episodes" / CLIP)
    with desk.clips.store.writing() as writer:
        writer.add(make_episode(CLIP, 30, Source.HUMAN_RECOVERY))
    assert desk.clips.card(CLIP).frames == 30
    with pytest.raises(AnnotationError):
        save(desk, 35)  # in the old one
    with pytest.raises(AnnotationError, match="was replaced by another recording since you opened it"):
        save(desk, 25, seen_content=opened)


def test_a_store_that_is_gone_is_named(desk):
    shutil.rmtree(desk.clips.store.root)
    with pytest.raises(StudioError, match="store cannot be read any more: No such file"):
        desk.rows(ADA)


def test_a_name_that_is_not_in_the_index_is_refused(desk):
    for name in ("../store.json", "", ".", "nobody", "human_recovery-0/"):
        with pytest.raises(StudioError, match="no such clip"):
            desk.clips.frame_batch(name, 0, 1)


def test_what_was_never_seen_is_not_overwritten(desk):
    save(desk, 10)
    with pytest.raises(Conflict) as conflict:
        save(desk, 20, GRACE, seen=0)
    assert (conflict.value.theirs.boundary, conflict.value.theirs.annotator) == (10, "ada")
    assert len(desk.history()) == 1


@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_undo_restores_any_earlier_state_whoever_made_it(data, tmp_path_factory):
    store = EpisodeStore.create(tmp_path_factory.mktemp("undo") / "store")
    with store.writing() as writer:
        writer.add(make_episode(CLIP, frames=5, cameras={}))
    desk = Desk(ClipIndex(store))
    states, seen = [state(desk)], 0
    for viewer in data.draw(st.lists(st.sampled_from([ADA, GRACE]), min_size=1, max_size=5)):
        discard = data.draw(st.booleans())
        boundary = None if discard else data.draw(st.integers(0, 4))
        seen = save(desk, boundary, viewer, seen, discard=discard)["revision"]
        states.append(state(desk))
    to_revision = data.draw(st.integers(0, seen - 1))
    before = {(word.annotator, word.boundary) for word in desk.history()[:to_revision]}
    desk.undo(CLIP, ADA, to_revision=to_revision, seen_revision=seen)
    assert state(desk) == states[to_revision]
    again = {(word.annotator, word.boundary) for word in desk.history()[seen:] if not word.discard}
    assert again <= before, "nobody is made to say what they had not said"


def test_undo_is_refused_when_somebody_saved_since(desk):
    save(desk, 10)
    save(desk, 20, GRACE, seen=1)
    with pytest.raises(Conflict):
        desk.undo(CLIP, ADA, to_revision=0, seen_revision=1)
    assert len(desk.history()) == 2


def test_a_success_episode_is_discarded_and_restored_and_keeps_its_labels(desk):
    from egorecovery.intent import label_store

    clip = "robot_success-0"
    assert save(desk, None, clip=clip, discard=True)["state"] == "discarded"
    assert save(desk, None, clip=clip, seen=1, withdraw=True)["state"] == "success"
    label_store(desk.clips.store)
    assert not labels_of(desk.clips.store, clip).in_recovery.any()


def test_a_recovery_without_boundary_is_refused(desk):
    with pytest.raises(AnnotationError, match="give a boundary"):
        save(desk, None)
    with pytest.raises(AnnotationError, match="outside the episode"):
        save(desk, 40)


def test_an_independent_annotator_sees_and_overwrites_nobody_elses_boundary(desk):
    save(desk, 10)
    assert state(desk, ALONE) == ("open", None)
    row = save(desk, 15, ALONE, seen=0)  # ada saved after the page was opened: no conflict that would show her value
    assert row["annotation"]["candidate"] is None
    assert [(word.annotator, word.boundary) for word in desk.history()] == [("ada", 10), ("grace", 15)]
    with pytest.raises(Conflict):  # the same person in two tabs
        save(desk, 16, ALONE, seen=1)


def said(clip, annotator, boundary, candidate=None, **changes):
    return Annotation(episode=clip, annotator=annotator, boundary=boundary, candidate=candidate, **changes)


def test_agreement_compares_the_last_words_of_two_people():
    history = [
        said("a", "ada", 10),
        said("a", "grace", 13),
        said("a", "ada", 11),
        said("b", "ada", 20, candidate=20),
        said("b", "grace", 20, candidate=20),
        said("c", "ada", 5),
        said("d", "grace", None, discard=True),
        said("d", "ada", 9),
    ]
    (pair,) = agreements(history)
    assert (pair.first, pair.second) == ("ada", "grace")
    assert [(each.clip, each.frames, each.independent) for each in pair.differences] == [
        ("a", 2, True),
        ("b", 0, False),
    ]
    summary = pair.summary()
    assert (summary["clips"], summary["independent"], summary["median_abs_frames"]) == (2, 1, 1.0)
    assert summary["within"] == {"1": 0.5, "3": 1.0, "6": 1.0, "12": 1.0}


def test_boundary_noise_recovers_the_spread_of_one_annotator(rng):
    history = []
    for number in range(2000):
        for name in ("ada", "grace"):
            history.append(said(f"clip-{number}", name, round(500 + rng.normal(0, 6))))
    assert boundary_noise(history)["one_annotator_std_frames"] == pytest.approx(6, rel=0.05)


def test_a_break_does_not_count_as_annotation_time():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    seconds = [0, 10, 20, 30, 4000, 4010, 4020]
    times = [(start + timedelta(seconds=each)).isoformat() for each in seconds]
    assert clips_per_hour(times) == pytest.approx(360)
    assert clips_per_hour(times[:1]) is None
    assert clips_per_hour([]) is None


def test_quality_and_note_are_kept(desk):
    row = save(desk, 10, quality=Quality.POOR, note="Würfel rutscht ✓")
    assert (row["annotation"]["quality"], row["annotation"]["note"]) == ("poor", "Würfel rutscht ✓")
