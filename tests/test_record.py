"""The recorder from the operator's keys to labels, with replayed clips in the place of cameras."""

import errno
import json
import sys
import time
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from egorecovery.audit import audit, read_ledger
from egorecovery.capture import load_recording, save_recording
from egorecovery.capture.clip_draft import ClipDraft
from egorecovery.capture.clocks import SessionClock
from egorecovery.capture.recorder import Recorder, RecordingPlan
from egorecovery.capture.recording import RawCamera, Recording
from egorecovery.capture.recording_files import load_header
from egorecovery.capture.robot_stream import RobotCommand
from egorecovery.capture.sensor_worker import SensorWorker
from egorecovery.capture.session_log import SessionLog
from egorecovery.capture.synthetic import TrackerFaults, synthetic_recording
from egorecovery.cli.main import main
from egorecovery.episodes import PAPER_TASKS, Camera, EpisodeStore, Source
from egorecovery.episodes.attempt_log import ActivityKind, AttemptLog
from egorecovery.errors import StoreError
from egorecovery.intent import labels_of
from egorecovery.recovery import propose
from egorecovery.storage.lock import WriterLock

ONE_CLIP = "wait ready\nnext\nstart\nwait end\naccept\nnext\n"
# A person's motion is smoothed once more when it is imported again; pictures and a robot's log are not touched.
WRIST_M, ANGLE_RAD, APERTURE = 0.008, 0.05, 0.08


@pytest.fixture(scope="module")
def workcell(tmp_path_factory) -> EpisodeStore:
    """One recovery by a person and one by a robot."""
    from egorecovery.workcell.collection import Order, collect

    store = EpisodeStore.create(tmp_path_factory.mktemp("workcell") / "store")
    kinds = (Source.HUMAN_RECOVERY, Source.ROBOT_RECOVERY)
    collect([Order(task="cube_stack", source=source, episodes=1, image_size=32) for source in kinds], store)
    return store


@pytest.fixture
def made(tmp_path):
    """A raw recording with depth and with frames at uneven times."""
    rng = np.random.default_rng(5)
    faults = TrackerFaults(jumps=1, gaps=0)
    recording, _ = synthetic_recording("made", PAPER_TASKS["cup_brush"], Source.HUMAN_RECOVERY, rng, faults, 16)
    head = recording.cameras[Camera.HEAD]
    depth_mm = rng.integers(0, 2000, (len(head.frames), 4, 6)).astype(np.uint16)
    deep = RawCamera(frames=head.frames, timestamps_s=head.timestamps_s, intrinsics=head.intrinsics, depth_mm=depth_mm)
    recording = Recording(**{**vars(recording), "cameras": {**recording.cameras, Camera.HEAD: deep}})
    save_recording(recording, tmp_path / "made")
    return recording, tmp_path / "made"


def record(out, clip, source, script, *more, task="cube_stack", cameras=tuple(Camera)):
    path = out.with_name("script.txt")
    path.write_text(script)
    replays = [f"{camera}=replay:{clip},speed=max" for camera in cameras]
    robot = [] if Source(source).is_human else ["--robot", f"replay:{clip},speed=max"]
    where = ["--task", task, "--source", str(source), "--out", str(out), "--script", str(path), "--operator", "ada"]
    return main(["record", *where, "--camera", *replays, *robot, "--keep-free-gb", "0", *map(str, more)])


def imported(raw, tmp_path) -> EpisodeStore:
    assert main(["import", str(raw), "--out", str(tmp_path / "imported"), "--workers", "1"]) == 0
    return EpisodeStore(tmp_path / "imported")


