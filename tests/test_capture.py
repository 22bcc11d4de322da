"""From raw recordings to episodes: what is known about the truth must come back, what is wrong must be said."""

import json
import shutil
from dataclasses import replace

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egorecovery.capture import (
    HandTracks,
    find_recordings,
    import_recording,
    load_recording,
    save_recording,
    to_episode,
)
from egorecovery.capture.synthetic import TrackerFaults, synthetic_recording
from egorecovery.episodes import PAPER_TASKS, Camera, EpisodeStore, Source, check_episode
from egorecovery.errors import RecordingError

TASK = PAPER_TASKS["round_disk"]


def made(source=Source.HUMAN_RECOVERY, seed=0, **options):
    return synthetic_recording("clip", TASK, source, np.random.default_rng(seed), **options)


@pytest.fixture
def saved(tmp_path):
    recording, _ = made()
    save_recording(recording, tmp_path / "clip")
    return tmp_path / "clip"


def start_of(recording):
    return max(
        clock[0] for clock in [recording.motion.timestamps_s, *(c.timestamps_s for c in recording.cameras.values())]
    )


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_a_human_recording_comes_back_within_12_mm_of_the_truth_where_it_is_called_reliable(seed):
    recording, truth = made(seed=seed, image_size=16)
    episode = to_episode(recording)
    error_m = np.linalg.norm(episode.effector_m - truth.effector_m(episode.timestamps_s + start_of(recording)), axis=-1)
    assert error_m[episode.reliable].max() < 0.012
    assert np.sqrt((error_m[episode.reliable] ** 2).mean()) < 0.003


def test_a_robot_recording_comes_back_within_a_tenth_of_a_millimetre():
    recording, truth = made(Source.ROBOT_RECOVERY)
    episode = to_episode(recording)
    true_m = truth.effector_m(episode.timestamps_s + start_of(recording))
    assert np.abs(episode.effector_m - true_m).max() < 1e-4
    assert episode.reliable.all()


def test_every_source_is_accepted_by_the_checks():
    for source in Source:
        recording, _ = made(source, faults=TrackerFaults(jumps=1, gaps=0))
        assert check_episode(to_episode(recording)) == ()


def test_human_state_is_wrist_pose_and_aperture_and_the_action_is_the_next_state():
    recording, truth = made()
    episode = to_episode(recording)
    np.testing.assert_array_equal(episode.state[:, 0:3], episode.effector_m[:, 0])
    np.testing.assert_array_equal(episode.state[:, 7:10], episode.effector_m[:, 1])
    assert (np.abs(episode.state[:, [3, 4, 5, 10, 11, 12]]) <= np.pi).all()
    true_opening = truth.aperture_01(episode.timestamps_s + start_of(recording))
    assert np.abs(episode.state[:, [6, 13]] - true_opening)[episode.reliable].max() < 0.1
    np.testing.assert_array_equal(episode.action[:-1], episode.state[1:])
    np.testing.assert_array_equal(episode.action[-1], episode.state[-1])


def test_a_hand_lost_for_long_is_marked_unreliable_and_discarded():
    recording, _ = made(faults=TrackerFaults(jumps=0, gaps=1, gap_frames=30))
    episode = to_episode(recording)
    assert not episode.reliable.all()
    assert np.isfinite(episode.state).all()
    assert any("hands" in reason for reason in check_episode(episode))


def test_low_confidence_counts_as_not_seen():
    recording, _ = made(faults=TrackerFaults(jumps=0, gaps=0))
    assert isinstance(recording.motion, HandTracks)
    confidence = recording.motion.confidence.copy()
    confidence[20:50, 1] = 0.1
    episode = to_episode(replace(recording, motion=replace(recording.motion, confidence=confidence)))
    assert not episode.reliable[:, 1].all()
    assert episode.reliable[:, 0].all()


def test_a_recording_saved_and_loaded_gives_the_same_episode(saved):
    recording, _ = made()
    ours, theirs = to_episode(recording), to_episode(load_recording(saved))
    np.testing.assert_array_equal(ours.state, theirs.state)
    np.testing.assert_array_equal(ours.cameras[Camera.HEAD].frames.packed, theirs.cameras[Camera.HEAD].frames.packed)
    assert ours.provenance == theirs.provenance


