"""An episode is whole or refused with the field's name."""

import jaxtyping
import numpy as np
import pytest

from egorecovery.episodes import Camera, Intrinsics, JpegFrames, Provenance, Side, Source, Task, episode_id, task_named
from egorecovery.errors import EpisodeError
from making import make_camera, make_episode, make_images


def test_sources_say_their_embodiment_and_phase():
    assert [(s.embodiment, s.phase) for s in Source] == [
        ("robot", "success"),
        ("robot", "recovery"),
        ("human", "success"),
        ("human", "recovery"),
    ]
    assert Source.HUMAN_RECOVERY.is_recovery
    assert Source.HUMAN_RECOVERY.is_human


def test_a_lab_adds_its_own_task_by_naming_its_active_sides():
    assert task_named("cup_brush").active_effectors == (0,)
    assert task_named("fold_towel", (Side.LEFT, Side.RIGHT)).active_effectors == (0, 1)
    with pytest.raises(EpisodeError, match=r"fold_towel.*active sides"):
        task_named("fold_towel")


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "ü", "x" * 200])
def test_names_that_are_unsafe_as_directories_are_refused(name):
    with pytest.raises(EpisodeError, match="episode id"):
        episode_id(name)


@pytest.mark.parametrize("active", [(), (Side.LEFT, Side.LEFT)])
def test_a_task_needs_one_or_two_different_active_sides(active):
    with pytest.raises(EpisodeError, match="active sides"):
        Task("own", active)


@pytest.fixture
def as_users_run_it():
    """Without the shape checker of the tests, which would speak before the episode does."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize(
    ("field", "array"),
    [
        ("state", np.zeros((40, 13), np.float32)),
        ("action", np.zeros((40, 14), np.float64)),
        ("effector_m", np.zeros((39, 2, 3), np.float32)),
        ("reliable", np.ones((40, 1), bool)),
    ],
)
def test_an_array_of_the_wrong_shape_is_refused_by_name(field, array, as_users_run_it):
    with pytest.raises(EpisodeError, match=f"ep-0: {field} must be"):
        make_episode(**{field: array})


def test_a_camera_with_missing_frames_is_refused_by_name(as_users_run_it):
    with pytest.raises(EpisodeError, match=r"head\.timestamps_s"):
        make_episode(cameras={Camera.HEAD: make_camera(39)})


def test_negative_staging_time_is_refused():
    with pytest.raises(EpisodeError, match="staging_s"):
        Provenance(operator="a", started_at="", stopped_at="", staging_s=-1.0)


def test_intrinsics_without_a_focal_length_are_refused():
    with pytest.raises(EpisodeError, match="focal"):
        Intrinsics(width=4, height=4, fx=0.0, fy=1.0, cx=2.0, cy=2.0)


def test_frames_come_back_in_order_and_close_to_what_went_in():
    smooth = np.linspace(0, 250, 32).astype(np.uint8)[None, :, None, None] * np.ones((5, 1, 32, 3), np.uint8)
    smooth = smooth // np.arange(1, 6, dtype=np.uint8)[:, None, None, None]
    frames = JpegFrames.encode(smooth)
    assert len(frames) == 5
    assert frames.size_hw == (32, 32)
    assert np.abs(frames.decode().astype(int) - smooth).max() < 8
    np.testing.assert_array_equal(frames[-1], frames.decode([4])[0])


def test_selecting_frames_repeats_their_bytes_exactly():
    frames = JpegFrames.encode(make_images(4, 16))
    chosen = frames.select([2, 2, 0])
    assert [chosen.encoded(i).tobytes() for i in range(3)] == [frames.encoded(i).tobytes() for i in (2, 2, 0)]


def test_a_frame_outside_the_stream_is_an_index_error():
    frames = JpegFrames.encode(make_images(4, 16))
    with pytest.raises(IndexError):
        frames[4]
    with pytest.raises(IndexError):
        frames.decode([4])


def test_a_damaged_frame_index_is_refused():
    frames = JpegFrames.encode(make_images(4, 16))
    with pytest.raises(EpisodeError, match="offsets"):
        JpegFrames(frames.packed, frames.offsets[::-1].copy())
    with pytest.raises(EpisodeError, match="offsets end"):
        JpegFrames(frames.packed[:-3], frames.offsets)
