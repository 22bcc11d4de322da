"""ALOHA HDF5: what a recorder wrote is what is stored; what the files leave open is said; traps are refused."""

import h5py
import numpy as np
import pytest

from aloha_files import ACTION_GRIPPER, STATE_GRIPPER, Told, make_episode, write_compressed, write_data_set, write_raw
from egorecovery.capture.formats import hdf5_reading
from egorecovery.capture.formats.aloha_importer import AlohaFiles, open_paths
from egorecovery.capture.formats.importer import ImportAs, Robot
from egorecovery.capture.formats.options import AlohaOptions
from egorecovery.cli.main import main
from egorecovery.episodes import PAPER_TASKS, Camera, EpisodeStore, Source
from egorecovery.errors import RecordingError
from egorecovery.kinematics import unpack
from egorecovery.workcell.kinematics import workcell_arms
from training_store import TINY

TASK = PAPER_TASKS["cube_stack"]
WANTED = ImportAs(task=TASK, source=Source.ROBOT_SUCCESS, robot=Robot(name="the workcell's arms", arms=workcell_arms))


def importer(*paths, **options) -> AlohaFiles:
    return open_paths(paths, WANTED, AlohaOptions(**options))


def refusal(path) -> str:
    with pytest.raises(RecordingError) as refused:
        importer(path).load(0, None)
    assert str(path) in str(refused.value)
    return str(refused.value)


@pytest.fixture(scope="module")
def expected() -> Told:
    return make_episode()


def test_joints_pictures_and_openings_are_those_the_recorder_wrote(tmp_path, expected):
    write_raw(tmp_path / "episode_0.hdf5", expected)
    recording = importer(tmp_path).load(0, None)
    log = recording.motion
    arms = np.delete(np.arange(14), [6, 13])
    np.testing.assert_array_equal(log.state[:, arms], expected.qpos[:, arms])
    np.testing.assert_array_equal(log.action[:, arms], expected.action[:, arms])
    np.testing.assert_allclose(log.state[:, [6, 13]], expected.opening_01, atol=1e-5)  # although scales differ
    np.testing.assert_allclose(log.action[:, [6, 13]], expected.opening_01, atol=1e-5)
    np.testing.assert_allclose(np.diff(log.timestamps_s), 1 / 50)
    assert set(recording.cameras) == set(Camera)
    for camera, name in {Camera.HEAD: "cam_high", Camera.LEFT_WRIST: "cam_left_wrist"}.items():
        decoded = recording.cameras[camera].frames.decode().astype(int)
        assert np.abs(decoded - expected.pictures[name]).max() <= 12  # one JPEG at quality 90


def test_effectors_are_forward_kinematics_of_what_was_measured_and_commanded(tmp_path, expected):
    write_raw(tmp_path / "episode_0.hdf5", expected)
    log = importer(tmp_path).load(0, None).motion
    poses = unpack(log.effector_action)
    position_m, rotation = workcell_arms().effector_poses(expected.action)
    np.testing.assert_allclose(poses.position_m, position_m, atol=1e-9)
    np.testing.assert_allclose(poses.rotation, rotation, atol=1e-6)
    np.testing.assert_allclose(log.effector_m, workcell_arms().effector_poses(expected.qpos)[0], atol=1e-9)


def test_compressed_pictures_are_taken_byte_for_byte(tmp_path, expected):
    write_compressed(tmp_path / "episode_0.hdf5", expected)
    recording = importer(tmp_path).load(0, None)
    frames = recording.cameras[Camera.RIGHT_WRIST].frames
    assert [frames.encoded(index).tobytes() for index in range(len(frames))] == expected.jpegs["cam_right_wrist"]


