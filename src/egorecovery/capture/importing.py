"""Imports raw recordings as episodes: clean the motion, resample every stream to 25 Hz, check, store."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy import ndarray

from egorecovery.capture.fitted_pictures import fitted
from egorecovery.capture.formats.importer import Importer
from egorecovery.capture.formats.recordings import RecordingFolders
from egorecovery.capture.hand_streams import pose_streams, track_streams
from egorecovery.capture.hidden_pictures import without_embodiment
from egorecovery.capture.picture_fit import PictureFit
from egorecovery.capture.recording import HandPoses, HandTracks, RawCamera, Recording, RobotLog
from egorecovery.episodes import RATE_HZ, AcceptanceLimits, CameraStream, Episode, Provenance, check_episode
from egorecovery.episodes.attempt_log import Attempt
from egorecovery.episodes.store_writer import StagedEpisode, StoreWriter, stage
from egorecovery.episodes.vocabulary import PICTURE_FIT
from egorecovery.errors import EpisodeError, EpisodeExists, MotionError, PicturesDiffer, RecordingError, StoreDamaged
from egorecovery.executors import run_jobs
from egorecovery.kinematics import pack, unpack
from egorecovery.motion import (
    Cleaning,
    common_grid,
    nearest,
    resample_linear,
)

WORTH_PROCESSES = 8  # fewer recordings are imported before worker processes have started


@dataclass(frozen=True, kw_only=True)
class ImportRules:
    """How raw recordings become episodes."""

    fit: PictureFit | None = None  # None: pictures keep their size
    hide_embodiment: bool = False  # remove arms and hands from the pictures, by masks beside them
    min_confidence: float = 0.5  # a hand reconstruction below this counts as not seen
    cleaning: Cleaning = field(default_factory=Cleaning)
    acceptance: AcceptanceLimits = field(default_factory=AcceptanceLimits)


class Outcome(StrEnum):
    """Outcome of importing a recording."""

    ACCEPTED = "accepted"
    ALREADY_THERE = "already there"  # the store has the same content
    DISCARDED = "discarded"  # the attempt is logged, its frames are not stored
    CLASHING = "clashing"  # the store has other content of that name, or accepted it before
    UNREADABLE = "unreadable"  # files cannot be parsed


@dataclass(frozen=True)
class Imported:
    """One recording and its outcome."""

    where: str
    name: str  # its id, or the directory's name if the id cannot be read
    outcome: Outcome
    reasons: tuple[str, ...] = ()  # why it is not in the store

    @property
    def accepted(self) -> bool:
        return self.outcome in (Outcome.ACCEPTED, Outcome.ALREADY_THERE)


@dataclass(frozen=True)
class Job:
    """One recording to prepare, in any process."""

    importer: Importer
    episode: int  # index into the importer's places
    store: Path
    rules: ImportRules


@dataclass(frozen=True)
class Prepared:
    """A recording prepared by a worker: staged, discarded, or unreadable."""

    where: str
    staged: StagedEpisode | None = None
    discarded: Attempt | None = None
    unreadable: Imported | None = None


def import_recordings(
    writer: StoreWriter, directories: Sequence[Path], rules: ImportRules | None = None, workers: int = 1
) -> Iterator[Imported]:
    """Imports directories of recordings; every recording's outcome, in order."""
    return import_episodes(writer, RecordingFolders(tuple(directories)), rules, workers)


def import_recording(writer: StoreWriter, directory: Path, rules: ImportRules | None = None) -> Imported:
    """Imports one recording: stores the episode, or only logs the attempt if the checks refuse it."""
    return next(import_recordings(writer, [directory], rules))


def import_episodes(
    writer: StoreWriter, importer: Importer, rules: ImportRules | None = None, workers: int = 1
) -> Iterator[Imported]:
    """Imports episodes of any format. Workers stage them; this process, which holds the lock, commits them."""
    root, rules = writer.store.root.absolute(), rules or ImportRules()
    jobs = [Job(importer, episode, root, rules) for episode in range(len(importer.places()))]
    for prepared in run_jobs(prepare, jobs, workers if len(jobs) >= WORTH_PROCESSES else 1):
        yield settle(writer, prepared)


def prepare(job: Job) -> Prepared:
    """Loads, cleans, checks and stages. A bad recording is an outcome, not an error, so that others continue."""
    where = job.importer.places()[job.episode]
    try:
        recording = _loaded(job, where)
        judged = _judge(recording, job)
    except RecordingError as error:
        name = job.importer.name(job.episode)
        return Prepared(where, unreadable=Imported(where, name, Outcome.UNREADABLE, (str(error),)))
    if isinstance(judged, Episode):
        return Prepared(where, staged=stage(job.store, judged))
    return Prepared(where, discarded=Attempt.at(recording, judged))


