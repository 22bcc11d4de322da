"""Hand files, clips and the tracker's protocol: what is seen is placed, what is not is said, traps are refused."""

import io
import json
import os
import re
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from egorecovery.capture import to_episode
from egorecovery.capture.formats.hand_clips import HandClips
from egorecovery.capture.formats.hand_file import HandFile
from egorecovery.capture.formats.importer import ImportAs, Robot
from egorecovery.capture.formats.marker import workspace_from_world
from egorecovery.capture.hand_tracking import tracker as tracker_module
from egorecovery.capture.hand_tracking.clip_tracking import track_clip
from egorecovery.capture.hand_tracking.placing import curls_like_a_right_hand, placed_hand
from egorecovery.capture.hand_tracking.tracker import HandTracker
from egorecovery.capture.palm import palm_rotation
from egorecovery.capture.recording import RawCamera
from egorecovery.cli.main import main
from egorecovery.episodes import PAPER_TASKS, EpisodeStore, Intrinsics, JpegFrames, Side, Source
from egorecovery.errors import RecordingError
from egorecovery.motion import KeypointOrder
from egorecovery.storage import bounded_npz
from egorecovery.workcell.hand import hand_keypoints_m
from fake_hand_tracker import points
from making import make_images

FAKE = [sys.executable, str(Path(__file__).with_name("fake_hand_tracker.py"))]
PINHOLE = Intrinsics(width=64, height=48, fx=64.0, fy=64.0, cx=32.0, cy=24.0)
HUMAN = ImportAs(task=PAPER_TASKS["cube_stack"], source=Source.HUMAN_RECOVERY, robot=Robot(name="none", arms=dict))
SAMPLES = 60


def hand_arrays(samples: int = SAMPLES) -> dict[str, np.ndarray]:
    """Both hands on an arc in a fixed world, as a tracker's file has them."""
    along = np.linspace(0, 1, samples)
    arc_m = np.stack([0.3 + 0.15 * along, 0.1 * np.sin(2 * along), 0.1 + 0.1 * along], axis=1)
    shape_m = np.array([np.array(points(side, 0.04)) for side in (-1.0, 1.0)])
    keypoints = arc_m[:, None, None] + shape_m[None] + [0, 0.2, 0] * np.array([1, -1])[None, :, None, None]
    return {
        "timestamps_s": along * (samples - 1) / 30,
        "keypoints": keypoints,
        "confidence": np.full((samples, 2), 0.9),
        "keypoint_order": np.array("openpose"),
        "units": np.array("m"),
        "frame": np.array("world"),
    }


def write_hands(path: Path, **changes) -> Path:
    np.savez(path, **{**hand_arrays(), **changes})
    return path


def write_video(path: Path, frames: int = SAMPLES, rate: int = 30, first: int = 0) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for number, image in enumerate(make_images(frames, 64), first):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def refusal(path: Path) -> str:
    with pytest.raises(RecordingError) as refused:
        HandFile.load(path)
    assert str(path) in str(refused.value)
    return str(refused.value)


def test_hands_in_the_world_arrive_as_they_are(tmp_path):
    tracks = HandFile.load(write_hands(tmp_path / "h.npz")).tracks()
    np.testing.assert_allclose(tracks.keypoints_m, hand_arrays()["keypoints"])
    assert tracks.seen(0.5).all()


def test_millimetres_become_metres_and_the_given_transform_is_applied(tmp_path):
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_euler("z", 90, degrees=True).as_matrix()
    matrix[:3, 3] = [1, 2, 3]
    path = write_hands(tmp_path / "h.npz", keypoints=hand_arrays()["keypoints"] * 1000, units=np.array("mm"))
    tracks = HandFile.load(path).tracks(matrix)
    wanted = hand_arrays()["keypoints"] @ matrix[:3, :3].T + matrix[:3, 3]
    np.testing.assert_allclose(tracks.keypoints_m, wanted)
    assert tracks.seen(0.5).all()