@pytest.mark.slow
def test_a_persons_clip_recorded_imported_annotated_and_labelled_is_the_simulated_original(workcell, tmp_path):
    original = workcell.read("cube_stack-human_recovery-s0-0000")
    assert record(tmp_path / "raw", workcell.root / original.id, original.source, ONE_CLIP) == 0
    store = imported(tmp_path / "raw", tmp_path)
    episode = store.read(store.ids()[0])
    shared = min(len(episode), len(original))
    assert shared >= len(original) - 1  # the grid ends with the stream that ends first
    for camera, stream in original.cameras.items():
        replayed = episode.cameras[camera]
        assert replayed.intrinsics == stream.intrinsics
        np.testing.assert_allclose(replayed.timestamps_s[:shared], stream.timestamps_s[:shared], atol=1e-9)
        for frame in range(shared):
            assert replayed.frames.encoded(frame).tobytes() == stream.frames.encoded(frame).tobytes()
    np.testing.assert_allclose(episode.effector_m[:shared], original.effector_m[:shared], atol=WRIST_M)
    turned = np.abs(episode.state[:shared] - original.state[:shared]).reshape(shared, 2, 7)
    assert np.minimum(turned[..., 3:6], 2 * np.pi - turned[..., 3:6]).max() < ANGLE_RAD
    assert turned[..., 6].max() < APERTURE
    assert abs(propose(store, episode.id).frame - propose(workcell, original.id).frame) <= 1

    assert main(["annotate", str(store.root), "--annotator", "ada", "--confirm-candidates"]) == 0
    assert main(["label", str(store.root), "--workers", "1"]) == 0
    labels = labels_of(store, episode.id)
    assert labels.in_recovery.sum() == propose(store, episode.id).frame + 1
    assert labels.intent_mask.any()


@pytest.mark.slow
def test_a_robots_clip_recorded_and_imported_is_the_original_value_for_value(workcell, tmp_path):
    original = workcell.read("cube_stack-robot_recovery-s0-0000")
    assert record(tmp_path / "raw", workcell.root, original.source, ONE_CLIP) == 0
    store = imported(tmp_path / "raw", tmp_path)
    episode = store.read(store.ids()[0])
    assert len(episode) == len(original)
    for stream in ("state", "action", "effector_m", "effector_state", "effector_action"):
        np.testing.assert_allclose(getattr(episode, stream), getattr(original, stream), atol=1e-6)
    np.testing.assert_array_equal(episode.reliable, original.reliable)
    for camera, stream in original.cameras.items():
        np.testing.assert_array_equal(episode.cameras[camera].frames.decode(), stream.frames.decode())


def test_a_replayed_raw_recording_is_recorded_byte_for_byte_with_its_depth_and_its_hands(made, tmp_path):
    original, clip = made
    assert record(tmp_path / "raw", clip, original.source, ONE_CLIP, task="cup_brush") == 0
    again = load_recording(next((tmp_path / "raw").glob("*/recording.json")).parent)
    first_s = min(float(clock[0]) for clock in original.clocks().values())
    for camera, raw in original.cameras.items():
        assert again.cameras[camera].frames.packed.tobytes() == raw.frames.packed.tobytes()
        np.testing.assert_allclose(again.cameras[camera].timestamps_s, raw.timestamps_s - first_s, atol=1e-9)
    np.testing.assert_array_equal(again.cameras[Camera.HEAD].depth_mm, original.cameras[Camera.HEAD].depth_mm)
    for name in ("keypoints_m", "wrist_rotation", "confidence"):
        np.testing.assert_array_equal(getattr(again.motion, name), getattr(original.motion, name))
    assert again.provenance.details["replay_of"] == "made"