def test_video_instead_of_jpeg_files_gives_the_same_pictures_to_within_compression(saved):
    recording = load_recording(saved)
    images = recording.cameras[Camera.HEAD].frames.decode()
    shutil.rmtree(saved / "head" / "rgb")
    with av.open(str(saved / "head" / "rgb.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": "10"})
        stream.width, stream.height, stream.pix_fmt = images.shape[2], images.shape[1], "yuv444p"
        for image in images:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    again = load_recording(saved).cameras[Camera.HEAD].frames.decode()
    assert np.abs(again.astype(int) - images).mean() < 4


def test_depth_maps_travel_with_their_frames(saved):
    recording = load_recording(saved)
    frames = len(recording.cameras[Camera.HEAD].frames)
    depth_mm = np.arange(frames, dtype=np.uint16)[:, None, None] * np.ones((1, 8, 8), np.uint16)
    np.save(saved / "head" / "depth_mm.npy", depth_mm)
    stream = to_episode(load_recording(saved)).cameras[Camera.HEAD]
    taken_s = recording.cameras[Camera.HEAD].timestamps_s[stream.depth_mm[:, 0, 0]]
    np.testing.assert_allclose(np.diff(taken_s), np.diff(stream.timestamps_s))


def spoil_description(saved, **changes):
    path = saved / "recording.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: (d / "recording.json").write_text("{"), r"recording\.json: not JSON"),
        (lambda d: spoil_description(d, schema=9), r'wants "format"'),
        (lambda d: spoil_description(d, source="robot_sucess"), "robot_sucess"),
        (lambda d: spoil_description(d, task="juggling", active=[]), "juggling.*active sides"),
        (lambda d: spoil_description(d, keypoint_order="smpl"), "smpl"),
        (lambda d: spoil_description(d, provenance={"operator": "x"}), "started_at"),
        (lambda d: (d / "hands.npz").unlink(), r"hands\.npz is missing"),
        (lambda d: (d / "hands.npz").write_bytes(b"PK junk"), r"hands\.npz cannot be read"),
        (lambda d: np.savez(d / "hands.npz", timestamps_s=np.arange(3.0)), "lacks keypoints_m"),
        (lambda d: shutil.rmtree(d / "head" / "rgb"), r"head: neither rgb/\*\.jpg nor rgb\.mp4"),
        (lambda d: (d / "left_wrist" / "rgb" / "000003.jpg").unlink(), r"left_wrist: \d+ frames but \d+ timestamps"),
        (
            lambda d: np.save(d / "head" / "timestamps_s.npy", np.array([{}], object), allow_pickle=True),
            "cannot be read",
        ),
    ],
)
def test_a_recording_that_cannot_be_read_says_what_and_where(saved, spoil, message):
    spoil(saved)
    with pytest.raises(RecordingError, match=message) as error:
        load_recording(saved)
    assert str(saved) in str(error.value)


def test_a_discarded_recording_leaves_its_record_and_an_accepted_one_its_episode(tmp_path):
    store = EpisodeStore.create(tmp_path / "store")
    for name, faults in (("good", TrackerFaults(jumps=0, gaps=0)), ("lost", TrackerFaults(gaps=2, gap_frames=25))):
        recording, _ = synthetic_recording(name, TASK, Source.HUMAN_RECOVERY, np.random.default_rng(1), faults)
        save_recording(recording, tmp_path / "raw" / name)
    with store.writing() as writer:
        outcomes = {d.name: import_recording(writer, d) for d in find_recordings([tmp_path / "raw"])}
    assert outcomes["good"].accepted
    assert not outcomes["lost"].accepted
    assert store.ids() == ["good"]
    assert {a.episode: a.accepted for a in store.collection.attempts()} == {"good": True, "lost": False}


def test_a_directory_without_recordings_is_refused(tmp_path):
    with pytest.raises(RecordingError, match=r"no recording\.json"):
        find_recordings([tmp_path])