@pytest.mark.parametrize("write", [write_raw, write_compressed])
def test_pictures_with_red_and_blue_exchanged_come_right_when_it_is_said(tmp_path, write):
    expected = make_episode(frames=6)
    if write is write_raw:
        swapped = Told(
            expected.qpos, expected.action, expected.opening_01, {n: p[..., ::-1] for n, p in expected.pictures.items()}
        )
        write(tmp_path / "episode_0.hdf5", swapped)
    else:
        write(tmp_path / "episode_0.hdf5", expected, swap=True)
    wrong = importer(tmp_path).load(0, None).cameras[Camera.HEAD].frames[3].mean(axis=(0, 1))
    right = importer(tmp_path, channel_order="bgr").load(0, None).cameras[Camera.HEAD].frames[3].mean(axis=(0, 1))
    assert wrong[2] > 150 > 60 > wrong[0]
    assert right[0] > 150 > 60 > right[2]


def test_dry_run_says_rate_order_grippers_arm_and_left_out_cameras_and_shows_both_orders(tmp_path, expected, capsys):
    (tmp_path / "set").mkdir()
    write_raw(tmp_path / "set" / "episode_0.hdf5", expected, base=True)
    sheet = tmp_path / "sheet.png"
    where = ["--format", "aloha", "--task", "cube_stack", "--source", "robot_success"]
    assert main(["import", str(tmp_path / "set"), *where, "--dry-run", "--sheet", str(sheet)]) == 0
    said = capsys.readouterr().out
    for words in ("50 Hz is taken", "--channel-order bgr", "cam_low", "workcell's arms", "base is driven in 1 of 1"):
        assert words in said
    assert f"{STATE_GRIPPER[0]:.4g} (closed) to {STATE_GRIPPER[1]:.4g} (open)" in said
    picture = _png(sheet)
    left, right = picture[5, 5].astype(int), picture[5, -5].astype(int)
    assert left[0] > 150 > left[2]
    assert right[2] > 150 > right[0]
    assert {path.name for path in tmp_path.iterdir()} == {"set", "sheet.png"}


def _png(path) -> np.ndarray:
    import av

    with av.open(str(path)) as container:
        return next(container.decode(video=0)).to_ndarray(format="rgb24")


def test_gripper_range_that_is_given_wins_over_the_data_sets_own(tmp_path, expected):
    from dataclasses import replace

    from egorecovery.capture.formats.grippers import parse_ranges

    write_raw(tmp_path / "episode_0.hdf5", expected)
    wanted = replace(WANTED, grippers=parse_ranges(["action=1.4,-0.6"]))  # a handle that closes as it rises
    log = open_paths([tmp_path], wanted, AlohaOptions()).load(0, None).motion
    np.testing.assert_allclose(log.action[:, 6], 1 - expected.opening_01[:, 0], atol=1e-5)
    assert ACTION_GRIPPER == (-0.6, 1.4)


@pytest.mark.parametrize("text", ["state", "state=1", "state=1,1", "state=nan,1", "wrist=0,1", "state=0,1,2"])
def test_gripper_range_that_makes_no_sense_is_refused(text):
    from egorecovery.capture.formats.grippers import parse_ranges

    with pytest.raises(RecordingError, match="gripper range"):
        parse_ranges([text])


def test_grippers_that_never_move_need_a_given_range(tmp_path, expected):
    still = Told(expected.qpos.copy(), expected.action, expected.opening_01, expected.pictures)
    still.qpos[:, [6, 13]] = 0.03
    write_raw(tmp_path / "episode_0.hdf5", still)
    with pytest.raises(RecordingError, match="--gripper-range state=CLOSED,OPEN"):
        importer(tmp_path)


def test_episode_2_comes_before_episode_10_and_files_keep_their_numbers(tmp_path, expected):
    for number in (10, 2):
        write_raw(tmp_path / f"episode_{number}.hdf5", expected)
    found = importer(tmp_path)
    assert [found.load(index, None).id.rsplit("-", 1)[1] for index in range(2)] == ["000002", "000010"]