def test_hands_tracked_afterwards_keep_who_recorded_the_clip_when_and_at_what_cost(made, tmp_path, capsys):
    original, clip = made
    script = ONE_CLIP + "start\nwait end\ndiscard\n"
    assert record(tmp_path / "raw", clip, original.source, script, task="cup_brush") == 0
    [recorded] = [path.parent for path in (tmp_path / "raw").glob("*/recording.json")]
    tracked = load_recording(recorded).motion
    (recorded / "hands.npz").unlink()  # a camera's hands are tracked later
    (tmp_path / "tracks").mkdir()
    np.savez(
        tmp_path / "tracks" / f"{recorded.name}.npz",
        timestamps_s=tracked.timestamps_s,
        keypoints=tracked.keypoints_m,
        wrist_rotation=tracked.wrist_rotation,
        confidence=tracked.confidence,
        keypoint_order=np.array("mano"),
        units=np.array("m"),
        frame=np.array("workspace"),
        tracker=np.array("mine"),
    )
    said = ["--hands", str(tmp_path / "tracks"), "--out", str(tmp_path / "store"), "--workers", "1"]
    assert main(["import", str(tmp_path / "raw"), *said, "--operator", "bob"]) == 2
    assert "--operator: recordings say it themselves" in capsys.readouterr().err
    assert main(["import", str(tmp_path / "raw"), *said]) == 0

    header, store = load_header(recorded), EpisodeStore(tmp_path / "store")
    episode = store.read(header.id)
    assert (episode.task, episode.source) == (header.task, header.source)
    kept = replace(episode.provenance, details=header.provenance.details)
    assert kept == header.provenance
    assert header.provenance.details.items() < episode.provenance.details.items()
    assert episode.provenance.details["tracker"] == "mine"
    assert {camera: stream.intrinsics for camera, stream in episode.cameras.items()} == header.intrinsics
    in_raw, in_store = (audit(read_ledger([tmp_path / folder])) for folder in ("raw", "store"))
    assert in_raw == in_store
    assert [(one.accepted, one.discarded) for one in in_store[0].accounts] == [(1, 1)]


def test_every_second_of_a_session_is_booked_once(made, tmp_path):
    script = (
        "wait ready\nwait 0.1\nnext\nstart\nwait end\naccept\nwait 0.1\nnext\npause\nwait 0.1\nnext\n"
        "start\nwait end\ndiscard\nstart\nwait end\naccept\n"
    )
    assert record(tmp_path / "raw", made[1], Source.HUMAN_RECOVERY, script, task="cup_brush") == 0
    log = AttemptLog(tmp_path / "raw" / "collection.jsonl")
    assert [attempt.accepted for attempt in log.attempts()] == [True, False, True]
    spans = [(datetime.fromisoformat(a.started_at), datetime.fromisoformat(a.stopped_at)) for a in log.activities()]
    for attempt in log.attempts():
        started, stopped = (datetime.fromisoformat(text) for text in (attempt.started_at, attempt.stopped_at))
        spans.append((started - timedelta(seconds=attempt.staging_s), stopped + timedelta(seconds=attempt.reset_s)))
    for (_, before), (after, _) in pairwise(sorted(spans)):
        assert abs((after - before).total_seconds()) < 0.005
    assert {activity.kind for activity in log.activities()} == set(ActivityKind)
    assert all(attempt.operator == "simulated ada" for attempt in log.attempts())


def test_a_discarded_clip_leaves_its_time_and_no_frames_and_import_takes_the_time_over(made, tmp_path):
    script = ONE_CLIP + "start\nwait end\ndiscard\n"
    assert record(tmp_path / "raw", made[1], Source.HUMAN_RECOVERY, script, task="cup_brush") == 0
    assert len(list((tmp_path / "raw").glob("*/recording.json"))) == 1
    assert not any((tmp_path / "raw" / ".drafts").iterdir())
    store = imported(tmp_path / "raw", tmp_path)
    logged = AttemptLog(tmp_path / "raw" / "collection.jsonl")
    imported(tmp_path / "raw", tmp_path)  # again: nothing is counted twice
    assert {a.episode: a.accepted for a in store.collection.attempts()} == {
        a.episode: a.accepted for a in logged.attempts()
    }
    assert store.collection.activities() == logged.activities()
    assert store.damages_beside_episodes() == []
    described = load_recording(next((tmp_path / "raw").glob("*/recording.json")).parent).provenance
    kept = next(attempt for attempt in store.collection.attempts() if attempt.accepted)
    assert (kept.staging_s, kept.reset_s) == (described.staging_s, described.reset_s)
    assert described.reset_s > 0