def test_points_before_a_moving_camera_come_to_rest_in_the_world(tmp_path):
    rng = np.random.default_rng(0)
    camera = np.tile(np.eye(4), (SAMPLES, 1, 1))
    camera[:, :3, :3] = Rotation.random(SAMPLES, rng).as_matrix()
    camera[:, :3, 3] = rng.normal(size=(SAMPLES, 3))
    world = hand_arrays()["keypoints"]
    seen = np.einsum("nji,nhkj->nhki", camera[:, :3, :3], world - camera[:, None, None, :3, 3])
    path = write_hands(tmp_path / "h.npz", keypoints=seen, frame=np.array("camera"), world_from_camera=camera)
    plain = HandFile.load(write_hands(tmp_path / "w.npz")).tracks()
    tracks = HandFile.load(path).tracks()
    np.testing.assert_allclose(tracks.keypoints_m, world, atol=1e-12)
    np.testing.assert_allclose(tracks.wrist_rotation, plain.wrist_rotation, atol=1e-9)


def test_what_the_tracker_filled_in_counts_as_not_seen(tmp_path):
    filled = np.zeros((SAMPLES, 2), bool)
    filled[20:35, 0] = True  # half a second
    tracks = HandFile.load(write_hands(tmp_path / "h.npz", filled=filled)).tracks()
    np.testing.assert_array_equal(tracks.seen(0.5), ~filled)


class Tensor(np.ndarray):
    """As much of torch's as the documented script asks for."""

    def cpu(self) -> "Tensor":
        return self

    def numpy(self) -> np.ndarray:
        return np.asarray(self)


def hawor_results(seen: dict[int, list[range]]) -> dict[str, object]:
    """What HaWoR's demo has in hand after its infiller, here of the hands above; its MANO models are a stand-in."""
    keypoints = hand_arrays()["keypoints"].transpose(1, 0, 2, 3)
    root_m = keypoints[:, :, 0].astype(np.float32).view(Tensor)

    def mano(hand: int):
        def run(trans, root_orient, hand_pose, is_right=None, betas=None, use_cuda=True):
            assert trans.shape == root_orient.shape == (1, SAMPLES, 3)
            assert (hand_pose.shape, betas.shape) == ((1, SAMPLES, 45), (1, SAMPLES, 10))
            shape_m = keypoints[hand, 0] - keypoints[hand, 0, 0]
            joints = np.asarray(trans)[:, :, None] + shape_m
            return {"joints": joints.view(Tensor), "vertices": np.zeros((1, SAMPLES, 778, 3)).view(Tensor)}

        return run

    poses = np.tile(np.eye(3, dtype=np.float32), (SAMPLES, 1, 1)).view(Tensor)
    return {
        "np": np,
        "run_mano_left": mano(0),
        "run_mano": mano(1),
        "pred_trans": root_m,
        "pred_rot": np.zeros((2, SAMPLES, 3), np.float32).view(Tensor),
        "pred_hand_pose": np.zeros((2, SAMPLES, 45), np.float32).view(Tensor),
        "pred_betas": np.zeros((2, SAMPLES, 10), np.float32).view(Tensor),
        "frame_chunks_all": {hand: [np.array(chunk) for chunk in chunks] for hand, chunks in seen.items()},
        "R_c2w_sla_all": poses,
        "t_c2w_sla_all": np.zeros((SAMPLES, 3), np.float32).view(Tensor),
    }


def test_the_documented_script_for_hawor_writes_what_it_saw_and_marks_what_it_filled(tmp_path, monkeypatch):
    text = (Path(__file__).parents[1] / "docs" / "hand_tracks.md").read_text()
    [script] = [code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "run_mano_left" in code]
    monkeypatch.chdir(tmp_path)
    exec(script, hawor_results({0: [range(0, 20), range(26, 60)], 1: [range(60)]}))  # noqa: S102 - our documentation
    tracks = HandFile.load(tmp_path / "hands.npz").tracks()
    np.testing.assert_allclose(tracks.keypoints_m, hand_arrays()["keypoints"], atol=1e-6)
    np.testing.assert_array_equal(np.flatnonzero(~tracks.seen(0.5)[:, 0]), np.arange(20, 26))
    assert tracks.seen(0.5)[:, 1].all()
    write_video(tmp_path / "hands.mp4")
    [clip] = [HandClips.found([tmp_path / "hands.mp4"], HUMAN, tmp_path / "hands.npz", None)]
    assert len(to_episode(clip.load(0, None))) == 50  # 59/30 s at 25 Hz


