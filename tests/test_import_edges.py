"""What real recordings have wrong with them: each is said with its file, and never costs the others."""

import json
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import av
import jaxtyping
import numpy as np
import pytest
import simplejpeg
from scipy.spatial.transform import Rotation

from egorecovery.capture import find_recordings, import_recording, load_recording, save_recording, to_episode
from egorecovery.capture.importing import Outcome, import_recordings
from egorecovery.capture.synthetic import TrackerFaults, synthetic_recording
from egorecovery.cli.main import main
from egorecovery.episodes import PAPER_TASKS, Camera, EpisodeStore, Source
from egorecovery.episodes.attempt_log import Attempt
from egorecovery.errors import MotionError, RecordingError

TASK = PAPER_TASKS["round_disk"]
CLEAN = TrackerFaults(jumps=0, gaps=0)


def made(name="clip", source=Source.HUMAN_RECOVERY, seed=0):
    return synthetic_recording(name, TASK, source, np.random.default_rng(seed), CLEAN, image_size=16)[0]


@pytest.fixture
def saved(tmp_path):
    save_recording(made(), tmp_path / "raw" / "clip")
    return tmp_path / "raw" / "clip"


@pytest.fixture
def store(tmp_path):
    return EpisodeStore.create(tmp_path / "store")


@pytest.fixture
def as_users_run_it():
    """Without the shape checker of the tests, which would speak before the recording does."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def outcome_of(store, directory):
    with store.writing() as writer:
        return import_recording(writer, directory)


def refusal(saved):
    with pytest.raises(RecordingError) as error:
        load_recording(saved)
    return str(error.value)


def change_hands(saved, **changes):
    """Each change maps an array of hands.npz to what it should be."""
    with np.load(saved / "hands.npz") as archive:
        streams = dict(archive)
    for name, change in changes.items():
        streams[name] = change(streams[name].copy())
    np.savez(saved / "hands.npz", **streams)


def change_clock(saved, change, stream="head"):
    path = saved / stream / "timestamps_s.npy"
    np.save(path, change(np.load(path)))


def describe(saved, change):
    path = saved / "recording.json"
    described = json.loads(path.read_text())
    change(described)
    path.write_text(json.dumps(described))


# Damaged files


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.6, 0.95, 0.999])
def test_hands_cut_short_anywhere_are_unreadable_by_name(saved, share):
    whole = (saved / "hands.npz").read_bytes()
    (saved / "hands.npz").write_bytes(whole[: int(share * len(whole))])
    assert f"{saved / 'hands.npz'} cannot be read" in refusal(saved)


@pytest.mark.parametrize("compressed", [False, True])
def test_hands_with_overwritten_bytes_load_whole_or_are_unreadable_by_name(saved, compressed, rng):
    with np.load(saved / "hands.npz") as archive:
        (np.savez_compressed if compressed else np.savez)(saved / "hands.npz", **archive)
    whole = (saved / "hands.npz").read_bytes()
    for _ in range(60):
        spoiled = bytearray(whole)
        start = int(rng.integers(len(whole)))
        spoiled[start : start + 8] = rng.bytes(8)
        (saved / "hands.npz").write_bytes(spoiled)
        try:
            load_recording(saved)
        except RecordingError as error:
            assert "hands.npz" in str(error)  # noqa: PT017 - a lucky overwrite may leave the file whole


def test_an_array_whose_header_is_overwritten_is_unreadable_by_name(saved):
    path = saved / "head" / "timestamps_s.npy"
    path.write_bytes(path.read_bytes().replace(b"}", b"(", 1))
    assert f"{path} cannot be read" in refusal(saved)


def test_an_archive_where_one_array_is_wanted_is_refused(saved):
    (saved / "head" / "timestamps_s.npy").write_bytes((saved / "hands.npz").read_bytes())
    assert "timestamps_s.npy is an archive" in refusal(saved)


def test_one_array_where_an_archive_is_wanted_is_refused(saved):
    (saved / "hands.npz").write_bytes((saved / "head" / "timestamps_s.npy").read_bytes())
    assert "hands.npz holds a single array" in refusal(saved)


def test_words_where_numbers_are_wanted_are_refused(saved):
    change_hands(saved, confidence=lambda confidence: confidence.astype(str))
    assert "hands.npz: confidence must hold numbers" in refusal(saved)


def test_arrays_of_the_wrong_shape_are_attributed_to_their_file(saved, as_users_run_it):
    change_hands(saved, keypoints_m=lambda points: points[:, :, :20])
    assert f"{saved / 'hands.npz'}: keypoints_m must have shape" in refusal(saved)


def test_timestamps_in_a_column_are_refused(saved, as_users_run_it):
    change_clock(saved, lambda clock: clock[:, None])
    assert "timestamps_s must have shape (N,)" in refusal(saved)


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-100])


def garbage(path):
    path.write_bytes(b"not a picture" * 40)


def png(path):
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(400))


def empty(path):
    path.write_bytes(b"")


def another_size(path):
    path.write_bytes(simplejpeg.encode_jpeg(np.zeros((24, 16, 3), np.uint8), colorspace="RGB"))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut_short, "is cut short"),
        (garbage, "not a JPEG"),
        (png, "not a JPEG"),
        (empty, "not a JPEG"),
        (another_size, "has 16 x 24 pixels"),
    ],
)
def test_a_bad_picture_anywhere_in_a_stream_is_named(saved, spoil, message):
    path = saved / "left_wrist" / "rgb" / "000007.jpg"
    spoil(path)
    said = refusal(saved)
    assert str(path) in said
    assert message in said


def test_a_picture_that_declares_billions_of_pixels_is_refused_unread(saved):
    for path in (saved / "head" / "rgb").iterdir():
        encoded = bytearray(path.read_bytes())
        size = encoded.index(b"\xff\xc0") + 5  # of the frame header: height, width
        encoded[size : size + 4] = (65500).to_bytes(2) * 2
        path.write_bytes(encoded)
    describe(saved, lambda d: d["cameras"]["head"].update(width=65500, height=65500))
    assert "declares 65500 x 65500 pixels, at most 17 million are read" in refusal(saved)


def test_a_picture_with_a_whole_header_and_a_damaged_body_is_named(saved, store):
    path = saved / "head" / "rgb" / "000005.jpg"
    encoded = bytearray(path.read_bytes())
    encoded[-60:-2] = b"\xff\xd3" * 29
    path.write_bytes(encoded)
    outcome = outcome_of(store, saved)
    assert outcome.outcome is Outcome.UNREADABLE
    assert f"{path}: frame 5 is not a readable JPEG" in outcome.reasons[0]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_video_cut_short_is_unreadable(saved, share):
    write_video(saved / "head", 20)
    video = saved / "head" / "rgb.mp4"
    whole = video.read_bytes()
    video.write_bytes(whole[: int(share * len(whole))])
    assert f"{video} cannot be decoded" in refusal(saved)


def write_video(directory, frames):
    with av.open(str(directory / "rgb.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width = stream.height = 16
        stream.pix_fmt = "yuv420p"
        for index in range(frames):
            image = np.full((16, 16, 3), index, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())


def test_video_is_encoded_picture_by_picture(saved, monkeypatch):
    from egorecovery.capture import recording_images

    frames = made().cameras[Camera.HEAD].frames

    def encode(images):
        assert iter(images) is images, "a list would hold every picture of the video at once"
        assert next(images).shape == (16, 16, 3)
        return frames

    monkeypatch.setattr(recording_images.JpegFrames, "encode", encode)
    write_video(saved / "head", 20)
    load_recording(saved)


def test_depth_is_mapped_and_checked(saved, as_users_run_it):
    frames = len(list((saved / "head" / "rgb").iterdir()))
    np.save(saved / "head" / "depth_mm.npy", np.ones((frames, 8, 8), np.uint16))
    depth_mm = load_recording(saved).cameras[Camera.HEAD].depth_mm
    assert isinstance(depth_mm, np.memmap)
    np.save(saved / "head" / "depth_mm.npy", np.ones((frames, 8, 8), np.float32))
    assert "depth_mm.npy must be uint16" in refusal(saved)


def test_truncated_depth_is_unreadable_by_name(saved):
    frames = len(list((saved / "head" / "rgb").iterdir()))
    np.save(saved / "head" / "depth_mm.npy", np.ones((frames, 8, 8), np.uint16))
    cut_short(saved / "head" / "depth_mm.npy")
    assert "depth_mm.npy cannot be read" in refusal(saved)


# Orientations


def test_a_wrist_rotation_that_is_no_rotation_counts_as_not_seen(saved):
    def spoil(rotation):
        rotation[10:40, 1] = 0.0
        rotation[50, 0] *= -1
        return rotation

    change_hands(saved, wrist_rotation=spoil)
    episode = to_episode(load_recording(saved))
    assert not episode.reliable[:, 1].all()
    assert episode.reliable[:, 0].all()  # one frame is bridged
    assert np.isfinite(episode.state).all()


def test_a_hand_that_is_mirrored_most_of_the_time_is_refused_with_the_remedy(saved):
    mirror = np.diag([-1.0, 1.0, 1.0])

    def spoil(rotation):
        rotation[5:, 0] = mirror @ rotation[5:, 0]
        return rotation

    change_hands(saved, wrist_rotation=spoil)
    said = refusal(saved)
    assert f"{saved / 'hands.npz'}: the left hand looks mirrored" in said
    assert "MANO" in said
    assert "M @ R @ M" in said
    turned = Rotation.from_matrix(mirror @ Rotation.from_rotvec([0.1, 0.2, 0.3]).as_matrix() @ mirror)
    np.testing.assert_allclose(turned.as_rotvec(), [0.1, -0.2, -0.3])  # the remedy does mirror a rotation


# Clocks


@pytest.mark.parametrize("per_second", [1e3, 1e6, 1e9, 1e-3])
@pytest.mark.parametrize("stream", ["head", "hands"])
def test_timestamps_in_other_units_are_refused(saved, per_second, stream):
    if stream == "head":
        change_clock(saved, lambda clock: clock * per_second)
    else:
        change_hands(saved, timestamps_s=lambda clock: clock * per_second)
    said = refusal(saved)
    assert "are these milliseconds or nanoseconds? seconds are wanted" in said
    assert stream in said


def test_a_log_at_a_thousand_samples_a_second_is_in_seconds():
    recording = made(source=Source.ROBOT_RECOVERY)
    times_s = np.arange(len(recording.motion.timestamps_s)) * 0.000_999
    kept = replace(recording.motion, timestamps_s=times_s)
    np.testing.assert_array_equal(kept.timestamps_s, times_s)


SPOILED_ATTEMPTS = {
    "the left hand was never seen": lambda d: change_hands(d, confidence=lambda c: c * [0, 1]),
    "head: timestamps do not increase at sample 1": lambda d: change_clock(d, np.zeros_like),
    "hands: timestamps do not increase at sample 7": lambda d: change_hands(d, timestamps_s=swap_samples),
    "timestamps are not finite": lambda d: change_clock(d, lambda clock: np.where(clock > 1, np.nan, clock)),
    "the streams do not overlap": lambda d: change_clock(d, lambda clock: clock + 100),
    "head: the clock jumps by": lambda d: (
        [change_clock(d, lambda clock: np.where(clock > 1, clock + 1.7e9, clock), camera) for camera in Camera]
        + [change_hands(d, timestamps_s=lambda clock: np.where(clock > 1, clock + 1.7e9, clock))]
    ),
    "hands: no samples": lambda d: change_hands(
        d, **dict.fromkeys(("timestamps_s", "keypoints_m", "wrist_rotation", "confidence"), lambda a: a[:0])
    ),
}


def swap_samples(clock):
    clock[[6, 7]] = clock[[7, 6]]
    return clock


@pytest.mark.parametrize("reason", SPOILED_ATTEMPTS)
def test_an_attempt_that_gives_no_motion_is_discarded_and_stays_in_the_account(saved, store, reason):
    SPOILED_ATTEMPTS[reason](saved)
    outcome = outcome_of(store, saved)
    assert outcome.outcome is Outcome.DISCARDED
    assert reason in outcome.reasons[0]
    [attempt] = store.collection.attempts()
    assert attempt == Attempt.at(made(), outcome.reasons)
    assert not attempt.accepted


def test_a_recording_made_in_memory_is_held_to_the_same_clock_rules():
    recording = made()
    backwards = replace(recording.motion, timestamps_s=swap_samples(recording.motion.timestamps_s.copy()))
    with pytest.raises(MotionError, match="hands: timestamps do not increase at sample 7"):
        to_episode(replace(recording, motion=backwards))


# Names of frames


def rename_frames(saved, name_of, camera="head"):
    frames = sorted((saved / camera / "rgb").iterdir())
    for index, path in enumerate(frames):
        path.rename(path.with_name(name_of(index)))


@pytest.mark.parametrize(
    "name_of", ["frame_{}.jpg".format, "cam0-{}.jpeg".format, "{}.JPG".format, "{}_rgb.jpg".format]
)
def test_frames_are_ordered_by_the_number_in_their_name(saved, name_of):
    before = load_recording(saved).cameras[Camera.HEAD].frames
    rename_frames(saved, name_of)
    np.testing.assert_array_equal(load_recording(saved).cameras[Camera.HEAD].frames.packed, before.packed)


def test_hidden_files_beside_the_frames_are_skipped(saved):
    before = len(load_recording(saved).cameras[Camera.HEAD].frames)
    (saved / "head" / "rgb" / "._000003.jpg").write_bytes(b"macOS")
    (saved / "head" / "rgb" / ".DS_Store").write_bytes(b"macOS")
    assert len(load_recording(saved).cameras[Camera.HEAD].frames) == before


def test_a_frame_without_a_number_or_with_that_of_another_is_refused(saved):
    frames = saved / "head" / "rgb"
    (frames / "000003.jpg").rename(frames / "last.jpg")
    assert f"{frames / 'last.jpg'} has no number in its name" in refusal(saved)
    (frames / "last.jpg").rename(frames / "4.jpg")
    assert f"{frames / '4.jpg'} and 000004.jpg have the same number" in refusal(saved)


# The description


def test_a_byte_order_mark_is_accepted(saved):
    path = saved / "recording.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_recording(saved).id == "clip"


def set_provenance(**fields):
    return lambda described: described["provenance"].update(fields)


def drop(*keys):
    def change(described):
        *path, last = keys
        for key in path:
            described = described[key]
        del described[last]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop("provenance", "started_at"), "provenance.started_at is missing"),
        (drop("provenance"), "provenance is missing"),
        (drop("source"), "source is missing"),
        (drop("keypoint_order"), "keypoint_order is missing"),
        (drop("cameras", "head", "fx"), "cameras.head.fx is missing"),
        (lambda d: d.update(provenance=[]), "provenance must be an object"),
        (lambda d: d.update(cameras=["head"]), "cameras must be an object"),
        (lambda d: d.update(active="right"), "active must be a list"),
        (lambda d: d.update(id=42), "id must be text"),
        (lambda d: d.update(task=["round_disk"]), "task must be text"),
        (set_provenance(colour="red"), "provenance.colour is not known; it may have operator, started_at"),
        (set_provenance(start_valid="yes"), "provenance.start_valid must be true or false, got 'yes'"),
        (set_provenance(completed=1), "provenance.completed must be true or false, got 1"),
        (set_provenance(staging_s="2"), "provenance.staging_s must be a number, got '2'"),
        (set_provenance(reset_s=True), "provenance.reset_s must be a number, got True"),
        (set_provenance(reset_s=-1), "provenance.reset_s must be a finite number of seconds"),
        (set_provenance(reset_s=10**400), "provenance.reset_s is too large"),
        (set_provenance(operator=None), "provenance.operator must be text, got None"),
        (set_provenance(seed=1.5), "provenance.seed must be a whole number or null"),
        (set_provenance(details=[]), "provenance.details must be an object"),
        (set_provenance(details={"x": float("nan")}), "not JSON"),
        (set_provenance(operator="\ud800"), "not JSON"),
        (set_provenance(started_at="yesterday"), "provenance.started_at must be a time like"),
        (set_provenance(stopped_at="2026-13-01"), "provenance.stopped_at must be a time like"),
        (set_provenance(started_at="2027-01-01T10:00:00Z"), "is before started_at"),
        (set_provenance(started_at="2026-01-01T10:00:00"), "one has a time zone"),
        (
            lambda d: d["cameras"].update(top=d["cameras"]["head"]),
            "cameras.top must be one of head, left_wrist, right_wrist",
        ),
        (lambda d: d["cameras"]["head"].update(fx="605"), "cameras.head.fx must be a number"),
        (lambda d: d["cameras"]["head"].update(width=640), "has 16 x 16 pixels, but its camera 640 x 16"),
        (lambda d: d.update(source="human"), "source must be one of robot_success, robot_recovery, human_success"),
        (lambda d: d.update(active=["middle"]), "active[0] must be one of left, right, got 'middle'"),
        (lambda d: d.update(keypoint_order="smpl"), "keypoint_order must be one of mano, openpose, got 'smpl'"),
    ],
)
def test_a_wrong_description_names_its_field_and_what_is_wanted(saved, change, message):
    describe(saved, change)
    said = refusal(saved)
    assert message in said
    assert "recording.json" in said
    assert "__init__" not in said


# Importing again


def test_the_same_recording_again_is_already_there(saved, store):
    assert outcome_of(store, saved).outcome is Outcome.ACCEPTED
    assert outcome_of(store, saved).outcome is Outcome.ALREADY_THERE
    assert len(store.collection.journal.records()) == 1


def test_another_recording_under_the_same_id_clashes(saved, store, tmp_path):
    outcome_of(store, saved)
    save_recording(made(seed=1), tmp_path / "other" / "clip")
    again = outcome_of(store, tmp_path / "other" / "clip")
    assert again.outcome is Outcome.CLASHING
    assert "already holds another recording" in again.reasons[0]


def test_a_discard_of_what_was_accepted_earlier_is_not_logged_but_explained(saved, store):
    outcome_of(store, saved)
    log = (store.root / "collection.jsonl").read_bytes()
    describe(saved, set_provenance(completed=False))
    again = outcome_of(store, saved)
    assert again.outcome is Outcome.CLASHING
    command = f"egorecovery annotate {store.root} --episode clip --discard"
    assert f"was accepted earlier; discard it with {command}" in again.reasons[-1]
    assert (store.root / "collection.jsonl").read_bytes() == log
    assert store.damages_beside_episodes() == []


def test_the_advice_for_an_unwanted_episode_works(saved, store, capsys):
    outcome_of(store, saved)
    describe(saved, set_provenance(completed=False))
    advice = outcome_of(store, saved).reasons[-1]
    assert main(advice.split("egorecovery ")[1].split()) == 0


# Many recordings


@pytest.fixture
def mixed(tmp_path):
    """Ten recordings: good ones, a discarded, an unreadable, a clashing and a repeated one."""
    raw = tmp_path / "raw"
    for number in range(6):
        save_recording(made(f"clip-{number}", seed=number), raw / f"a-{number}")
    save_recording(made("lost"), raw / "b-lost")
    change_hands(raw / "b-lost", confidence=np.zeros_like)
    save_recording(made("torn"), raw / "c-torn")
    cut_short(raw / "c-torn" / "hands.npz")
    save_recording(made("clip-0", seed=99), raw / "d-clash")
    save_recording(made("clip-1", seed=1), raw / "e-again")
    return raw


def test_workers_give_the_same_store_and_outcomes_as_one_process(mixed, tmp_path):
    seen = []
    for workers in (1, 2):
        store = EpisodeStore.create(tmp_path / f"store-{workers}")
        with store.writing() as writer:
            outcomes = list(import_recordings(writer, find_recordings([mixed]), workers=workers))
        contents = {name: store.card(name).content for name in store.ids()}
        log = (store.root / "collection.jsonl").read_bytes()
        said = [(o.name, o.outcome, [r.replace(str(store.root), "STORE") for r in o.reasons]) for o in outcomes]
        assert list((store.root / ".drafts").iterdir()) == []
        seen.append((contents, log, said))
    assert seen[0] == seen[1]
    assert [outcome for _, outcome, _ in seen[0][2]] == [
        *["accepted"] * 6,
        "discarded",
        "unreadable",
        "clashing",
        "already there",
    ]


def test_few_recordings_stay_in_one_process(saved, store, monkeypatch):
    from egorecovery.capture import importing

    asked = []
    monkeypatch.setattr(importing, "run_jobs", lambda do, jobs, workers: asked.append(workers) or map(do, jobs))
    monkeypatch.setattr(importing, "WORTH_PROCESSES", 2)
    with store.writing() as writer:
        list(import_recordings(writer, [saved], workers=4))
        list(import_recordings(writer, [saved] * 2, workers=4))
    assert asked == [1, 4]


def test_import_counts_every_outcome_and_ends_in_1_when_something_wants_attention(mixed, tmp_path, capsys):
    arguments = ["import", str(mixed), "--out", str(tmp_path / "store"), "--workers", "1"]
    assert main(arguments) == 1
    shown = capsys.readouterr().out
    assert "6 accepted, 1 already there, 1 discarded, 1 clashing, 1 unreadable" in shown
    assert "discarded lost: hands: the left hand was never seen" in shown
    assert "clashing clip-0: " in shown
    assert f"unreadable {mixed / 'c-torn' / 'hands.npz'} cannot be read" in shown
    assert main([*arguments, "--json"]) == 1
    summary = json.loads(capsys.readouterr().out)
    assert list(summary) == ["accepted", "already_there", "discarded", "clashing", "unreadable"]
    assert [len(part) for part in summary.values()] == [0, 7, 1, 1, 1]


def test_import_of_good_and_discarded_recordings_ends_in_0_and_shows_no_zeros(saved, tmp_path, capsys):
    lost = saved.with_name("lost")
    shutil.copytree(saved, lost)
    said = json.loads((lost / "recording.json").read_text())
    (lost / "recording.json").write_text(json.dumps({**said, "id": "lost"}))
    change_hands(lost, confidence=np.zeros_like)
    assert main(["import", str(saved), str(lost), "--out", str(tmp_path / "store")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1 accepted, 1 discarded\n")
    assert f"next: egorecovery annotate {tmp_path / 'store'}" in shown.replace("\n", " ")


def test_an_import_that_adds_no_episode_ends_in_1_and_says_so(saved, tmp_path, capsys):
    change_hands(saved, confidence=np.zeros_like)
    assert main(["import", str(saved), "--out", str(tmp_path / "store")]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("0 accepted, 1 discarded\n")
    assert "nothing new is in it" in shown


@pytest.mark.parametrize("format", ["recordings", "aloha", "lerobot", "egoverse"])
def test_an_import_of_nothing_is_refused_and_makes_no_store(format, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    said = [] if format == "recordings" else ["--task", "cube_stack", "--source", "robot_success"]
    where = ["import", str(tmp_path / "empty"), "--out", str(tmp_path / "store"), "--format", format]
    assert main([*where, *said]) == 2
    assert f"{tmp_path / 'empty'}: no " in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "store").exists()


# The example in docs/formats.md


def test_the_documented_conversion_is_accepted(tmp_path, store):
    text = (Path(__file__).parents[1] / "docs" / "formats.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    namespace = {}
    exec(example, namespace)  # noqa: S102 - our own documentation
    recording, _ = synthetic_recording(
        "robot", PAPER_TASKS["cube_stack"], Source.ROBOT_SUCCESS, np.random.default_rng(0), image_size=32
    )
    log = {name: value for name, value in vars(recording.motion).items() if value is not None}
    head = recording.cameras[Camera.HEAD]
    started = datetime(2026, 3, 1, 10, tzinfo=UTC)
    namespace["convert"](
        "mine", tmp_path, log, head.frames.decode(), head.timestamps_s, started, started + timedelta(seconds=9)
    )
    outcome = outcome_of(store, tmp_path / "mine")
    assert outcome.reasons == ()
    episode = store.read("mine")
    assert (episode.provenance.operator, set(episode.cameras)) == ("ada", {Camera.HEAD})
    assert np.abs(episode.effector_m[0] - log["effector_m"][0]).max() < 0.01