def test_sessions_that_begin_in_the_same_second_replace_no_clip_of_each_other(made, tmp_path, monkeypatch):
    monkeypatch.setattr(SessionClock, "calendar", lambda clock, moment_s: "2026-11-19T12:00:00.000+00:00")
    for _ in range(2):
        assert record(tmp_path / "raw", made[1], Source.HUMAN_RECOVERY, ONE_CLIP, task="cup_brush") == 0
    names = sorted(path.parent.name[-4:] for path in (tmp_path / "raw").glob("*/recording.json"))
    assert names == ["0001", "0002"]
    assert not any((tmp_path / "raw" / ".drafts").iterdir())


def test_a_clip_is_never_committed_onto_another_recording(tmp_path):
    other = tmp_path / "clip" / "recording.json"
    other.parent.mkdir()
    other.write_text("another")
    draft = ClipDraft.begin(tmp_path, "clip", {})
    with pytest.raises(OSError, match="not empty"):
        draft.commit({}, "recording.json")
    assert other.read_text() == "another"
    assert draft.directory.is_dir()


def test_a_clip_that_nobody_judged_is_discarded_when_the_script_ends(made, tmp_path):
    assert record(tmp_path / "raw", made[1], Source.HUMAN_RECOVERY, "wait ready\nstart\n", task="cup_brush") == 0
    assert [(a.accepted, a.reasons) for a in AttemptLog(tmp_path / "raw" / "collection.jsonl").attempts()] == [
        (False, ("the recorder was ended before the clip was accepted",))
    ]


def test_no_clip_starts_on_a_disk_that_is_too_full(made, tmp_path, capsys):
    script = "wait ready\nstart\nquit\n"
    record(tmp_path / "raw", made[1], Source.HUMAN_RECOVERY, script, "--keep-free-gb", "1e9", task="cup_brush")
    assert "GB free on the disk" in capsys.readouterr().out
    assert not list((tmp_path / "raw").glob("*/recording.json"))


@pytest.mark.parametrize("failing", ["save", "sync"])
def test_a_clip_that_finds_the_disk_full_is_discarded_and_the_session_goes_on(
    made, tmp_path, capsys, monkeypatch, failing
):
    fails = iter([True])

    def full_once(*arguments, **options):
        if next(fails, False):
            raise OSError(errno.ENOSPC, "no space left")
        return whole(*arguments, **options)

    if failing == "save":
        whole = np.save
        monkeypatch.setattr(np, "save", full_once)
    else:
        from egorecovery.capture import clip_draft

        whole = clip_draft.sync_file
        monkeypatch.setattr(clip_draft, "sync_file", full_once)
    assert record(tmp_path / "raw", made[1], Source.HUMAN_RECOVERY, ONE_CLIP * 2, task="cup_brush") == 0
    assert "the disk is full" in capsys.readouterr().out
    attempts = AttemptLog(tmp_path / "raw" / "collection.jsonl").attempts()
    assert [attempt.accepted for attempt in attempts] == [False, True]
    assert len(list((tmp_path / "raw").glob("*/recording.json"))) == 1


def test_a_clip_whose_acceptance_finds_the_disk_full_is_kept_until_there_is_room(made, tmp_path, capsys, monkeypatch):
    from egorecovery.capture import clip_draft

    fails, whole = iter([True]), clip_draft.write_description

    def full_once(path, description):
        if next(fails, False):
            raise StoreError(f"{path}: the disk is full") from OSError(errno.ENOSPC, "no space left")
        whole(path, description)

    monkeypatch.setattr(clip_draft, "write_description", full_once)
    script = ONE_CLIP.replace("accept", "accept\naccept")
    assert record(tmp_path / "raw", made[1], Source.HUMAN_RECOVERY, script, task="cup_brush") == 0
    assert "cannot accept it yet, it is kept: free space, then accept or discard" in capsys.readouterr().out
    assert [attempt.accepted for attempt in AttemptLog(tmp_path / "raw" / "collection.jsonl").attempts()] == [True]
    assert len(imported(tmp_path / "raw", tmp_path)) == 1