def test_palm_rotation_of_the_simulated_hand_is_its_own_frame():
    """Whatever tracker gave the points, the same hand gets the same axes as in the workcell."""
    for side in Side:
        turn = Rotation.from_euler("xyz", [0.3, -0.8, 1.2]).as_matrix()
        points_m = hand_keypoints_m(side, 0.04) @ turn.T
        found = palm_rotation(points_m[None], KeypointOrder.MANO, right_hand=side is Side.RIGHT)[0]
        assert Rotation.from_matrix(turn.T @ found).magnitude() < np.deg2rad(25)


def test_marker_on_the_table_gives_the_transform(tmp_path):
    rng = np.random.default_rng(1)
    world_from_marker = np.eye(4)
    world_from_marker[:3, :3], world_from_marker[:3, 3] = Rotation.random(rng=rng).as_matrix(), [0.2, 0.4, 1.0]
    poses = np.tile(np.eye(4), (5, 1, 1))
    poses[:, :3, :3], poses[:, :3, 3] = Rotation.random(5, rng).as_matrix(), rng.normal(size=(5, 3))
    workspace_from_marker = np.eye(4)
    workspace_from_marker[:3, 3] = [0.4, 0.0, 0.0]
    sightings = [
        {"sample": index, "camera_from_marker": (np.linalg.inv(poses[index]) @ world_from_marker).tolist()}
        for index in range(5)
    ]
    path = tmp_path / "marker.json"
    path.write_text(json.dumps({"workspace_from_marker": workspace_from_marker.tolist(), "sightings": sightings}))
    wanted = workspace_from_marker @ np.linalg.inv(world_from_marker)
    np.testing.assert_allclose(workspace_from_world(path, poses), wanted, atol=1e-9)
    poses[3, 0, 3] += 0.1  # the camera's path drifts
    with pytest.raises(RecordingError, match=r"mm and .* degrees apart"):
        workspace_from_world(path, poses)
    with pytest.raises(RecordingError, match="needs world_from_camera"):
        workspace_from_world(path, None)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.eye(3), "four rows of four"),
        (np.eye(4) * 2, "last row"),
        (np.diag([1, 1, -1, 1]), "mirrors"),
        (np.diag([1000, 1000, 1000, 1]), "scales"),
        (np.full((4, 4), None), "four rows of four"),
    ],
)
def test_transform_that_is_not_rigid_is_refused(tmp_path, matrix, words):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"workspace_from_data": np.asarray(matrix).tolist()}))
    with pytest.raises(RecordingError, match=words):
        workspace_from_world(path, None)


def test_video_with_hands_becomes_an_episode_by_one_command(tmp_path, capsys):
    write_video(tmp_path / "clip-7.mp4")
    hands = write_hands(tmp_path / "clip-7.npz")
    said = ["--hands", str(hands), "--task", "cube_stack", "--source", "human_recovery"]
    assert main(["import", str(tmp_path / "clip-7.mp4"), *said, "--dry-run"]) == 0
    assert "starts again with each clip" in capsys.readouterr().out
    assert main(["import", str(tmp_path / "clip-7.mp4"), *said, "--out", str(tmp_path / "store")]) == 0
    episode = EpisodeStore(tmp_path / "store").read("clip-7")
    assert len(episode) == 50  # two seconds at 25 Hz
    assert episode.reliable.all()
    assert episode.effector_state is not None
    wrist_m = hand_arrays()["keypoints"][:, 1, 0]
    assert np.linalg.norm(episode.effector_m[0, 1] - wrist_m[0]) < 0.005


