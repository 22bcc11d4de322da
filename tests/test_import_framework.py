"""What every format shares on its way into a store: the seam, picture fitting, dry runs, refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest

from egorecovery.capture import ImportRules, PictureFit, load_recording, save_recording, to_episode
from egorecovery.capture.fitted_pictures import raw_camera
from egorecovery.capture.formats.camera_names import chosen_cameras
from egorecovery.capture.formats.importer import ImportAs, Robot
from egorecovery.capture.formats.recordings import RecordingFolders
from egorecovery.capture.importing import import_episodes
from egorecovery.capture.synthetic import synthetic_recording
from egorecovery.cli.main import main
from egorecovery.episodes import PAPER_TASKS, Camera, EpisodeStore, Intrinsics, Source
from egorecovery.episodes.attempt_log import UNKNOWN_TIME
from egorecovery.errors import RecipeError, RecordingError
from egorecovery.experiments.cell import without_unused_settings
from egorecovery.intent import label_store
from egorecovery.policy.checkpoint import open_checkpoint
from egorecovery.storage.typed_json import from_json, to_json
from training_store import BOUNDARY, PIXELS, annotate, tiny_recipe, training_arguments

TASK = PAPER_TASKS["cube_stack"]
NO_ARMS = Robot(name="none", arms=dict)  # never asked for


def wide(name: str = "clip", size: tuple[int, int] = (48, 64), source: Source = Source.ROBOT_SUCCESS):
    """A recording whose pictures are not square, with depth in the head camera."""
    recording, _ = synthetic_recording(name, TASK, source, np.random.default_rng(1), image_size=64)
    height, width = size
    pinhole = Intrinsics(width=width, height=height, fx=70.0, fy=70.0, cx=width / 2, cy=height / 2)
    cameras = {}
    for camera, raw in recording.cameras.items():
        images = raw.frames.decode()[:, :height, :width]
        depth_mm = np.full((len(images), height, width), 700, np.uint16) if camera is Camera.HEAD else None
        cameras[camera] = raw_camera(images, raw.timestamps_s, pinhole, depth_mm=depth_mm)
    return replace(recording, cameras=cameras)


@pytest.fixture
def raw(tmp_path):
    for number in range(2):
        save_recording(wide(f"clip-{number}"), tmp_path / "raw" / f"clip-{number}")
    return tmp_path / "raw"


def test_pictures_pinhole_and_depth_are_fitted_and_the_episode_says_how(raw):
    recording = load_recording(raw / "clip-0")
    fit = PictureFit(32, "letterbox")
    episode = to_episode(recording, ImportRules(fit=fit))
    plain = to_episode(recording)
    for camera, stream in episode.cameras.items():
        assert stream.frames.size_hw == (32, 32)
        assert stream.intrinsics == fit.intrinsics(plain.cameras[camera].intrinsics)
        wanted = fit.apply(plain.cameras[camera].frames[3]).astype(int)
        assert np.abs(stream.frames[3] - wanted).mean() < 4  # one JPEG
    head = episode.cameras[Camera.HEAD].depth_mm
    assert head.shape[1:] == (32, 32)
    assert set(np.unique(head)) == {0, 700}
    assert PictureFit.from_json(episode.provenance.details["picture_fit"]) == fit
    assert "picture_fit" not in plain.provenance.details


def test_a_frame_that_is_fitted_already_is_not_encoded_again():
    recording = wide()
    fit = PictureFit(32, "crop")
    early = {
        camera: raw_camera(raw.frames.decode(), raw.timestamps_s, raw.intrinsics, fit)
        for camera, raw in recording.cameras.items()
    }
    once = to_episode(replace(recording, cameras=early), ImportRules(fit=fit))
    late = to_episode(recording, ImportRules(fit=fit))
    for camera in Camera:
        np.testing.assert_array_equal(once.cameras[camera].frames.packed, late.cameras[camera].frames.packed)
        assert once.cameras[camera].intrinsics == late.cameras[camera].intrinsics


def test_the_command_line_fits_records_the_rule_and_resumes(raw, tmp_path, capsys):
    store = tmp_path / "store"
    arguments = ["import", str(raw), "--out", str(store), "--image-size", "32", "--fit", "crop", "--workers", "1"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "2 accepted" in shown
    assert f"next: egorecovery label {store}" in shown.replace("\n", " ")
    for name in EpisodeStore(store).ids():
        assert EpisodeStore(store).card(name).picture_fit == {"image_size": 32, "fit": "crop"}
    assert main(arguments) == 0
    assert "0 accepted, 2 already there" in capsys.readouterr().out
    arguments[arguments.index("crop")] = "letterbox"  # the same clip with other pictures is another episode
    assert main(arguments) == 1
    assert "2 clashing" in capsys.readouterr().out


def test_a_dry_run_says_what_is_there_and_adds_nothing(raw, tmp_path, capsys):
    sheet = tmp_path / "sheet.png"
    store = tmp_path / "store"
    command = ["import", str(raw), "--dry-run", "--image-size", "32", "--sheet", str(sheet), "--out", str(store)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "2 episodes" in shown
    assert "head (64 x 48)" in shown
    assert "letterbox to 32 x 32" in shown
    assert sheet.read_bytes().startswith(b"\x89PNG")
    assert not store.exists()
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "store"], "PATHS ...: Recordings or folders"),
        (["raw"], "--out is missing"),
        (["raw", "--out", "store", "--task", "cube_stack"], "--task: recordings say it themselves"),
        (["raw", "--out", "store", "--rate-hz", "30"], "options of aloha are for --format aloha"),
        (["raw", "--out", "store", "--fit", "crop"], "--fit crop needs --image-size"),
        (["raw", "--out", "store", "--image-size", "0"], "image_size must lie in"),
        (["raw", "--out", "store", "--format", "lerobot"], "--task is missing"),
        (["raw", "--out", "store", "--robot", "no.urdf"], "no.urdf: there is no such robot description"),
        (["empty", "--out", "store"], "no recording.json"),
        (["aloha", "--out", "store", "--task", "cube_stack"], "for data of ALOHA add --format aloha"),
    ],
)
def test_what_makes_no_sense_is_one_message_and_exit_2(raw, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "aloha").mkdir()
    (tmp_path / "aloha" / "episode_0.hdf5").touch()
    assert main(["import", *arguments]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert not (tmp_path / "store").exists()


def test_importers_give_recordings_one_at_a_time(raw, tmp_path):
    store = EpisodeStore.create(tmp_path / "store")
    importer = RecordingFolders.found([raw])
    assert [recording.id for recording in importer.recordings()] == ["clip-0", "clip-1"]
    with store.writing() as writer:
        assert [one.accepted for one in import_episodes(writer, importer)] == [True, True]


def test_cameras_are_told_by_their_names_or_by_a_person():
    found = ["observation.images.cam_high", "observation.images.cam_left_wrist", "observation.images.other"]
    assert chosen_cameras({}, found) == {Camera.HEAD: found[0], Camera.LEFT_WRIST: found[1]}
    assert chosen_cameras({Camera.HEAD: found[2]}, found) == {Camera.HEAD: found[2], Camera.LEFT_WRIST: found[1]}
    with pytest.raises(RecordingError, match=r"as in --camera head=a"):
        chosen_cameras({}, ["a", "b"])
    with pytest.raises(RecordingError, match=r"head=c: there is no such camera; there are a, b"):
        chosen_cameras({Camera.HEAD: "c"}, ["a", "b"])


@pytest.mark.parametrize("data_set", ["../../etc/passwd", "a b/c", "", "...", "x" * 300])
def test_a_data_sets_name_becomes_a_safe_episode_name(data_set):
    wanted = ImportAs(task=TASK, source=Source.ROBOT_SUCCESS, robot=NO_ARMS)
    name = wanted.id_of(data_set, 7)
    assert name.endswith("-000007")
    assert "/" not in name
    assert not name.startswith(".")


def test_where_nobody_says_when_the_episode_says_that_nobody_did():
    wanted = ImportAs(task=TASK, source=Source.ROBOT_SUCCESS, robot=NO_ARMS)
    made = wanted.provenance(started_s=60.0, duration_s=4.0, recorder="x", details={})
    assert made.started_at == "1970-01-01T00:00:00.000+00:00"
    assert made.details["wall_clock"] == "unknown"
    said = replace(wanted, recorded_at=UNKNOWN_TIME.replace(year=2026))
    assert "wall_clock" not in said.provenance(started_s=0.0, duration_s=4.0, recorder="x", details={}).details


def fitted_store(made_up, root, fits):
    """A labelled store to train on whose episodes say which rule their pictures went through, per source."""
    store = EpisodeStore.create(root / "store")
    with store.writing() as writer:
        for name in made_up.ids():
            episode = made_up.read(name)
            rule = fits.get(episode.source)
            details = {"picture_fit": {"image_size": PIXELS, "fit": rule}} if rule else {}
            writer.add(replace(episode, provenance=replace(episode.provenance, details=details)))
    annotate(store, BOUNDARY)
    label_store(store)
    return store


def test_training_takes_the_robots_rule_into_its_checkpoint(made_up, tmp_path):
    letterboxed = dict.fromkeys(Source, "letterbox") | {Source.HUMAN_RECOVERY: "crop"}  # people's cameras are others
    store = fitted_store(made_up, tmp_path, letterboxed)
    assert main(training_arguments(store, tmp_path / "run", steps=1)) == 0
    assert open_checkpoint(tmp_path / "run").config.picture_fit == "letterbox"
    assert main(training_arguments(store, tmp_path / "run", steps=1, resume=True)) == 0


def test_robot_pictures_that_were_fitted_in_two_ways_cannot_be_trained_on_together(made_up, tmp_path, capsys):
    store = fitted_store(made_up, tmp_path, {Source.ROBOT_SUCCESS: "letterbox", Source.ROBOT_RECOVERY: "crop"})
    assert main(training_arguments(store, tmp_path / "run", steps=1)) == 2
    assert "fitted in different ways" in capsys.readouterr().err


def test_data_without_a_rule_gives_the_recipe_and_the_hash_it_always_gave():
    recipe = tiny_recipe(steps=2)
    assert recipe.policy.picture_fit == "exact"
    settings = to_json(recipe)
    older = {**settings, "policy": {k: v for k, v in settings["policy"].items() if k != "picture_fit"}}
    assert without_unused_settings("recipe", settings) == without_unused_settings("recipe", older)
    assert from_json(type(recipe), older, "recipe", RecipeError) == recipe
    letterboxed = {**settings, "policy": {**settings["policy"], "picture_fit": "letterbox"}}
    assert without_unused_settings("recipe", letterboxed) != without_unused_settings("recipe", older)
