"""EgoVerse Zarr: upstream and authors' keys, padding cut, their labels kept and compared; traps are refused."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import zarr
from scipy.spatial.transform import Rotation

from aloha_files import make_episode
from egorecovery.capture import to_episode
from egorecovery.capture.formats.egoverse import EgoVerseEpisodes, open_paths
from egorecovery.capture.formats.egoverse_labels import compared
from egorecovery.capture.formats.importer import ImportAs, Robot
from egorecovery.capture.formats.options import EgoVerseOptions
from egorecovery.capture.formats.zarr_codecs import zstd_content_bytes
from egorecovery.capture.recording import HandPoses, HandTracks, RobotLog
from egorecovery.cli.main import main
from egorecovery.episodes import PAPER_TASKS, Camera, EpisodeStore, Source
from egorecovery.errors import RecordingError
from egorecovery.intent import label_store
from egorecovery.kinematics import unpack
from egorecovery.motion import aperture_01
from egorecovery.recovery import Annotation, AnnotationJournal
from egorecovery.workcell.kinematics import workcell_arms
from egoverse_files import (
    CAMERAS,
    FPS,
    FRAMES,
    authors_hand_numbers,
    authors_robot_numbers,
    hand_points,
    human_numbers,
    path_m,
    robot_numbers,
    turns,
    write_episode,
)

ROBOT = ImportAs(
    task=PAPER_TASKS["cube_stack"],
    source=Source.ROBOT_RECOVERY,
    robot=Robot(name="the workcell's arms", arms=workcell_arms),
)
HUMAN = replace(ROBOT, source=Source.HUMAN_RECOVERY)


def importer(path, wanted=ROBOT, **options) -> EgoVerseEpisodes:
    return open_paths([path], wanted, EgoVerseOptions(**options))


def refusal(path, wanted=ROBOT) -> str:
    with pytest.raises(RecordingError) as refused:
        importer(path, wanted).load(0, None)
    return str(refused.value)


def test_robot_poses_pictures_and_grippers_come_without_padding(tmp_path):
    expected = write_episode(tmp_path / "ep.zarr", robot_numbers())
    recording = importer(tmp_path / "ep.zarr").load(0, None)
    log = recording.motion
    assert isinstance(log, RobotLog)
    assert len(log.timestamps_s) == FRAMES
    np.testing.assert_allclose(np.diff(log.timestamps_s), 1 / FPS)
    np.testing.assert_allclose(log.effector_m[:, 0], path_m(side=1))
    np.testing.assert_allclose(log.effector_m[:, 1], path_m(side=-1))
    np.testing.assert_allclose(log.state[:, 3:6], turns(side=1).as_euler("xyz"), atol=1e-9)  # w x y z, not x y z w
    np.testing.assert_allclose(log.state[:, 6], np.linspace(0, 1, FRAMES), atol=1e-9)
    np.testing.assert_allclose(log.action[:, 7] - log.state[:, 7], 0.001, atol=1e-9)
    assert log.effector_state is None
    for ours, theirs in zip(Camera, CAMERAS, strict=True):
        frames = recording.cameras[ours].frames
        assert [frames.encoded(index).tobytes() for index in range(len(frames))] == expected[theirs]


def test_angles_that_pass_half_a_turn_are_between_their_neighbours_on_the_grid(tmp_path):
    """A gripper that points down has a roll near pi."""
    numbers = robot_numbers()
    roll_rad = np.pi + np.linspace(-0.3, 0.3, FRAMES)
    for name, ahead_rad in (("obs_ee_pose", 0.0), ("cmd_ee_pose", 0.01)):
        for side in ("left", "right"):
            turned = Rotation.from_euler("x", (roll_rad + ahead_rad)[:, None])
            numbers[f"{side}.{name}"][:, 3:] = turned.as_quat(scalar_first=True)
    write_episode(tmp_path / "ep.zarr", numbers)
    episode = to_episode(importer(tmp_path / "ep.zarr").load(0, None))
    wanted_rad = np.interp(episode.timestamps_s, np.arange(FRAMES) / FPS, roll_rad)
    for column in (3, 10):
        turn_rad = episode.state[:, column] - wanted_rad
        np.testing.assert_allclose(turn_rad - turn_rad[0], 0.0, atol=1e-5)
        assert turn_rad[0] / (2 * np.pi) == pytest.approx(round(turn_rad[0] / (2 * np.pi)), abs=1e-5)
        np.testing.assert_allclose(episode.action[:, column] - episode.state[:, column], 0.01, atol=1e-5)


def test_joints_beside_recorded_poses_have_effector_space_by_tool_axes_or_by_the_users_robot(tmp_path):
    joints = np.tile(np.linspace(0.1, 0.4, FRAMES)[:, None], (1, 14))
    write_episode(tmp_path / "ep.zarr", {**robot_numbers(), **authors_robot_numbers(joints, joints + 0.01)})
    still = np.eye(4).tolist()
    placed = tmp_path / "placed.json"
    placed.write_text(json.dumps({"workspace_from_data": still, "tool_axes": {"approach": "+z", "opening": "+x"}}))
    log = importer(tmp_path / "ep.zarr", replace(ROBOT, transform=placed)).load(0, None).motion
    for name, shift_m in (("effector_state", 0.0), ("effector_action", 0.001)):
        poses = unpack(getattr(log, name))
        np.testing.assert_allclose(poses.position_m[:, 1], path_m(side=-1) + [shift_m, 0, 0], atol=1e-9)
        np.testing.assert_allclose(poses.rotation[:, 1, :, 2], turns(side=-1).as_matrix()[:, :, 2], atol=1e-6)
        np.testing.assert_allclose(poses.opening_01[:, 1], np.linspace(0, 1, FRAMES), atol=1e-9)
    named = Robot(name="mine.xml", arms=workcell_arms, given=True)
    log = importer(tmp_path / "ep.zarr", replace(ROBOT, robot=named)).load(0, None).motion
    np.testing.assert_allclose(log.effector_state, workcell_arms().effector_vectors(log.state))
    np.testing.assert_allclose(log.effector_m, unpack(log.effector_state).position_m)


def test_transform_and_tool_axes_place_both_arms_and_give_effector_space(tmp_path):
    write_episode(tmp_path / "ep.zarr", robot_numbers())
    half_turn = [[-1, 0, 0, 0.5], [0, -1, 0, 0.1], [0, 0, 1, 0], [0, 0, 0, 1]]
    still = np.eye(4).tolist()
    placed = tmp_path / "placed.json"
    placed.write_text(json.dumps({"left": half_turn, "right": still, "tool_axes": {"approach": "+x", "opening": "+y"}}))
    log = importer(tmp_path / "ep.zarr", replace(ROBOT, transform=placed)).load(0, None).motion
    np.testing.assert_allclose(log.effector_m[:, 0], path_m(side=1) * [-1, -1, 1] + [0.5, 0.1, 0])
    np.testing.assert_allclose(log.effector_m[:, 1], path_m(side=-1))
    rotation = unpack(log.effector_state).rotation[:, 1]
    np.testing.assert_allclose(rotation[:, :, 2], turns(side=-1).as_matrix()[:, :, 0], atol=1e-6)  # approach is +x
    np.testing.assert_allclose(rotation[:, :, 1], turns(side=-1).as_matrix()[:, :, 1], atol=1e-6)


def test_authors_robot_joints_give_effectors_by_forward_kinematics(tmp_path):
    expected = make_episode(frames=FRAMES)
    numbers = authors_robot_numbers(expected.qpos, expected.action)
    write_episode(tmp_path / "ep.zarr", numbers, ("images.cam_high",), embodiment=4711)
    log = importer(tmp_path / "ep.zarr").load(0, None).motion
    np.testing.assert_array_equal(log.state[:, :6], expected.qpos[:, :6])
    np.testing.assert_allclose(log.action[:, 6], expected.opening_01[:, 0], atol=1e-5)
    np.testing.assert_allclose(log.effector_m, workcell_arms().effector_poses(expected.qpos)[0], atol=1e-9)


def test_keypoints_of_people_are_put_in_order_and_marked_ones_are_not_seen(tmp_path):
    numbers = human_numbers()
    numbers["left.obs_keypoints"][10:13] = 1e9  # how a hand that was not seen is written
    write_episode(tmp_path / "ep.zarr", numbers)
    hands = importer(tmp_path / "ep.zarr", HUMAN).load(0, None).motion
    assert isinstance(hands, HandTracks)
    seen = hands.seen(0.5)
    assert list(np.flatnonzero(~seen[:, 0])) == [10, 11, 12]
    assert seen[:, 1].all()
    np.testing.assert_allclose(hands.keypoints_m[:, 1, 0], path_m(side=-1))  # the wrist comes first
    tips_m = np.linalg.norm(hand_points(side=-1)[:, 0] - hand_points(side=-1)[:, 1], axis=1)
    wanted = np.clip((tips_m - 0.03) / 0.05, 0, 1)
    np.testing.assert_allclose(aperture_01(hands.keypoints_m[:, 1], hands.order), wanted)
    np.testing.assert_allclose(hands.wrist_rotation[:, 1], turns(side=-1).as_matrix(), atol=1e-9)


def test_authors_hands_arrive_value_for_value_at_25_hz(tmp_path):
    numbers = authors_hand_numbers()
    write_episode(tmp_path / "ep.zarr", numbers, fps=25)
    recording = importer(tmp_path / "ep.zarr", HUMAN).load(0, None)
    assert isinstance(recording.motion, HandPoses)
    episode = to_episode(recording)
    state = numbers["observations.state.ee_pose"]
    assert len(episode) == FRAMES
    np.testing.assert_allclose(episode.state, state, atol=2e-6)
    np.testing.assert_allclose(episode.effector_m[:, 0], state[:, :3], atol=1e-6)
    assert episode.reliable.all()
    assert episode.effector_state is None


def test_half_a_second_without_a_hand_is_unreliable_and_a_jump_of_a_metre_is_bridged(tmp_path):
    numbers = authors_hand_numbers()
    state = numbers["observations.state.ee_pose"]
    state[20:33, :3] = np.nan  # the left hand
    state[40, 7:10] += 1.0  # the right one
    write_episode(tmp_path / "ep.zarr", numbers, fps=25)
    episode = to_episode(importer(tmp_path / "ep.zarr", HUMAN).load(0, None))
    assert np.isfinite(episode.state).all()
    assert not episode.reliable[24:29, 0].any()
    step_m = np.linalg.norm(np.diff(episode.effector_m[:, 1], axis=0), axis=1)
    assert step_m.max() < 0.03


def test_their_labels_are_kept_and_compared_with_ours(tmp_path, capsys):
    for number in range(2):
        write_episode(tmp_path / "set" / f"ep{number}.zarr", authors_hand_numbers(boundary=20), fps=25)
    store_path = tmp_path / "store"
    said = ["--format", "egoverse", "--task", "cube_stack", "--active", "left", "--source", "human_recovery"]
    assert main(["import", str(tmp_path / "set"), *said, "--out", str(store_path), "--workers", "1"]) == 0
    store = EpisodeStore(store_path)
    details = store.read(store.ids()[0]).provenance.details["their_labels"]
    assert details["sr_label"] == "1" * 21 + "0" * (FRAMES - 21)
    journal = AnnotationJournal(store.annotations_path)
    for name in store.ids():
        journal.save(Annotation(episode=name, boundary=25, annotator="ada"), n_frames=FRAMES, seen_revision=0)
    label_store(store)
    found = list(compared(store))
    assert [one.episode for one in found] == store.ids()
    assert found[0].boundary_difference_s == pytest.approx(-0.2)
    assert found[0].recovery_agreement == pytest.approx(1 - 5 / FRAMES)
    assert found[0].intent_valid_agreement is not None
    capsys.readouterr()
    assert main(["label", str(store_path), "--compare"]) == 0
    printed = capsys.readouterr().out
    assert "-0.20" in printed
    table, _, following = printed.partition("next: ")
    assert all(len(line) <= 80 for line in table.splitlines())
    assert following.strip() == f"egorecovery inspect {store_path} --episode {found[0].episode}"


def test_what_the_source_says_decides_never_the_embodiment(tmp_path):
    write_episode(tmp_path / "ep.zarr", human_numbers(), embodiment="eva_bimanual")
    assert isinstance(importer(tmp_path / "ep.zarr", HUMAN).load(0, None).motion, HandTracks)
    assert "for robot_recovery joints or poses are wanted" in refusal(tmp_path / "ep.zarr")


@pytest.fixture
def episode(tmp_path):
    path = tmp_path / "ep.zarr"
    write_episode(path, robot_numbers())
    return path


def edit(path, change) -> None:
    header = json.loads(path.read_text())
    change(header)
    path.write_text(json.dumps(header))


@pytest.mark.parametrize("total", [None, -1, True, 10**9, "60", 1.5])
def test_length_that_makes_no_sense_is_refused(episode, total):
    edit(episode / "zarr.json", lambda header: header["attributes"].update(total_frames=total))
    assert "total_frames is" in refusal(episode)


def test_length_beyond_an_array_is_refused_with_its_name(episode):
    edit(episode / "zarr.json", lambda header: header["attributes"].update(total_frames=76))
    assert "(76, 7) or longer wanted" in refusal(episode)


def test_missing_rate_is_refused(episode):
    edit(episode / "zarr.json", lambda header: header["attributes"].pop("fps"))
    assert "fps is missing" in refusal(episode)


@pytest.mark.parametrize("codec", ["numcodecs.pickle", "numcodecs.bz2", "pickle", "../../evil"])
def test_codec_that_is_not_plain_data_is_refused_before_zarr_opens_anything(episode, codec):
    def change(header):
        header["codecs"][0]["configuration"]["codecs"][1]["name"] = codec

    edit(episode / "left.obs_ee_pose" / "zarr.json", change)
    assert f"uses the codec {codec!r}" in refusal(episode)


def test_huge_declared_shape_is_refused_unread(episode):
    def change(header):
        header["shape"] = [200_000, 7000]
        header["chunk_grid"]["configuration"]["chunk_shape"] = [10, 7000]
        header["codecs"][0]["configuration"]["chunk_shape"] = [10, 7000]

    edit(episode / "left.obs_ee_pose" / "zarr.json", change)
    assert "left.obs_ee_pose" in refusal(episode)


def test_chunk_that_inflates_beyond_its_size_is_refused(tmp_path):
    from numcodecs.zstd import Zstd

    path = tmp_path / "ep.zarr"
    write_episode(path, robot_numbers())
    folder = path / "left.obs_ee_pose"
    shutil.rmtree(folder)
    zarr.open_group(path, mode="a").create_array(
        "left.obs_ee_pose", shape=(75, 7), chunks=(75, 7), dtype="f8", compressors=zarr.codecs.ZstdCodec()
    )[:] = 0.5
    bomb = Zstd().encode(bytes(100_000_000))
    assert len(bomb) < 20_000
    assert zstd_content_bytes(bomb) == 100_000_000
    (folder / "c" / "0" / "0").write_bytes(bomb)
    assert "inflates to 100000000 bytes" in refusal(path)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 65535, 65791, 65792, 70_000, 2**20])
def test_zstd_says_how_large_it_will_be(size):
    from numcodecs.zstd import Zstd

    assert zstd_content_bytes(Zstd().encode(bytes(size))) == size


@pytest.mark.parametrize("make", ["gzip", "blosc"])
def test_other_compressors_are_read_and_bounded(tmp_path, make):
    path = tmp_path / "ep.zarr"
    numbers = robot_numbers()
    write_episode(path, numbers)
    shutil.rmtree(path / "left.obs_ee_pose")
    codec = {"gzip": zarr.codecs.GzipCodec(), "blosc": zarr.codecs.BloscCodec()}[make]
    made = zarr.open_group(path, mode="a").create_array(
        "left.obs_ee_pose", shape=(75, 7), chunks=(75, 7), dtype="f8", compressors=codec
    )
    made[:FRAMES] = numbers["left.obs_ee_pose"]
    np.testing.assert_allclose(importer(path).load(0, None).motion.effector_m[:, 0], path_m(side=1))
    import gzip

    bomb = gzip.compress(bytes(50_000_000)) if make == "gzip" else bytes(4) + b"\xff\xff\xff\x7f" + bytes(100)
    (path / "left.obs_ee_pose" / "c" / "0" / "0").write_bytes(bomb)
    assert "inflates to" in refusal(path)


def test_links_are_refused_wherever_they_are(episode, tmp_path):
    shard = next((episode / "left.obs_ee_pose" / "c").rglob("0/0"))
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    assert "is a link" in refusal(episode)


def test_names_that_lead_outside_are_not_looked_for(episode, tmp_path):
    edit(episode / "zarr.json", lambda header: header["attributes"]["features"].update({"../secret": {}}))
    (tmp_path / "secret").mkdir()
    assert importer(episode).load(0, None).cameras
    said = ["--format", "egoverse", "--task", "cube_stack", "--source", "robot_recovery", "--dry-run"]
    assert main(["import", str(episode), *said, "--camera", "head=../secret"]) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda numbers: numbers["right.cmd_ee_pose"].__setitem__((7, 0), np.nan), "first at frame 7"),
        (lambda numbers: numbers["left.obs_ee_pose"].__setitem__((9, slice(3, 7)), 0.0), "no unit quaternion"),
        (lambda numbers: numbers["left.obs_ee_pose"].__setitem__((3, 0), 1e9), "marked as missing"),
    ],
)
def test_poses_that_are_none_are_refused_with_their_frame(tmp_path, change, words):
    numbers = robot_numbers()
    change(numbers)
    write_episode(tmp_path / "ep.zarr", numbers)
    assert words in refusal(tmp_path / "ep.zarr")


def test_camera_that_is_missing_in_a_later_episode_is_refused_there_only(tmp_path):
    write_episode(tmp_path / "a.zarr", robot_numbers())
    write_episode(tmp_path / "b.zarr", robot_numbers(), CAMERAS[:1])
    found = importer(tmp_path)
    assert found.load(0, None).cameras
    with pytest.raises(RecordingError, match=r"b\.zarr: camera images\.left_wrist is missing"):
        found.load(1, None)


def test_an_episode_that_is_mended_is_added_and_changes_no_other(tmp_path):
    for name in "abc":
        write_episode(tmp_path / "set" / f"{name}.zarr", robot_numbers())
    header = tmp_path / "set" / "b.zarr" / "zarr.json"
    whole = header.read_text()
    header.write_text("{")
    said = ["--format", "egoverse", "--task", "cube_stack", "--source", "robot_success", "--workers", "1"]
    said += ["--gripper-range", "state=0,0.08", "action=0,0.08", "--out", str(tmp_path / "store")]
    assert main(["import", str(tmp_path / "set"), *said]) == 1
    assert EpisodeStore(tmp_path / "store").ids() == ["set-000000", "set-000002"]
    header.write_text(whole)
    assert main(["import", str(tmp_path / "set"), *said]) == 0
    assert EpisodeStore(tmp_path / "store").ids() == ["set-000000", "set-000001", "set-000002"]


def test_blob_that_is_no_picture_is_refused_with_its_frame(tmp_path, monkeypatch):
    monkeypatch.setattr("egoverse_files.picture", lambda frame, camera: b"not a picture")
    write_episode(tmp_path / "ep.zarr", robot_numbers())
    assert "images.front_1, frame 0 is not a JPEG" in refusal(tmp_path / "ep.zarr")


def test_version_2_and_deep_json_are_refused(episode):
    edit(episode / "zarr.json", lambda header: header.update(zarr_format=2))
    assert "not Zarr version 3" in refusal(episode)
    (episode / "zarr.json").write_text("[" * 100_000)
    assert "JSON nested more than" in refusal(episode)
