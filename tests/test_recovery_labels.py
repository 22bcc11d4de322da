"""s_t and the phase part of m_t at their edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egorecovery.episodes import Source
from egorecovery.errors import AnnotationError
from egorecovery.motion import PhaseGrid
from egorecovery.recovery import labels

RECOVERY = Source.HUMAN_RECOVERY


@given(st.integers(16, 600), st.data())
def test_labels_follow_the_papers_definition_frame_by_frame(frames, data):
    boundary = data.draw(st.integers(0, frames - 1))
    in_recovery, window_inside = labels(frames, boundary, RECOVERY)
    anchors = PhaseGrid().phase_index(frames)
    for frame in range(frames):
        assert in_recovery[frame] == (frame <= boundary)
        last_point_at_frame = (anchors[frame] + 15) * (frames - 1) / 199
        if abs(last_point_at_frame - boundary) > 1e-9:
            assert window_inside[frame] == (frame <= boundary and last_point_at_frame < boundary)


def test_a_boundary_at_the_first_frame_leaves_one_recovery_frame_and_no_window():
    in_recovery, window_inside = labels(100, 0, RECOVERY)
    assert in_recovery.tolist() == [True] + [False] * 99
    assert not window_inside.any()


def test_a_boundary_at_the_last_frame_makes_all_frames_recovery_and_all_windows_that_fit():
    in_recovery, window_inside = labels(200, 199, RECOVERY)
    assert in_recovery.all()
    assert window_inside.tolist() == [True] * 185 + [False] * 15


def test_a_window_that_ends_exactly_on_the_boundary_is_inside():
    # 200 frames: frame and phase point coincide, so the window of frame t ends at frame t + 15.
    _, window_inside = labels(200, 65, RECOVERY)
    assert window_inside[50]
    assert not window_inside[51]


@pytest.mark.parametrize("boundary", [-1, 100, 5000])
def test_a_boundary_outside_the_episode_is_refused_with_the_range(boundary):
    with pytest.raises(AnnotationError, match=r"outside the episode's frames 0\.\.99"):
        labels(100, boundary, RECOVERY)


def test_a_recovery_episode_without_a_boundary_is_refused():
    with pytest.raises(AnnotationError, match="annotated"):
        labels(100, None, RECOVERY)


@pytest.mark.parametrize("source", [Source.ROBOT_SUCCESS, Source.HUMAN_SUCCESS])
@pytest.mark.parametrize("boundary", [None, 50])
def test_success_episodes_are_all_false(source, boundary):
    in_recovery, window_inside = labels(100, boundary, source)
    assert not in_recovery.any()
    assert not window_inside.any()


@pytest.mark.parametrize("frames", [1, 15])
def test_an_episode_shorter_than_the_window_has_no_window(frames):
    in_recovery, window_inside = labels(frames, frames - 1, RECOVERY)
    assert in_recovery.all()
    assert not window_inside.any()
    assert window_inside.shape == (frames,)


def test_an_episode_of_no_frames_is_refused():
    with pytest.raises(AnnotationError, match="at least one frame"):
        labels(0, 0, RECOVERY)


def test_both_label_arrays_can_be_changed_independently():
    in_recovery, window_inside = labels(10, None, Source.ROBOT_SUCCESS)
    in_recovery[0] = True
    assert not np.any(window_inside)