def settle(writer: StoreWriter, prepared: Prepared) -> Imported:
    """Commits or logs what was prepared, unless the store has other content under that name."""
    if prepared.staged is not None:
        return _commit(writer, prepared.where, prepared.staged)
    if prepared.discarded is not None:
        return _log(writer, prepared.where, prepared.discarded)
    assert prepared.unreadable is not None
    return prepared.unreadable


def _commit(writer: StoreWriter, where: str, staged: StagedEpisode) -> Imported:
    outcome = Outcome.ALREADY_THERE if staged.id in writer.store else Outcome.ACCEPTED
    try:
        writer.commit(staged)
    except (EpisodeExists, PicturesDiffer) as error:
        return Imported(where, staged.id, Outcome.CLASHING, (str(error),))
    return Imported(where, staged.id, outcome)


def _log(writer: StoreWriter, where: str, attempt: Attempt) -> Imported:
    name = attempt.episode
    if name in writer.store:  # logging it as discarded would contradict the store
        command = (
            f"egorecovery annotate {shlex.quote(str(writer.store.root))} --episode {name} --discard --annotator YOU"
        )
        advice = f"{name} was accepted earlier; discard it with {command}"
        return Imported(where, name, Outcome.CLASHING, (*attempt.reasons, advice))
    writer.store.collection.add(attempt)
    return Imported(where, name, Outcome.DISCARDED, attempt.reasons)


def _judge(recording: Recording, job: Job) -> Episode | tuple[str, ...]:
    """The episode, or the reasons to discard the attempt."""
    try:
        episode = to_episode(recording, job.rules)
        reasons = check_episode(episode, job.rules.acceptance)
    except MotionError as error:
        return (str(error),)
    except (EpisodeError, StoreDamaged) as error:
        image = job.importer.damaged_picture(job.episode)
        where = image or job.importer.places()[job.episode]
        raise RecordingError(f"{where}: {error}; copy or export it again") from error
    return reasons or episode


def _loaded(job: Job, where: str) -> Recording:
    if not job.rules.hide_embodiment:
        return job.importer.load(job.episode, job.rules.fit)
    return without_embodiment(
        job.importer.load(job.episode, None), Path(where)
    )  # masks are of the pictures as recorded


def to_episode(recording: Recording, rules: ImportRules | None = None) -> Episode:
    """The recording on the common grid, not yet checked. Streams without usable motion raise `MotionError`."""
    rules = rules or ImportRules()
    faults = recording.clock_faults()
    if faults:
        raise MotionError("; ".join(faults))
    grid_s = common_grid(list(recording.clocks().values()), RATE_HZ)
    return Episode(
        id=recording.id,
        task=recording.task,
        source=recording.source,
        timestamps_s=np.arange(len(grid_s)) / RATE_HZ,
        cameras={camera: fitted(_on_grid(raw, grid_s), rules.fit) for camera, raw in recording.cameras.items()},
        provenance=_with_fit(recording.provenance, rules.fit),
        **_motion_streams(recording.motion, grid_s, rules),
    )


def _with_fit(provenance: Provenance, fit: PictureFit | None) -> Provenance:
    """Details with the picture fit, because pictures for the trained policy must be fitted in the same way."""
    if fit is None:
        return provenance
    return replace(provenance, details={**provenance.details, PICTURE_FIT: fit.to_json()})


def _motion_streams(
    motion: HandTracks | HandPoses | RobotLog, grid_s: ndarray, rules: ImportRules
) -> dict[str, ndarray]:
    if isinstance(motion, HandTracks):
        return track_streams(motion, grid_s, rules.min_confidence, rules.cleaning)
    if isinstance(motion, HandPoses):
        return pose_streams(motion, grid_s, rules.cleaning)
    return _robot_streams(motion, grid_s)


def _robot_streams(log: RobotLog, grid_s: ndarray) -> dict[str, ndarray]:
    """Streams from a robot's log. Encoders need no cleaning; the checks refuse NaN and gaps."""
    streams = {
        name: resample_linear(log.timestamps_s, getattr(log, name), grid_s).astype(np.float32)
        for name in ("state", "action", "effector_m")
    }
    for name in ("effector_state", "effector_action"):
        if (vectors := getattr(log, name)) is not None:
            resampled = resample_linear(log.timestamps_s, vectors, grid_s)
            streams[name] = pack(unpack(resampled)).astype(np.float32)  # between samples axes are not quite unit
    gap_s = np.abs(log.timestamps_s[nearest(log.timestamps_s, grid_s)] - grid_s)
    known = np.isfinite(streams["effector_m"]).all(axis=2) & (gap_s <= 1.5 / RATE_HZ)[:, None]
    return {**streams, "reliable": known}


def _on_grid(raw: RawCamera, grid_s: ndarray) -> CameraStream:
    chosen = nearest(raw.timestamps_s, grid_s)
    return CameraStream(
        frames=raw.frames.select(chosen),
        timestamps_s=raw.timestamps_s[chosen] - grid_s[0],
        intrinsics=raw.intrinsics,
        depth_mm=None if raw.depth_mm is None else np.asarray(raw.depth_mm[chosen]),
    )
