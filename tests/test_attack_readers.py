"""Files that a person names, or that lie in a stranger's folder, beside stores and runs: bounded, contained, typed."""

import json
import shutil

import numpy as np
import pytest

from attacks import DEEP, fifo, listing, replace_by_link, reseal, victim, within_s
from egorecovery.capture import load_recording
from egorecovery.capture.clip_draft import DRAFTS
from egorecovery.capture.formats.hdf5_reading import names_in, opened
from egorecovery.capture.formats.placement import Placement
from egorecovery.capture.formats.zarr_reading import ZarrGroup
from egorecovery.capture.hand_tracking.clip_tracking import camera_poses
from egorecovery.capture.robot_stream import parse_sample
from egorecovery.capture.session_log import clear_leftovers
from egorecovery.capture.video_file import opened_video
from egorecovery.errors import CaptureError, EgoRecoveryError, KinematicsError, LimitsError, RecordingError, RobotError
from egorecovery.evaluation.results import ResultFile
from egorecovery.evaluation.rollout_videos import rollout_videos
from egorecovery.kinematics.robot_file import load_arms
from egorecovery.robot import read_limits
from egorecovery.robot.motion import read_motion
from egorecovery.studio.scoring import Ratings, ScoringError, criteria_for, open_session
from fuzzed_readers import READERS
from robot_limits import FOLDER as LIMITS

pytestmark = pytest.mark.fault


@pytest.fixture
def mine(tmp_path):
    return victim(tmp_path / "mine")


def made(name, tmp_path):
    root = tmp_path / name
    root.mkdir()
    READERS[name].make(root)
    return root


NAMED = {
    "robot.json": (load_arms, KinematicsError),
    "limits.json": (read_limits, LimitsError),
    "placement.json": (Placement.load, RecordingError),
    "criteria.json": (lambda path: criteria_for(["mine"], path), ScoringError),
    "motion.npz": (read_motion, RobotError),
    "poses.npy": (lambda path: camera_poses(path, 3), RecordingError),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_file_that_is_a_pipe_a_folder_a_device_deep_or_gone_is_one_typed_error_at_once(name, tmp_path):
    read, kind = NAMED[name]
    path = tmp_path / name
    with pytest.raises(kind, match=name):
        read(path)
    for spoil in (
        fifo,
        lambda path: path.mkdir(),
        lambda path: replace_by_link(path, "/dev/zero"),
        lambda path: path.write_bytes(DEEP),
        lambda path: path.write_bytes(b'{"schema": 1, "schema": 1}'),
        lambda path: path.write_bytes(b"\xff\xfe"),
    ):
        spoil(path)
        with within_s(60), pytest.raises(kind):
            read(path)
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_named_file_may_be_a_link_for_it_is_the_readers_own_choice(tmp_path):
    (tmp_path / "limits.json").symlink_to(LIMITS / "workcell.json")
    assert read_limits(tmp_path / "limits.json") == read_limits(LIMITS / "workcell.json")


def test_number_that_no_float_can_hold_is_refused_wherever_a_number_is_wanted(tmp_path):
    """Found by fuzzing."""
    huge = 10**400
    record = json.loads((LIMITS / "workcell.json").read_text())
    record["ramp_in_s"] = huge
    (tmp_path / "limits.json").write_text(json.dumps(record))
    with pytest.raises(LimitsError, match="ramp_in_s"):
        read_limits(tmp_path / "limits.json")
    matrix = np.eye(4).tolist()
    matrix[0][0] = huge
    (tmp_path / "placement.json").write_text(json.dumps({"workspace_from_data": matrix}))
    with pytest.raises(RecordingError, match="four rows of four numbers"):
        Placement.load(tmp_path / "placement.json")
    sample = {"captured_s": 1.0, "state": [0.0] * 14, "action": [0.0] * 14, "effector_m": [[0.0] * 3] * 2}
    for name, value in (("captured_s", huge), ("state", [huge] * 14)):
        with pytest.raises(CaptureError, match=name):
            parse_sample(json.dumps({**sample, name: value}).encode(), "line 1")
    root = made("results", tmp_path)
    reseal_line(root / "results.jsonl", lambda line: line.update(intent_trace=[[huge]]))
    with pytest.raises(EgoRecoveryError, match="intent_trace"):
        ResultFile(root / "results.jsonl").records()
    root = made("robot", tmp_path)
    record = json.loads((root / "robot.json").read_text())
    for change in ({"base": {"position_m": [huge, 0, 0]}}, {"axes": {"approach": [], "opening": "+y"}}):
        (root / "robot.json").write_text(json.dumps({**record, "left": {**record["left"], **change}}))
        with pytest.raises(KinematicsError):
            load_arms(root / "robot.json")


def reseal_line(path, change):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0])
    reseal(path, change)
    path.write_bytes(path.read_bytes() + b"".join(lines[1:]))


def test_recorder_clears_no_folder_that_a_link_among_its_drafts_points_to(tmp_path, mine):
    """F1 again, in another place: a folder of recordings whose .drafts leads elsewhere."""
    before = listing(mine)
    root = made("drafts", tmp_path)
    replace_by_link(root / DRAFTS, mine)
    with pytest.raises(EgoRecoveryError, match="link"):
        clear_leftovers(root)
    (root / DRAFTS).unlink()
    (root / DRAFTS).mkdir()
    (root / DRAFTS / "one").symlink_to(mine / "inner")
    (mine / "inner" / "begun.json").write_text("{}")
    (root / "clip").symlink_to(mine / "inner")
    clear_leftovers(root)
    assert listing(mine) == before | {"inner/begun.json": b"{}"}


