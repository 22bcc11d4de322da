"""Every reader of files that somebody else may have made: a small whole example of what it reads, and how it is read.

A reader may give an `EgoRecoveryError` or a value for whatever lies in its folder, and nothing else.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from mutations import each_step

NOBODY = "somebody"
METADATA: dict[str, Any] = {
    "action_hz": 50.0,
    "policy_hz": 25.0,
    "horizon": 4,
    "action_space": "joint",
    "action_dim": 14,
    "state_dim": 14,
    "cameras": ("head",),
    "image_size": 16,
    "picture_fit": "letterbox",
    "hidden_embodiment": False,
    "model": "tiny",
    "checkpoint": "0" * 64,
}


@dataclass(frozen=True)
class Reader:
    """`make` fills a folder, `read` reads it. `only`: the endings of the files that are changed."""

    make: Callable[[Path], object]
    read: Callable[[Path], object]
    only: tuple[str, ...] = ("",)
    slow: bool = False  # some hundred a minute: few in the suite


def _store(root: Path) -> Path:
    from egorecovery.episodes import EpisodeStore
    from egorecovery.intent import label_store
    from egorecovery.recovery import Annotation, AnnotationJournal
    from tiny_episodes import FRAMES, tiny_episode

    store = EpisodeStore.create(root / "store")
    with store.writing() as writer:
        writer.add(tiny_episode("one", cameras=1))
        writer.discard(tiny_episode("two", cameras=0), ("hands: tracking lost",))
    for revision in range(2):
        annotation = Annotation(episode="one", boundary=12 - revision, annotator="ada")
        AnnotationJournal(store.annotations_path).save(annotation, n_frames=FRAMES, seen_revision=revision)
    label_store(store)
    store.damaged_among(["one"])
    return store.root


def _read_store(root: Path) -> None:
    from egorecovery.episodes import EpisodeStore
    from egorecovery.intent import LabelStore
    from egorecovery.intent.store_damage import store_damages, store_notes
    from egorecovery.recovery import AnnotationJournal

    trusting = EpisodeStore(root / "store", trusting=True)
    each_step(lambda: store_damages(trusting), lambda: store_notes(trusting))
    store = EpisodeStore(root / "store")
    each_step(
        store.ids,
        lambda: store.card("one"),
        lambda: _every_frame(store.read("one")),
        lambda: store.damaged_among(["one"]),
        store.collection.attempts,
        store.collection.activities,
        lambda: AnnotationJournal(store.annotations_path).latest(),
        lambda: LabelStore(store.labels_path).read("one"),
        lambda: LabelStore(store.labels_path).episodes(),
    )


def _every_frame(episode: Any) -> None:
    for stream in (episode.state, episode.action, episode.effector_m):
        stream.sum()
    for camera in episode.cameras.values():
        for frame in range(len(episode)):
            camera.frames[frame]


def _run(root: Path) -> None:
    from egorecovery.experiments.trainings import TrainingJob
    from egorecovery.policy.checkpoint import open_checkpoint
    from egorecovery.storage.atomic_io import write_file
    from egorecovery.storage.checksummed_json import with_checksum
    from egorecovery.training.run_manifest import run_damages, seal_run
    from tiny_checkpoint import save_tiny
    from tiny_experiment import recipe

    run = root / "run"
    saved = save_tiny(run)
    TrainingJob(recipe=recipe("cube_stack"), store=root / "store", run=run).write()
    (run / "recipe.json").write_text(json.dumps(open_checkpoint(saved).recipe))
    rows = ['{"step": 1, "kind": "train", "loss": 0.5}', '{"step": 2, "kind": "score", "x": NaN}']
    (run / "log.jsonl").write_text("\n".join(rows) + "\n")
    card = {"seconds": 1.0, "hardware": {"device": "cpu"}, "data_hash": "ab"}
    write_file(run / "training.json", with_checksum(card))
    seal_run(run)
    assert run_damages(run) == []


def _read_run(root: Path) -> None:
    from egorecovery.experiments.trainings import TrainingJob, training_card
    from egorecovery.policy.checkpoint import latest, open_checkpoint
    from egorecovery.policy.inference import load_action_source
    from egorecovery.training.logs import read_log
    from egorecovery.training.run_manifest import run_damages, run_notes, unseal_run

    run = root / "run"
    each_step(
        lambda: run_damages(run),
        lambda: run_notes(run),
        lambda: read_log(run / "log.jsonl"),
        lambda: TrainingJob.read(run),
        lambda: training_card(run),
        lambda: load_action_source(run, "cpu"),
        lambda: open_checkpoint(latest(run / "checkpoints") or run).training_state(),
        lambda: unseal_run(run),
    )


def _experiment(root: Path) -> None:
    from egorecovery.experiments.damage import experiment_damages
    from egorecovery.storage.checksummed_json import with_checksum
    from published_experiment import published

    home = published(root / "experiment", bound_films=True)
    failed = home / "cells" / "failed-cell"
    failed.mkdir()
    record = {"schema": 1, "cell": "failed-cell", "stage": "train", "error": "no", "at": "now", "traceback": ""}
    (failed / "error.json").write_bytes(with_checksum(record))
    assert experiment_damages(home) == []


def _read_experiment(root: Path) -> None:
    import shutil

    from egorecovery.experiments import ExperimentFolder, merge
    from egorecovery.experiments.damage import experiment_damages, experiment_notes
    from egorecovery.report import write_report
    from tiny_experiment import SUITE

    home, out = root / "experiment", root / "merged"
    try:
        each_step(
            lambda: experiment_damages(home),
            lambda: experiment_notes(home),
            lambda: [ExperimentFolder(home).card(cell) for cell in ExperimentFolder(home).done()],
            lambda: merge([home], out, SUITE.name),
            lambda: write_report(home),
        )
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _results(root: Path) -> None:
    from egorecovery.evaluation import ResultFile
    from filmed_runs import rollout

    records = [rollout(index, bool(index % 2), policy="full") for index in range(3)]
    ResultFile(root / "results.jsonl").append_all(records)
    (root / "films.json").write_text(json.dumps({record.key: f"{record.index}.mp4" for record in records}))
    for record in records:
        (root / f"{record.index}.mp4").write_bytes(b"film")


def _read_results(root: Path) -> None:
    from egorecovery.evaluation import ResultFile, load
    from egorecovery.evaluation.rollout_videos import rollout_videos

    path = root / "results.jsonl"
    each_step(ResultFile(path).records, lambda: load([path]), lambda: rollout_videos(root))


def _recording(root: Path) -> None:
    from egorecovery.capture import save_recording
    from egorecovery.capture.synthetic import synthetic_recording
    from egorecovery.episodes import PAPER_TASKS, Source

    made, _ = synthetic_recording("clip", PAPER_TASKS["round_disk"], Source.HUMAN_RECOVERY, np.random.default_rng(0))
    save_recording(made, root / "clip")


def _read_recording(root: Path) -> None:
    from egorecovery.capture import load_recording
    from egorecovery.capture.recording_files import load_header

    each_step(lambda: load_header(root / "clip"), lambda: load_recording(root / "clip"))


def _drafts(root: Path) -> None:
    """What a recorder that was killed leaves, and its log."""
    from egorecovery.episodes.attempt_log import Attempt, AttemptLog
    from tiny_episodes import tiny_episode

    AttemptLog(root / "collection.jsonl").add(Attempt.at(tiny_episode("zero", cameras=0)))
    draft = root / ".drafts" / "one"
    draft.mkdir(parents=True)
    record = asdict(Attempt.at(tiny_episode("one", cameras=0), ("killed",)))
    (draft / "begun.json").write_text(json.dumps(record))
    (root / "writer.lock").write_text(json.dumps({"pid": 1, "user": NOBODY}))


def _read_drafts(root: Path) -> None:
    from egorecovery.capture.session_log import clear_leftovers
    from egorecovery.storage.lock import WriterLock

    def locked() -> None:
        with WriterLock(root / "writer.lock"):
            pass

    each_step(locked, lambda: clear_leftovers(root))


def _hands(root: Path) -> None:
    from egorecovery.capture.synthetic import synthetic_recording
    from egorecovery.episodes import PAPER_TASKS, Source

    source = Source.HUMAN_RECOVERY
    made, _ = synthetic_recording("clip", PAPER_TASKS["round_disk"], source, np.random.default_rng(0))
    motion: Any = made.motion
    samples = 12
    np.savez(
        root / "hands.npz",
        timestamps_s=motion.timestamps_s[:samples],
        keypoints=motion.keypoints_m[:samples],
        confidence=motion.confidence[:samples],
        keypoint_order=np.array("openpose"),
        units=np.array("m"),
        frame=np.array("camera"),
        world_from_camera=np.tile(np.eye(4), (samples, 1, 1)),
        filled=np.zeros((samples, 2), bool),
    )
    (root / "placement.json").write_text(json.dumps({"workspace_from_data": np.eye(4).tolist()}))
    seen = [{"sample": 0, "camera_from_marker": np.eye(4).tolist()}]
    (root / "marker.json").write_text(json.dumps({"workspace_from_marker": np.eye(4).tolist(), "sightings": seen}))
    np.save(root / "poses.npy", np.tile(np.eye(4), (samples, 1, 1)))


def _read_hands(root: Path) -> None:
    from egorecovery.capture.formats.hand_file import HandFile
    from egorecovery.capture.formats.marker import workspace_from_world
    from egorecovery.capture.formats.placement import Placement
    from egorecovery.capture.hand_tracking.clip_tracking import camera_poses

    poses = np.tile(np.eye(4), (12, 1, 1))
    each_step(
        lambda: HandFile.load(root / "hands.npz").tracks(),
        lambda: HandFile.load(root / "hands.npz").seen(),
        lambda: Placement.load(root / "placement.json"),
        lambda: workspace_from_world(root / "marker.json", poses),
        lambda: camera_poses(root / "poses.npy", 12),
    )


def _masks(root: Path) -> None:
    masks = np.zeros((4, 16, 16), bool)
    masks[:, 4:8, 4:8] = True
    np.savez(root / "embodiment.npz", mask_packed=np.packbits(masks, axis=-1), fingertips_px=np.zeros((4, 2, 2, 2)))


def _read_masks(root: Path) -> None:
    from egorecovery.capture.hidden_pictures import EmbodimentMasks
    from egorecovery.episodes import JpegFrames

    frames = JpegFrames.encode(np.full((4, 16, 16, 3), 90, np.uint8))
    EmbodimentMasks.read(root / "embodiment.npz", frames)


def _robot(root: Path) -> None:
    from robot_limits import FOLDER
    from tiny_robot import described, urdf

    urdf(root)
    record = {"left": described(y_m=0.25), "right": described(y_m=-0.25)}
    (root / "robot.json").write_text(json.dumps(record))
    (root / "limits.json").write_bytes((FOLDER / "workcell.json").read_bytes())
    pinhole = {"width": 64, "height": 48, "fx": 60.0, "fy": 60.0, "cx": 32.0, "cy": 24.0}
    (root / "calibration.json").write_text(json.dumps(pinhole))


def _read_robot(root: Path) -> None:
    from egorecovery.capture.cameras.spec import calibration
    from egorecovery.kinematics.robot_file import load_arms
    from egorecovery.robot import read_limits

    each_step(
        lambda: load_arms(root / "robot.json").effector_vectors(np.zeros((1, 14))),
        lambda: read_limits(root / "limits.json").stop_s(50.0),
        lambda: calibration(root / "calibration.json", (64, 48)),
    )


def _motion(root: Path) -> None:
    from egorecovery.robot.motion import RecordedMotion, write_motion

    wide = np.zeros((5, 2))
    times_s, phase = np.arange(5) / 50, np.array(["running"] * 5)
    made = RecordedMotion(
        names=("a", "b"), rate_hz=50.0, time_s=times_s, phase=phase, wanted=wide, commanded=wide, measured=wide
    )
    write_motion(made, root / "motion.npz")


def _read_motion(root: Path) -> None:
    from egorecovery.robot.motion import read_motion

    found = read_motion(root / "motion.npz")
    assert found.measured.shape == (len(found.time_s), len(found.names))


def _messages(root: Path) -> None:
    from egorecovery.serving import wire

    picture = np.zeros((8, 8, 3), np.uint8)
    request = {"state": np.zeros(14), "images": {"head": picture}, "prompt": "go"}
    answer = {"actions": np.zeros((4, 14), np.float32), "gate": 0.5, "intent": [0.1, 0.2], "chunk_id": 3}
    (root / "request.msgpack").write_bytes(wire.encode(request))
    (root / "answer.msgpack").write_bytes(wire.encode(answer))
    (root / "metadata.msgpack").write_bytes(wire.encode(_metadata().to_message()))
    header = json.dumps({"kind": "frame", "captured_s": 1.0}).encode()
    from egorecovery.capture.cameras import frame_pipe

    (root / "frame.pipe").write_bytes(frame_pipe.PREFIX.pack(frame_pipe.MAGIC, len(header), 3) + header + b"abc")
    sample = {"captured_s": 1.0, "state": [0.0] * 14, "action": [0.0] * 14, "effector_m": [[0.0] * 3] * 2}
    (root / "sample.json").write_text(json.dumps(sample) + "\n")


def _metadata() -> Any:
    from egorecovery.serving.metadata import ServerMetadata

    return ServerMetadata(**METADATA)


def _read_messages(root: Path) -> None:
    from egorecovery.capture.cameras.frame_pipe import read_message
    from egorecovery.capture.robot_stream import parse_sample
    from egorecovery.serving import wire
    from egorecovery.serving.client import _reply
    from egorecovery.serving.metadata import ServerMetadata
    from egorecovery.serving.observation import CameraNames, observation_of

    request, answer, metadata = ((root / f"{name}.msgpack").read_bytes() for name in ("request", "answer", "metadata"))
    each_step(
        lambda: observation_of(wire.decode(request), CameraNames(cameras=("head",)), 14),
        lambda: _reply(wire.decode(answer), _metadata()),
        lambda: ServerMetadata.from_message(wire.decode(metadata)),
        lambda: read_message(BytesIO((root / "frame.pipe").read_bytes()), "head"),
        lambda: parse_sample((root / "sample.json").read_bytes(), "line 1"),
    )


def _data_set(root: Path) -> None:
    from lerobot_data import make_data_set

    make_data_set(root)


def _read_data_set(root: Path) -> None:
    from lerobot_data import opened

    each_step(lambda: opened(root / "data_set").load(0, None), lambda: opened(root / "data_set").findings())


def _aloha(root: Path) -> None:
    from aloha_files import make_episode, write_compressed

    write_compressed(root / "episode_0.hdf5", make_episode(frames=12))


def _read_aloha(root: Path) -> None:
    from egorecovery.capture.formats.aloha_importer import open_paths
    from egorecovery.capture.formats.options import AlohaOptions
    from lerobot_data import WANTED

    open_paths([root], WANTED, AlohaOptions()).load(0, None)


def _egoverse(root: Path) -> None:
    from egoverse_files import robot_numbers, write_episode

    write_episode(root / "ep.zarr", robot_numbers(20))


def _read_egoverse(root: Path) -> None:
    from egorecovery.capture.formats.egoverse import open_paths
    from egorecovery.capture.formats.options import EgoVerseOptions
    from lerobot_data import WANTED

    open_paths([root / "ep.zarr"], WANTED, EgoVerseOptions()).load(0, None)


def _session(root: Path) -> None:
    from egorecovery.storage.atomic_io import write_file
    from egorecovery.storage.checksummed_json import with_checksum
    from egorecovery.storage.journal import Journal
    from egorecovery.studio.scoring import Plan, Rating, Ratings, criteria_for
    from egorecovery.studio.scoring.neutral_video import VideoFacts
    from egorecovery.studio.scoring.session import BlindVideo

    facts = VideoFacts(frames=10, rate_hz=25.0, width=64, height=48)
    names = ("0" * 12, "a" * 12)
    videos = tuple(BlindVideo(id=name, task="cube_stack", facts=facts, bytes=4) for name in names)
    rules = criteria_for(["cube_stack"])
    plan = Plan(created_at="now", seed=1, raters=1, criteria=rules, videos=videos, key_digest="unread")
    home = root / "session"
    (home / "videos").mkdir(parents=True)
    for name in names:
        (home / "videos" / f"{name}.mp4").write_bytes(b"film")
    write_file(home / "plan.json", with_checksum(plan.record()))
    journal, lines = Journal(home / "ratings.jsonl"), []
    for name in names:
        rating = Rating(video=name, by="ada", verdict="success")
        lines.append(Ratings(plan, lines).next_rating(rating, 0))
    lines.append(Ratings(plan, lines).next_undo("ada", "rater", "now"))
    journal.append_all(lines)
    (root / "own.json").write_text(json.dumps({"tasks": {"mine": {"title": "t", "success": ["s"], "failure": ["f"]}}}))
    (root / "table.csv").write_text("video,task,method,start,regime\n1.mp4,cube_stack,full,3,recovery\n")
    (root / "1.mp4").write_bytes(b"film")


def _read_session(root: Path) -> None:
    from egorecovery.studio.scoring import Ratings, criteria_for, open_session
    from egorecovery.studio.scoring.real_robot import clips_of_table

    def rated() -> None:
        session = open_session(root / "session")
        ratings = Ratings(session.plan, session.journal.records())
        ratings.lacking()
        session.plan.order("ada")
        [os.stat(session.video_file(video)) for video in session.plan.videos]

    each_step(rated, lambda: criteria_for(["mine"], root / "own.json"), lambda: clips_of_table(root / "table.csv"))


READERS: dict[str, Reader] = {
    "store": Reader(_store, _read_store, slow=True),
    "run": Reader(_run, _read_run, slow=True),
    "experiment": Reader(_experiment, _read_experiment, slow=True),
    "results": Reader(_results, _read_results),
    "recording": Reader(_recording, _read_recording, slow=True),
    "drafts": Reader(_drafts, _read_drafts),
    "hands": Reader(_hands, _read_hands),
    "masks": Reader(_masks, _read_masks),
    "robot": Reader(_robot, _read_robot),
    "motion": Reader(_motion, _read_motion),
    "messages": Reader(_messages, _read_messages),
    "lerobot": Reader(_data_set, _read_data_set, slow=True),
    "aloha": Reader(_aloha, _read_aloha, slow=True),
    "egoverse": Reader(_egoverse, _read_egoverse, slow=True),
    "session": Reader(_session, _read_session),
}