def test_folder_of_frames_with_depth_and_calibration_is_a_clip_too(tmp_path):
    head = tmp_path / "clip" / "head"
    (head / "rgb").mkdir(parents=True)
    frames = JpegFrames.encode(make_images(SAMPLES, 32))
    for index in range(SAMPLES):
        (head / "rgb" / f"{index:06d}.jpg").write_bytes(frames.encoded(index).tobytes())
    np.save(head / "timestamps_s.npy", np.arange(SAMPLES) / 30)
    np.save(head / "depth_mm.npy", np.full((SAMPLES, 32, 32), 500, np.uint16))
    (head / "intrinsics.json").write_text(
        json.dumps({"width": 32, "height": 32, "fx": 30, "fy": 30, "cx": 16, "cy": 16})
    )
    hands = write_hands(tmp_path / "hands.npz")
    recording = HandClips.found([tmp_path / "clip"], HUMAN, hands, None).load(0, None)
    camera = next(iter(recording.cameras.values()))
    assert camera.intrinsics.fx == 30
    assert to_episode(recording).cameras["head"].depth_mm.shape[1:] == (32, 32)
    (head / "rgb" / "000003.jpg").unlink()
    (head / "rgb" / "000003.jpg").symlink_to(tmp_path / "hands.npz")
    with pytest.raises(RecordingError, match="is a symbolic link"):
        HandClips.found([tmp_path / "clip"], HUMAN, hands, None).load(0, None)


def test_hands_and_pictures_of_a_video_that_does_not_begin_at_zero_share_the_clock(tmp_path):
    write_video(tmp_path / "late.mkv", first=45)  # 1.5 s
    hands = write_hands(tmp_path / "late.npz")  # from the first frame on
    recording = HandClips.found([tmp_path / "late.mkv"], HUMAN, hands, None).load(0, None)
    np.testing.assert_allclose(recording.cameras["head"].timestamps_s, recording.motion.timestamps_s, atol=1e-3)
    assert len(to_episode(recording)) == 50


def test_a_clock_beside_a_video_is_the_clips_clock(tmp_path):
    (tmp_path / "clip" / "head").mkdir(parents=True)
    write_video(tmp_path / "clip" / "head" / "rgb.mp4")
    clock_s = 7.0 + np.arange(SAMPLES) / 15  # half as fast as the video would be played
    np.save(tmp_path / "clip" / "head" / "timestamps_s.npy", clock_s)
    hands = write_hands(tmp_path / "hands.npz", timestamps_s=clock_s)
    recording = HandClips.found([tmp_path / "clip"], HUMAN, hands, None).load(0, None)
    np.testing.assert_array_equal(recording.cameras["head"].timestamps_s, clock_s)


def test_hands_that_are_in_the_workspace_take_no_transform(tmp_path):
    write_video(tmp_path / "clip.mp4")
    (tmp_path / "placed.json").write_text(json.dumps({"workspace_from_data": np.eye(4).tolist()}))
    hands = write_hands(tmp_path / "clip.npz", frame=np.array("workspace"))
    clips = HandClips.found([tmp_path / "clip.mp4"], HUMAN, hands, tmp_path / "placed.json")
    with pytest.raises(RecordingError, match="in the workspace frame already"):
        clips.load(0, None)


def test_truncated_video_is_refused_and_nothing_is_stored(tmp_path, capsys):
    write_video(tmp_path / "clip.mp4")
    whole = (tmp_path / "clip.mp4").read_bytes()
    (tmp_path / "clip.mp4").write_bytes(whole[: len(whole) // 2])
    said = ["--hands", str(write_hands(tmp_path / "h.npz")), "--task", "cube_stack", "--source", "human_recovery"]
    assert main(["import", str(tmp_path / "clip.mp4"), *said, "--out", str(tmp_path / "store")]) == 1
    assert "cannot be decoded as video" in " ".join(capsys.readouterr().out.split())
    assert EpisodeStore(tmp_path / "store").ids() == []


def test_playlist_under_a_videos_name_opens_nothing(tmp_path):
    (tmp_path / "clip.mp4").write_text("#EXTM3U\n#EXTINF:1,\n/etc/hostname\n#EXT-X-ENDLIST\n")
    importer = HandClips.found([tmp_path / "clip.mp4"], HUMAN, write_hands(tmp_path / "h.npz"), None)
    with pytest.raises(RecordingError, match="cannot be decoded as video"):
        importer.load(0, None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"keypoints": np.zeros((SAMPLES, 2, 20, 3))}, r"keypoints must be numbers of shape (60, 2, 21, 3)"),
        ({"units": np.array("inch")}, "units must be one of m, mm"),
        ({"frame": np.array("camera")}, "world_from_camera is needed"),
        ({"keypoint_order": np.array("random")}, "keypoint_order must be one of"),
        ({"keypoints": hand_arrays()["keypoints"] * 1000}, "are the units right"),
        ({"surprise": np.zeros(3)}, "surprise is not known"),
        ({"world_from_camera": np.zeros((SAMPLES, 4, 4))}, "no rigid pose in 60 of 60"),
        ({"timestamps_s": np.array(1.0)}, "timestamps_s must have shape (N,)"),
        ({"keypoints": np.full((SAMPLES, 2, 21, 3), "x")}, "keypoints must be numbers"),
    ],
)
def test_hand_file_that_does_not_fit_is_refused_with_the_field(tmp_path, changes, words):
    assert words in refusal(write_hands(tmp_path / "h.npz", **changes))


