"""From a raw recording to an episode: clean the motion, put every stream on the 25 Hz grid, judge, store."""

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
from egorecovery.episodes.store import StagedEpisode, StoreWriter, stage
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
    hide_embodiment: bool = False  # arms and hands leave the pictures, by the masks beside them
    min_confidence: float = 0.5  # below this a hand reconstruction counts as not seen
    cleaning: Cleaning = field(default_factory=Cleaning)
    acceptance: AcceptanceLimits = field(default_factory=AcceptanceLimits)


class Outcome(StrEnum):
    """What became of a recording."""

    ACCEPTED = "accepted"
    ALREADY_THERE = "already there"  # the store held the same content before
    DISCARDED = "discarded"  # the attempt is on record, its frames are not kept
    CLASHING = "clashing"  # the store holds something else under its name, or thought better of it
    UNREADABLE = "unreadable"  # files that cannot be parsed


@dataclass(frozen=True)
class Imported:
    """One recording and its outcome."""

    where: str
    name: str  # its id; the directory's name where not even that can be read
    outcome: Outcome
    reasons: tuple[str, ...] = ()  # why it is not in the store

    @property
    def accepted(self) -> bool:
        return self.outcome in (Outcome.ACCEPTED, Outcome.ALREADY_THERE)


@dataclass(frozen=True)
class Job:
    """One recording to prepare, in whichever process."""

    importer: Importer
    episode: int  # index into the importer's places
    store: Path
    rules: ImportRules


@dataclass(frozen=True)
class Prepared:
    """A recording as far as a worker may take it: staged, or discarded, or neither because it is unreadable."""

    where: str
    staged: StagedEpisode | None = None
    discarded: Attempt | None = None
    unreadable: Imported | None = None


def import_recordings(
    writer: StoreWriter, directories: Sequence[Path], rules: ImportRules | None = None, workers: int = 1
) -> Iterator[Imported]:
    """Every recording's outcome, in order."""
    return import_episodes(writer, RecordingFolders(tuple(directories)), rules, workers)


def import_recording(writer: StoreWriter, directory: Path, rules: ImportRules | None = None) -> Imported:
    """Stores the episode, or only the record of the attempt when the checks refuse it."""
    return next(import_recordings(writer, [directory], rules))


def import_episodes(
    writer: StoreWriter, importer: Importer, rules: ImportRules | None = None, workers: int = 1
) -> Iterator[Imported]:
    """Of any format. Workers stage episodes; this process, which holds the lock, commits them."""
    root, rules = writer.store.root.absolute(), rules or ImportRules()
    jobs = [Job(importer, episode, root, rules) for episode in range(len(importer.places()))]
    for prepared in run_jobs(prepare, jobs, workers if len(jobs) >= WORTH_PROCESSES else 1):
        yield settle(writer, prepared)


def prepare(job: Job) -> Prepared:
    """Loads, cleans, judges and stages. A bad recording is an outcome, not an error: the others must go on."""
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
    if name in writer.store:  # a log that calls it discarded would contradict the store
        command = f"egorecovery annotate {writer.store.root} --episode {name} --discard --annotator YOU"
        advice = f"{name} was accepted earlier; discard it with {command}"
        return Imported(where, name, Outcome.CLASHING, (*attempt.reasons, advice))
    writer.store.collection.add(attempt)
    return Imported(where, name, Outcome.DISCARDED, attempt.reasons)


def _judge(recording: Recording, job: Job) -> Episode | tuple[str, ...]:
    """The episode, or why the attempt is discarded."""
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
    """The recording on the common grid, not yet judged. Streams that give no motion are a `MotionError`."""
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
    """What feeds a policy later must treat its pictures in the same way, so the episode says how."""
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
    """Encoders need no cleaning; NaN and gaps are left for the checks to refuse."""
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