@pytest.mark.slow
def test_tiny_policy_trains_on_an_imported_aloha_set(tmp_path):
    """End to end: HDF5 to store to labels to a checkpoint."""
    write_data_set(tmp_path / "aloha", episodes=3, frames=100)
    store, run = tmp_path / "store", tmp_path / "run"
    said = ["--format", "aloha", "--task", "cube_stack", "--source", "robot_success", "--image-size", "32"]
    assert main(["import", str(tmp_path / "aloha"), *said, "--out", str(store), "--workers", "1"]) == 0
    assert len(EpisodeStore(store).ids()) == 3
    assert (
        main(["import", str(tmp_path / "aloha"), *said, "--out", str(store), "--workers", "1"]) == 0
    )  # again: nothing
    assert len(EpisodeStore(store).ids()) == 3
    assert main(["label", str(store)]) == 0
    settings = [part for pair in {**TINY, "batch.human": "0"}.items() for part in pair]
    how = ["--task", "cube_stack", "--run", str(run), "--method", "robot_success", "--robot-success", "2"]
    budget = ["--robot-recovery", "0", "--human-recovery", "0", "--human-success", "0", "--steps", "3"]
    assert main(["train", str(store), *how, *budget, "--device", "cpu", "--set", *settings]) == 0
    assert list(run.rglob("*.safetensors"))


def test_episode_without_a_camera_of_the_others_is_refused_and_the_rest_go_on(tmp_path, expected):
    write_raw(tmp_path / "episode_0.hdf5", expected)
    less = Told(
        expected.qpos,
        expected.action,
        expected.opening_01,
        {k: v for k, v in expected.pictures.items() if k != "cam_high"},
    )
    write_raw(tmp_path / "episode_1.hdf5", less)
    found = importer(tmp_path)
    assert found.load(0, None).cameras
    with pytest.raises(RecordingError, match=r"episode_1\.hdf5: camera cam_high is missing"):
        found.load(1, None)


@pytest.fixture
def episode(tmp_path, expected):
    path = tmp_path / "episode_0.hdf5"
    write_raw(path, expected)
    return path


def rewrite(path, name, make):
    """Replaces one array by what `make(file, old)` gives."""
    with h5py.File(path, "r+") as file:
        old = file[name][...]
        del file[name]
        make(file, old)