def test_hand_file_without_a_field_names_it(tmp_path):
    arrays = hand_arrays()
    del arrays["confidence"]
    np.savez(tmp_path / "h.npz", **arrays)
    assert "lacks confidence" in refusal(tmp_path / "h.npz")


def with_member(path: Path, name: str, payload: bytes) -> Path:
    write_hands(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, payload)
    return path


class Trap:
    def __reduce__(self):
        return os.mkdir, ("pwned",)


def test_object_array_is_refused_and_never_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    payload = io.BytesIO()
    np.save(payload, np.array([Trap()], object), allow_pickle=True)
    refused = refusal(with_member(tmp_path / "h.npz", "tracker.npy", payload.getvalue()))
    assert "only numbers and short texts are read" in refused
    assert not (tmp_path / "pwned").exists()


def test_array_that_declares_a_terabyte_is_refused_before_it_is_allocated(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (400000, 400000), }"
    payload = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    assert "declares shape (400000, 400000)" in refusal(with_member(tmp_path / "h.npz", "tracker.npy", payload))


def test_zip_that_would_unpack_to_gigabytes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bounded_npz, "MAX_BYTES", 16 * 2**20)  # instead of writing half a gigabyte
    path = tmp_path / "h.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w", force_zip64=True) as f:
        for _ in range(20):
            f.write(bytes(2**20))
    assert path.stat().st_size < 2**20
    assert "declares 1 arrays of 20 MB" in refusal(path)


@pytest.mark.parametrize("name", ["../evil.npy", "/etc/evil.npy", "notes.txt", "a/b.npy", "x.npy.npy"])
def test_member_that_is_no_plain_array_is_refused(tmp_path, name):
    assert "expected plain arrays" in refusal(with_member(tmp_path / "h.npz", name, b"x"))


def test_truncated_npz_text_and_link_are_refused(tmp_path):
    path = write_hands(tmp_path / "h.npz")
    path.write_bytes(path.read_bytes()[:-3000])
    assert "not an npz archive" in refusal(path)
    path.write_text("hello")
    assert "not an npz archive" in refusal(path)
    (tmp_path / "l.npz").symlink_to(write_hands(tmp_path / "r.npz"))
    assert "is a symbolic link" in refusal(tmp_path / "l.npz")


def test_clock_that_jumps_back_and_a_hand_that_is_lost_for_long_are_judged(tmp_path):
    write_video(tmp_path / "clip.mp4")
    clock_s = hand_arrays()["timestamps_s"].copy()
    clock_s[30] -= 0.5
    said = ["--task", "cube_stack", "--source", "human_recovery", "--out", str(tmp_path / "store")]
    for number, changes in enumerate(
        [{"timestamps_s": clock_s}, {"filled": np.arange(SAMPLES)[:, None].repeat(2, 1) % 60 > 30}]
    ):
        hands = write_hands(tmp_path / f"h{number}.npz", **changes)
        assert main(["import", str(tmp_path / "clip.mp4"), "--hands", str(hands), *said]) == 1  # judged, not stored
    assert EpisodeStore(tmp_path / "store").ids() == []