ACCEPTED_AND_ENDED = "wait ready\nstart\nwait end\naccept\n"


def failing_renames(monkeypatch, how_often):
    """The first renames of drafts to recordings fail, for another reason than a full disk."""
    fails, whole = iter([True] * how_often), Path.rename

    def rename(path, target):
        if path.parent.name == ".drafts" and target.parent.name == "raw" and next(fails, False):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return whole(path, target)

    monkeypatch.setattr(Path, "rename", rename)


def test_an_accepted_clip_is_committed_when_the_recorder_ends_if_it_is_possible_by_then(
    made, tmp_path, capsys, monkeypatch
):
    failing_renames(monkeypatch, 1)
    assert record(tmp_path / "raw", made[1], Source.HUMAN_RECOVERY, ACCEPTED_AND_ENDED, task="cup_brush") == 0
    said = capsys.readouterr().out
    assert "it is kept: mend what failed, then accept or discard" in said  # the disk is not full
    assert "1 clip recorded, 0 discarded" in said
    assert len(imported(tmp_path / "raw", tmp_path)) == 1


@pytest.mark.parametrize("failing", ["description", "rename"])
def test_an_accepted_clip_that_never_finds_room_stays_and_can_be_finished_by_hand(
    made, tmp_path, capsys, monkeypatch, failing
):
    from egorecovery.capture import clip_draft

    def full(path, description):
        raise StoreError(f"{path}: the disk is full") from OSError(errno.ENOSPC, "no space left")

    raw = tmp_path / "raw"
    with monkeypatch.context() as broken:
        if failing == "description":
            broken.setattr(clip_draft, "write_description", full)
        else:
            failing_renames(broken, 2)
        assert record(raw, made[1], Source.HUMAN_RECOVERY, ACCEPTED_AND_ENDED, task="cup_brush") == 1
    said = capsys.readouterr()
    [kept] = (raw / ".drafts").iterdir()
    assert f"{kept.stem} was accepted, but: " in said.err
    assert f"It is kept in {kept}. " in said.err
    [described] = [line for line in said.out.splitlines() if line.startswith("{")]

    record(raw, made[1], Source.HUMAN_RECOVERY, "wait ready\nquit\n", task="cup_brush")
    assert f"{kept} was accepted and could not be finished" in capsys.readouterr().err
    assert kept.exists()  # the next recorder leaves it alone
    (kept / "recording.json").write_text(described)
    kept.rename(raw / kept.stem)
    record(raw, made[1], Source.HUMAN_RECOVERY, "wait ready\nquit\n", task="cup_brush")
    assert [attempt.accepted for attempt in AttemptLog(raw / "collection.jsonl").attempts()] == [True]
    assert len(imported(raw, tmp_path)) == 1