def test_external_link_is_refused_and_never_followed(episode, tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as secret:
        secret["qpos"] = np.zeros((60, 14))
    rewrite(
        episode,
        "observations/qpos",
        lambda f, _: f.__setitem__("observations/qpos", h5py.ExternalLink(str(tmp_path / "secret.h5"), "qpos")),
    )
    assert "link to something else" in refusal(episode)


def test_soft_link_is_refused(episode):
    rewrite(episode, "action", lambda f, _: f.__setitem__("action", h5py.SoftLink("/observations/qpos")))
    assert "link to something else" in refusal(episode)


def test_external_storage_is_refused(episode, tmp_path):
    outside = tmp_path / "outside.raw"
    outside.write_bytes(bytes(60 * 14 * 4))
    rewrite(
        episode,
        "action",
        lambda f, _: f.create_dataset("action", (60, 14), "f4", external=[(str(outside), 0, 60 * 14 * 4)]),
    )
    assert "in other files" in refusal(episode)


def test_virtual_data_set_is_refused(episode, tmp_path):
    with h5py.File(tmp_path / "source.h5", "w") as source:
        source["qpos"] = np.zeros((60, 14), "f4")
    layout = h5py.VirtualLayout((60, 14), "f4")
    layout[:] = h5py.VirtualSource(str(tmp_path / "source.h5"), "qpos", shape=(60, 14))
    rewrite(episode, "action", lambda f, _: f.create_virtual_dataset("action", layout))
    assert "in other files" in refusal(episode)


def test_huge_declared_shape_that_the_file_does_not_hold_is_refused_before_anything_is_allocated(episode):
    rewrite(
        episode,
        "observations/images/cam_high",
        lambda f, _: f.create_dataset("observations/images/cam_high", (60, 4000, 4000, 3), "u1"),
    )
    assert "declares 2880000000 bytes" in refusal(episode)


def test_data_set_that_was_written_in_part_is_refused(episode):
    def half(file, old):
        made = file.create_dataset("observations/images/cam_high", old.shape, "u1", chunks=(1, *old.shape[1:]))
        made[:20] = old[:20]

    rewrite(episode, "observations/images/cam_high", half)
    assert "written in part" in refusal(episode)


def test_chunk_that_inflates_beyond_its_size_is_refused(episode):
    import zlib

    def bomb(file, old):
        made = file.create_dataset("action", old.shape, "f4", chunks=old.shape, compression="gzip")
        made.id.write_direct_chunk((0, 0), zlib.compress(bytes(50_000_000)))

    rewrite(episode, "action", bomb)
    assert "inflates to more than" in refusal(episode)


def test_gzip_with_shuffle_is_read_like_any_other(episode, expected):
    rewrite(
        episode,
        "action",
        lambda f, old: f.create_dataset("action", data=old, compression="gzip", shuffle=True, fletcher32=True),
    )
    np.testing.assert_array_equal(importer(episode).load(0, None).motion.action[:, 0], expected.action[:, 0])


def test_filter_that_needs_a_plugin_is_refused(episode):
    rewrite(episode, "action", lambda f, old: f.create_dataset("action", data=old, compression="lzf"))
    assert "plugin" in refusal(episode)


def test_objects_are_refused(episode):
    def texts(file, _):
        file.create_dataset("action", (60, 14), dtype=h5py.string_dtype())

    rewrite(episode, "action", texts)
    assert "must hold numbers" in refusal(episode)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("observations/qpos", lambda old: old[:, :7], "(frames, 14) wanted"),
        ("action", lambda old: old[:30], "60 samples, action 30"),
        ("observations/images/cam_high", lambda old: old[:30], "30 pictures"),
        ("observations/images/cam_high", lambda old: old[..., 0], "(frames, height, width, 3)"),
        ("observations/images/cam_high", lambda old: old.astype("f4"), "float32"),
        ("observations/qpos", lambda old: np.where(np.arange(60)[:, None] == 7, np.nan, old), "first at sample 7"),
    ],
)
def test_wrong_shapes_types_and_nan_are_refused_with_the_field(episode, name, change, words):
    rewrite(episode, name, lambda f, old: f.__setitem__(name, change(old)))
    message = refusal(episode)
    assert words in message
    assert name.split("/")[-1] in message


def test_missing_field_is_refused_by_its_name(episode):
    rewrite(episode, "observations/qpos", lambda f, old: None)
    assert "observations/qpos is missing" in refusal(episode)


@pytest.mark.parametrize(
    ("name", "change", "advice"),
    [
        ("observations/qpos", lambda old: np.pad(old, ((0, 0), (0, 2))), "six joints and a gripper each"),
        ("action", lambda old: old[:-1], "cut the longer one"),
        ("observations/images/cam_high", lambda old: old.transpose(0, 3, 1, 2), "put the channels last"),
    ],
)
def test_a_refusal_says_what_to_change(episode, name, change, advice):
    rewrite(episode, name, lambda f, old: f.__setitem__(name, change(old)))
    assert advice in refusal(episode)


def test_pictures_of_different_lengths_are_refused_with_the_layout_that_is_read(episode):
    def unpadded(file, old):
        rows = file.create_dataset("observations/images/cam_high", (60,), h5py.vlen_dtype(np.uint8))
        rows[0] = np.zeros(9, np.uint8)

    rewrite(episode, "observations/images/cam_high", unpadded)
    assert "pad them with zeros to the longest" in refusal(episode)


def test_a_robomimic_file_is_called_one(tmp_path):
    with h5py.File(tmp_path / "demo.hdf5", "w") as file:
        file["data/demo_0/actions"] = np.zeros((30, 14))
    assert "it is a robomimic file" in refusal(tmp_path / "demo.hdf5")


def test_data_without_pictures_are_not_called_data_of_unknown_cameras(episode):
    with h5py.File(episode, "a") as file:
        del file["observations/images"]
    with pytest.raises(RecordingError, match="have no camera, and a policy needs pictures"):
        importer(episode)


