"""Annotations: appended, never overwritten, refused when stale."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from egorecovery.errors import AnnotationError, StaleRevision, StoreDamaged
from egorecovery.recovery import Annotation, AnnotationJournal, Quality, candidate_boundary
from egorecovery.storage.journal import Journal


@pytest.fixture
def journal(tmp_path):
    return AnnotationJournal(tmp_path / "annotations.jsonl")


def said(boundary=10, episode="ep", **changes):
    return Annotation(**{"episode": episode, "boundary": boundary, "annotator": "ada", **changes})


def test_the_last_save_is_the_last_word_and_the_first_is_kept(journal):
    journal.save(said(10, candidate=12), n_frames=50, seen_revision=0)
    saved = journal.save(said(14, annotator="grace", quality=Quality.FAIR), n_frames=50, seen_revision=1)
    assert saved.revision == 2
    again = AnnotationJournal(journal.journal.path)
    assert again.latest() == {"ep": saved}
    assert [(a.boundary, a.annotator, a.revision) for a in again.history()] == [(10, "ada", 1), (14, "grace", 2)]


def test_a_save_that_would_overwrite_a_newer_boundary_is_refused_and_says_whose(journal):
    journal.save(said(10), n_frames=50, seen_revision=0)
    journal.save(said(20, annotator="grace"), n_frames=50, seen_revision=1)
    with pytest.raises(StaleRevision, match=r"revision 2 by grace \(boundary 20\) is newer than the one you saw \(1\)"):
        journal.save(said(30), n_frames=50, seen_revision=1)
    assert journal.latest()["ep"].boundary == 20


def test_of_two_annotators_saving_at_once_exactly_one_wins(journal):
    def save(boundary):
        try:
            return journal.save(said(boundary), n_frames=50, seen_revision=0)
        except StaleRevision:
            return None

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(save, range(16)))
    assert sum(outcome is not None for outcome in outcomes) == 1
    assert len(journal.history()) == 1


@pytest.mark.parametrize("boundary", [-1, 50])
def test_a_boundary_outside_the_episode_is_refused_with_its_name(journal, boundary):
    with pytest.raises(AnnotationError, match=r"ep: boundary -?\d+ is outside the episode's frames 0\.\.49"):
        journal.save(said(boundary), n_frames=50, seen_revision=0)
    assert journal.history() == []


def test_an_annotation_has_a_boundary_or_discards():
    with pytest.raises(AnnotationError, match="boundary, or discard"):
        said(None)
    assert said(None, discard=True).discard


def test_an_annotation_names_its_annotator():
    with pytest.raises(AnnotationError, match="annotator"):
        said(annotator="  ")


def test_a_torn_last_line_is_ignored_and_cleared_by_the_next_save(journal):
    journal.save(said(10), n_frames=50, seen_revision=0)
    path = journal.journal.path
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    assert journal.latest()["ep"].boundary == 10
    assert journal.journal.problems()
    journal.save(said(11), n_frames=50, seen_revision=1)
    assert [a.boundary for a in journal.history()] == [10, 11]
    assert journal.journal.problems() == []


def test_a_changed_line_is_an_error_that_names_the_line(journal):
    for revision in range(3):
        journal.save(said(revision), n_frames=50, seen_revision=revision)
    path = journal.journal.path
    path.write_bytes(path.read_bytes().replace(b'"boundary":1', b'"boundary":7'))
    with pytest.raises(StoreDamaged, match="line 2"):
        journal.latest()


def test_notes_in_any_script_survive(journal):
    note = "Würfel rutscht\n再試行 ✓"
    journal.save(said(note=note), n_frames=50, seen_revision=0)
    assert journal.latest()["ep"].note == note


def test_many_appends_by_many_threads_lose_none(tmp_path):
    journal = Journal(tmp_path / "log.jsonl")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: journal.append({"number": number}), range(200)))
    assert sorted(record["number"] for record in journal.records()) == list(range(200))


def burst(start, stop, frames, distance):
    along = np.clip((np.arange(frames) - start) / (stop - start), 0, 1)
    return distance * along**3 * (10 - 15 * along + 6 * along**2)


@pytest.mark.parametrize(("correction", "execution"), [(0.05, 0.3), (0.3, 0.05), (0.1, 0.1)])
def test_the_candidate_lies_in_the_pause_between_two_bursts(correction, execution):
    path = np.zeros((150, 1, 3))
    path[:, 0, 0] = burst(5, 55, 150, correction) + burst(75, 145, 150, execution)
    candidate = candidate_boundary(path)
    assert 50 <= candidate.frame <= 80
    assert candidate.clarity > 0.8


def test_the_candidate_survives_tremor(rng):
    path = np.zeros((150, 1, 3))
    path[:, 0, 0] = burst(5, 55, 150, 0.2) + burst(75, 145, 150, 0.3)
    path += rng.normal(0, 0.0005, path.shape)
    assert 45 <= candidate_boundary(path).frame <= 85


def test_of_several_pauses_the_first_clear_one_is_taken():
    path = np.zeros((200, 1, 3))
    path[:, 0, 0] = burst(5, 55, 200, 0.1) + burst(70, 120, 200, 0.3) + burst(135, 190, 200, 0.3)
    assert 50 <= candidate_boundary(path).frame <= 75


def test_a_clip_of_the_correction_alone_ends_where_motion_ends():
    path = np.zeros((100, 1, 3))
    path[:, 0, 0] = burst(5, 60, 100, 0.2)
    candidate = candidate_boundary(path)
    assert 45 <= candidate.frame <= 62
    assert candidate.clarity == 0.0


@pytest.mark.parametrize("frames", [1, 2, 50])
def test_a_path_that_never_moves_has_a_candidate_all_the_same(frames):
    assert candidate_boundary(np.zeros((frames, 1, 3))).frame == frames - 1