def test_a_clip_that_could_not_be_accepted_may_still_be_discarded(made, tmp_path, monkeypatch):
    failing_renames(monkeypatch, 1)
    script = ACCEPTED_AND_ENDED + "discard\n"
    assert record(tmp_path / "raw", made[1], Source.HUMAN_RECOVERY, script, task="cup_brush") == 0
    assert [attempt.accepted for attempt in AttemptLog(tmp_path / "raw" / "collection.jsonl").attempts()] == [False]
    assert not any((tmp_path / "raw" / ".drafts").iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--camera"], "--camera needs at least one value"),
        (["--camera", "head=webcam:0"], "NAME=DRIVER:TARGET"),
        (["--camera", "chest=uvc:/dev/video0"], "NAME is one of head, left_wrist, right_wrist"),
        (["--camera", "head=uvc:/dev/no-such-camera"], "/dev/no-such-camera is not there; "),
        (["--camera", "head=uvc:/dev/null"], "/dev/null is no camera; "),
        (["--camera", "head=uvc:"], "name the device, as in head=uvc:/dev/video0; "),
        (["--camera", "head=orbbec:,python={python}"], "-m pip install pyorbbecsdk2"),
        (["--camera", "head=uvc:/dev/video0,speed=max"], "option 'speed' is not known"),
        (["--camera", "head=uvc:/dev/video0,size=640"], "must be WIDTHxHEIGHT"),
        (["--camera", "head=orbbec:"], "name the Python that has pyorbbecsdk2"),
        (["--camera", "head=replay:/no/such/place"], "clip to replay there"),
        (["--camera", "head=replay:{made},speed=2"], "must be 1 (real time) or max"),
        (["--camera", "head=replay:{made}", "head=replay:{made}"], "names one camera twice"),
        (["--keys", "accept=d"], "would mean both"),
        (["--keys", "jump=x"], "ACTION is one of"),
        (["--keys", "accept=f77"], "is no key"),
        (["--robot", "replay:{made}"], "takes no --robot"),
        (["--source", "robot_recovery"], "needs --robot"),
        (["--operator", "simulated ada"], "are for replays"),
        (["--task", "pour_tea"], "name its active sides"),
    ],
)
def test_bad_options_are_refused_with_advice_and_leave_nothing_behind(made, tmp_path, capsys, change, message):
    usual = {
        "--camera": [f"head=replay:{made[1]}"],
        "--task": ["cup_brush"],
        "--source": ["human_recovery"],
        "--out": [str(tmp_path / "raw")],
        "--script": ["/dev/null"],
    }
    option, *values = (text.replace("{made}", str(made[1])).replace("{python}", sys.executable) for text in change)
    arguments = [word for name, words in {**usual, option: values}.items() for word in (name, *words)]
    assert main(["record", *arguments]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "raw").exists()


def test_what_is_waited_for_is_said_with_the_reason(tmp_path):
    clock, task = SessionClock(), PAPER_TASKS["cup_brush"]
    plan = RecordingPlan(task=task, source=Source.ROBOT_RECOVERY, operator="ada")
    robot = SensorWorker("robot", RobotCommand(f"{sys.executable} -c raise(SystemExit(3))", 50.0), lambda: None)
    while not robot.lost:
        time.sleep(0.001)
    log = SessionLog(tmp_path, plan.task, plan.source, plan.operator, clock)
    recorder = Recorder(plan, tmp_path, {}, robot, clock, log)
    recorder.tick()
    recorder.close()
    assert recorder.last.startswith("waiting for robot: command:")
    assert recorder.last.endswith("ended after 0 lines (exit code 3)")


def test_a_script_with_a_word_that_is_no_action_is_refused_with_its_line(made, tmp_path, capsys):
    assert record(tmp_path / "raw", made[1], Source.HUMAN_RECOVERY, "wait ready\nfly\n", task="cup_brush") == 2
    assert "script.txt line 2: 'fly' is none of start" in capsys.readouterr().err


def test_two_recorders_do_not_share_a_folder(made, tmp_path, capsys):
    (tmp_path / "raw").mkdir()
    with WriterLock(tmp_path / "raw" / "writer.lock"):
        assert record(tmp_path / "raw", made[1], Source.HUMAN_RECOVERY, ONE_CLIP, task="cup_brush") == 2
    assert "is being written by" in capsys.readouterr().err


def test_recordings_of_before_the_recorder_are_read_as_they_were(made, tmp_path):
    described = json.loads((made[1] / "recording.json").read_text())
    assert set(described) == {
        "format", "schema", "id", "task", "active", "source", "cameras", "provenance", "keypoint_order"
    }  # fmt: skip
    assert described["schema"] == 1
    assert len(load_recording(made[1]).cameras) == 3