def test_a_folder_whose_folders_hold_the_episodes_names_them(tmp_path, expected):
    (tmp_path / "day_1").mkdir()
    write_raw(tmp_path / "day_1" / "episode_0.hdf5", expected)
    with pytest.raises(RecordingError, match="its folders day_1 have some: name those"):
        importer(tmp_path)


def test_compress_len_that_cuts_a_picture_is_refused(tmp_path, expected):
    path = tmp_path / "episode_0.hdf5"
    write_compressed(path, expected)
    with h5py.File(path, "r+") as file:
        file["compress_len"][0, 5] -= 10
    assert "differs in 1 of 60, first at frame 5" in refusal(path)


def test_rows_of_compress_len_may_stand_in_the_recorders_own_order(tmp_path, expected):
    path = tmp_path / "episode_0.hdf5"
    write_compressed(path, expected)
    with h5py.File(path, "r+") as file:
        file["compress_len"][...] = file["compress_len"][...][::-1]
    assert len(importer(path).load(0, None).cameras[Camera.HEAD].frames) == 60


def test_picture_that_declares_billions_of_pixels_is_refused_unread(tmp_path, expected):
    path = tmp_path / "episode_0.hdf5"
    write_compressed(path, expected)
    with h5py.File(path, "r+") as file:
        row = file["observations/images/cam_high"][0]
        start = row.tobytes().index(b"\xff\xc0") + 5  # height and width in the frame header
        row[start : start + 4] = [0x4E, 0x20, 0x4E, 0x20]
        file["observations/images/cam_high"][0] = row
    assert "20000 x 20000 pixels" in refusal(path)


def test_truncated_file_and_a_text_file_are_refused_and_leave_no_store_behind(tmp_path, episode, capsys):
    episode.write_bytes(episode.read_bytes()[:-5000])
    where = ["--format", "aloha", "--task", "cube_stack", "--source", "robot_success", "--out", str(tmp_path / "s")]
    assert main(["import", str(episode), *where]) == 2
    assert "cannot be read as HDF5" in capsys.readouterr().err
    (tmp_path / "notes.hdf5").write_text("not HDF5 at all")
    assert main(["import", str(tmp_path / "notes.hdf5"), *where]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("names", [("episode_0", "episode_1", "episode_2"), ("cup", "disk", "spoon")])
def test_a_file_that_is_mended_is_added_and_changes_no_other_episode(tmp_path, expected, names, capsys):
    home = tmp_path / "set"
    home.mkdir()
    for name in names:
        write_raw(home / f"{name}.hdf5", expected)
    whole = (home / f"{names[1]}.hdf5").read_bytes()
    (home / f"{names[1]}.hdf5").write_bytes(whole[:-5000])
    said = ["--format", "aloha", "--task", "cube_stack", "--source", "robot_success", "--workers", "1"]
    said += ["--gripper-range", "state=0.02,0.058", "action=-0.6,1.4", "--out", str(tmp_path / "store")]
    assert main(["import", str(home), *said]) == 1
    assert EpisodeStore(tmp_path / "store").ids() == ["set-000000", "set-000002"]
    (home / f"{names[1]}.hdf5").write_bytes(whole)
    assert main(["import", str(home), *said]) == 0
    assert EpisodeStore(tmp_path / "store").ids() == ["set-000000", "set-000001", "set-000002"]


def test_link_to_a_file_elsewhere_is_refused(tmp_path, episode):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "episode_0.hdf5").symlink_to(episode)
    assert "not a regular file" in refusal(tmp_path / "set" / "episode_0.hdf5")


def test_people_are_not_in_aloha_files(episode):
    from dataclasses import replace

    with pytest.raises(RecordingError, match="ALOHA files are of robots"):
        open_paths([episode], replace(WANTED, source=Source.HUMAN_RECOVERY), AlohaOptions())


def test_reader_follows_names_step_by_step(episode):
    with hdf5_reading.opened(episode) as file:
        assert hdf5_reading.names_in(file, "no/such/group") == []
        assert hdf5_reading.dataset(file, "observations/nothing") is None