def camera(frames: int = 12, depth_m: float | None = None) -> RawCamera:
    depth_mm = None if depth_m is None else np.full((frames, 48, 64), round(depth_m * 1000), np.uint16)
    return RawCamera(
        frames=JpegFrames.encode(make_images(frames, 64)[:, :48]),
        timestamps_s=np.arange(frames) / 30,
        intrinsics=PINHOLE,
        depth_mm=depth_mm,
    )


def test_tracker_places_hands_and_tells_left_from_right():
    with HandTracker.started([*FAKE, "well"]) as tracker:
        tracked = track_clip(camera(), tracker)
    assert tracked.tracker == "mediapipe fake 1"
    assert (tracked.confidence[:, 0] == 0.9).all()
    assert (tracked.confidence[[0, *range(2, 12)], 1] == 0.9).all()  # the surer of two of one name
    assert tracked.confidence[1, 1] == 0
    assert np.isnan(tracked.keypoints_m[1, 1]).all()
    np.testing.assert_allclose(tracked.keypoints_m[0, 1, 0, 2], 0.5, atol=0.01)
    assert tracked.keypoints_m[0, 1, 0, 0] > 0 > tracked.keypoints_m[0, 0, 0, 0]
    tracked.require_handedness()


def test_exchanged_hands_are_noticed_by_the_way_fingers_bend():
    with HandTracker.started([*FAKE, "exchanged"]) as tracker:
        tracked = track_clip(camera(), tracker)
    with pytest.raises(RecordingError, match="left and right look exchanged"):
        tracked.require_handedness()
    with HandTracker.started([*FAKE, "exchanged"]) as tracker:
        track_clip(camera(), tracker, mirrored=True).require_handedness()


def test_depth_decides_the_distance_where_there_is_depth():
    hand = np.array(points(1.0, 0.0))
    pixels = 64 * (hand[:, :2] / 0.5) + [32, 24]  # a usual hand at half a metre
    by_size = placed_hand(pixels, hand, PINHOLE)
    np.testing.assert_allclose(by_size, hand + [0, 0, 0.5], atol=1e-6)
    by_depth = placed_hand(pixels, hand, PINHOLE, np.full((48, 64), 790, np.uint16))
    np.testing.assert_allclose(by_depth[0, 2], 0.8, atol=0.02)
    assert placed_hand(pixels, hand, PINHOLE, np.zeros((48, 64), np.uint16)) is None  # no reading


def test_flat_hand_tells_nothing_about_its_side():
    right, bent = curls_like_a_right_hand(np.array([points(1.0, 0.0), points(1.0, 0.04), points(-1.0, 0.04)]))
    assert list(bent) == [False, True, True]
    assert list(right[1:]) == [True, False]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("broken", "ended; its last message: ImportError: no such model"),
        ("dies", "ended"),
        ("babbles", "a malformed answer"),
        ("nan", "a malformed answer"),
        ("nonsense", "described a malformed hand"),
    ],
)
def test_tracker_that_misbehaves_is_ended_with_one_message(how, words):
    with pytest.raises(RecordingError, match=words), HandTracker.started([*FAKE, how]) as tracker:
        track_clip(camera(), tracker)


def test_tracker_that_says_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(tracker_module, "START_S", 0.2)
    with pytest.raises(RecordingError, match="did not start within"), HandTracker.started([*FAKE, "silent"]):
        pass


def test_tracking_writes_a_file_that_import_reads(tmp_path, monkeypatch, capsys):
    write_video(tmp_path / "clip.mp4")
    out = tmp_path / "clip.npz"
    monkeypatch.setattr(
        "egorecovery.capture.hand_tracking.tracker.mediapipe_command", lambda python, model: [*FAKE, "well"]
    )
    assert main(["track", str(tmp_path / "clip.mp4"), "--out", str(out), "--python", sys.executable]) == 0
    printed = capsys.readouterr()
    assert "next: egorecovery import" in " ".join(printed.out.split())
    made = HandFile.load(out)
    assert made.frame == "camera"
    assert made.order is KeypointOrder.OPENPOSE
    recording = HandClips.found([tmp_path / "clip.mp4"], HUMAN, out, None).load(0, None)
    assert replace(recording.provenance).details["tracker"] == "mediapipe fake 1"