@pytest.mark.parametrize("text", ["{}", "[]", DEEP.decode(), '{"episode": 7}', '{"episode": "one", "started_at": "x"}'])
def test_draft_that_says_nonsense_of_itself_is_cleared_and_not_logged(tmp_path, text):
    root = made("drafts", tmp_path)
    (root / DRAFTS / "one" / "begun.json").write_text(text)
    assert clear_leftovers(root) == ["one"]
    assert not (root / DRAFTS / "one").exists()


def test_playlist_under_a_videos_name_is_no_video_and_opens_nothing_that_it_lists(tmp_path, mine):
    """FFmpeg would take it for a list of files, and follow links among them."""
    from av.error import FFmpegError

    from test_hand_tracking import write_video

    write_video(mine / "private.mp4")
    (tmp_path / "y.mp4").symlink_to(mine / "private.mp4")
    (tmp_path / "x.mp4").write_text("ffconcat version 1.0\nfile 'y.mp4'\n")
    with pytest.raises(FFmpegError), opened_video(tmp_path / "x.mp4"):
        pass
    with pytest.raises(RecordingError, match="link"), opened_video(tmp_path / "y.mp4"):
        pass
    with opened_video(tmp_path / "y.mp4", named=True) as container:
        assert container.streams.video
    root = made("recording", tmp_path)
    head = root / "clip" / "head"
    shutil.rmtree(head / "rgb")
    shutil.copy(tmp_path / "x.mp4", head / "rgb.mp4")
    shutil.copy(tmp_path / "y.mp4", head / "y.mp4")
    with pytest.raises(RecordingError, match="cannot be decoded"):
        load_recording(root / "clip")


def test_pipe_in_a_zarr_group_is_refused_at_once(tmp_path):
    """It was waited for."""
    root = made("egoverse", tmp_path) / "ep.zarr"
    chunk = next(path for path in (root / "left.gripper").rglob("*") if path.is_file() and path.name != "zarr.json")
    fifo(chunk)
    with within_s(60), pytest.raises(RecordingError, match="special file"):
        ZarrGroup.at(root).numbers("left.gripper", 20, 1)
    fifo(root / "zarr.json")
    with within_s(60), pytest.raises(RecordingError, match="named pipe"):
        ZarrGroup.at(root)


def test_zarr_header_and_hdf5_names_of_other_types_are_refused(tmp_path):
    """Found by fuzzing."""
    import h5py

    root = made("egoverse", tmp_path) / "ep.zarr"
    header = json.loads((root / "left.gripper" / "zarr.json").read_text())
    header["chunk_grid"]["configuration"] = []
    (root / "left.gripper" / "zarr.json").write_text(json.dumps(header))
    with pytest.raises(RecordingError, match="chunks"):
        ZarrGroup.at(root).width("left.gripper")
    with h5py.File(tmp_path / "odd.hdf5", "w") as file:
        file.create_group(b"images/\xff\xfe")
        file.create_group("images/cam_high")
    with opened(tmp_path / "odd.hdf5") as file, pytest.raises(RecordingError, match="no text"):
        names_in(file, "images")


def test_list_of_films_shows_videos_and_no_other_file(tmp_path, mine):
    root = made("results", tmp_path)
    films = json.loads((root / "films.json").read_text())
    keys = list(films)
    films[keys[0]], films[keys[1]] = str(mine / "thesis.txt"), "../../etc/passwd"
    (root / "films.json").write_text(json.dumps(films))
    assert [one.film.name for one in rollout_videos(root).rollouts] == ["2.mp4"]
    (root / "2.mp4").unlink()
    (root / "2.mp4").symlink_to(mine / "thesis.txt")
    assert rollout_videos(root).rollouts == ()
    for wrong in ("[]", '{"a": 7}', DEEP.decode()):
        (root / "films.json").write_text(wrong)
        assert "films.json" in rollout_videos(root).left_out[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan["videos"][0].update(id="../../mine/private"),
        lambda plan: plan["videos"][0].update(id=7),
        lambda plan: plan["videos"][0]["facts"].update(rate_hz=0),
        lambda plan: plan.update(raters=10**400),
        lambda plan: plan.update(criteria={}),
        lambda plan: plan.pop("videos"),
        lambda plan: plan.update(surprise=1),
    ],
)
def test_plan_of_a_scoring_session_that_nobodys_program_wrote_is_one_error(tmp_path, change):
    root = made("session", tmp_path) / "session"
    open_session(root)
    reseal(root / "plan.json", change)
    with pytest.raises(EgoRecoveryError, match="plan"):
        open_session(root)


def test_ratings_that_undo_what_nobody_said_or_have_other_types_are_one_error(tmp_path):
    session = open_session(made("session", tmp_path) / "session")
    lines = session.journal.records()
    Ratings(session.plan, lines)
    for wrong in ([lines[-1]], [{**lines[0], "revision": None}], [{**lines[0], "kind": 7}], [{"kind": "rating"}]):
        with pytest.raises(EgoRecoveryError, match="line 1"):
            Ratings(session.plan, wrong)


def test_training_writes_through_no_link_in_a_strangers_run(tmp_path, mine):
    from egorecovery.experiments.training_process import TrainingProcess
    from egorecovery.experiments.trainings import TrainingJob
    from egorecovery.training.logs import RunLog
    from tiny_experiment import recipe

    before = listing(mine)
    run = tmp_path / "run"
    run.mkdir()
    (run / "tensorboard").symlink_to(mine)
    (run / "output.txt").symlink_to(mine / "thesis.txt")
    with pytest.raises(EgoRecoveryError, match="tensorboard"):
        RunLog(run)
    with pytest.raises(EgoRecoveryError, match=r"output\.txt"):
        TrainingProcess(TrainingJob(recipe=recipe("cube_stack"), store=tmp_path / "store", run=run))
    assert listing(mine) == before
