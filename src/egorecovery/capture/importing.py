"""From a raw recording to an episode: clean the motion, put every stream on the 25 Hz grid, judge, store."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.capture.recording import HandTracks, RawCamera, Recording, RobotLog
from egorecovery.capture.recording_files import load_recording
from egorecovery.episodes import RATE_HZ, AcceptanceLimits, CameraStream, Episode, check_episode
from egorecovery.episodes.store import StoreWriter
from egorecovery.errors import EgoRecoveryError, RecordingError
from egorecovery.motion import (
    Cleaning,
    CleanTrack,
    aperture_01,
    clean_track,
    common_grid,
    nearest,
    resample_linear,
)


@dataclass(frozen=True, kw_only=True)
class ImportRules:
    """How raw recordings become episodes."""

    min_confidence: float = 0.5  # below this a hand reconstruction counts as not seen
    cleaning: Cleaning = field(default_factory=Cleaning)
    acceptance: AcceptanceLimits = field(default_factory=AcceptanceLimits)


@dataclass(frozen=True)
class Imported:
    """What became of one recording."""

    name: str
    reasons: tuple[str, ...] = ()  # why it was discarded
    already_there: bool = False

    @property
    def accepted(self) -> bool:
        return not self.reasons


def import_recording(writer: StoreWriter, directory: Path, rules: ImportRules | None = None) -> Imported:
    """Stores the episode, or only the record of the attempt when the checks refuse it."""
    rules = rules or ImportRules()
    recording = load_recording(directory)
    already_there = recording.id in writer.store
    try:
        episode = to_episode(recording, rules)
    except EgoRecoveryError as error:
        raise RecordingError(f"{directory}: {error}") from error
    reasons = check_episode(episode, rules.acceptance)
    if reasons:
        writer.discard(episode, reasons)
    else:
        writer.add(episode)
    return Imported(recording.id, reasons, already_there)


def to_episode(recording: Recording, rules: ImportRules | None = None) -> Episode:
    """The recording on the common grid, not yet judged."""
    rules = rules or ImportRules()
    clocks = [recording.motion.timestamps_s, *(raw.timestamps_s for raw in recording.cameras.values())]
    grid_s = common_grid(clocks, RATE_HZ)
    if isinstance(recording.motion, HandTracks):
        streams = _human_streams(recording.motion, grid_s, rules)
    else:
        streams = _robot_streams(recording.motion, grid_s)
    return Episode(
        id=recording.id,
        task=recording.task,
        source=recording.source,
        timestamps_s=np.arange(len(grid_s)) / RATE_HZ,
        cameras={camera: _on_grid(raw, grid_s) for camera, raw in recording.cameras.items()},
        provenance=recording.provenance,
        **streams,
    )


def _human_streams(hands: HandTracks, grid_s: ndarray, rules: ImportRules) -> dict[str, ndarray]:
    tracks = [_clean_hand(hands, hand, grid_s, rules) for hand in range(2)]
    state = np.concatenate([track.state() for track in tracks], axis=1).astype(np.float32)
    return {
        "state": state,
        # Absolute hand targets (appendix, training): where the hand is one step later; the last frame holds.
        "action": np.concatenate([state[1:], state[-1:]]),
        "effector_m": np.stack([track.wrist_m for track in tracks], axis=1).astype(np.float32),
        "reliable": np.stack([track.reliable for track in tracks], axis=1),
    }


def _clean_hand(hands: HandTracks, hand: int, grid_s: ndarray, rules: ImportRules) -> CleanTrack:
    keypoints_m, matrices = hands.keypoints_m[:, hand], hands.wrist_rotation[:, hand]
    seen = (
        (hands.confidence[:, hand] >= rules.min_confidence)
        & np.isfinite(keypoints_m).all(axis=(1, 2))
        & np.isfinite(matrices).all(axis=(1, 2))
    )
    return clean_track(
        times_s=hands.timestamps_s,
        wrist_m=keypoints_m[:, 0],
        quaternions=Rotation.from_matrix(np.where(seen[:, None, None], matrices, np.eye(3))).as_quat(),
        aperture_01=aperture_01(keypoints_m, hands.order),
        usable=seen,
        grid_s=grid_s,
        how=rules.cleaning,
    )


def _robot_streams(log: RobotLog, grid_s: ndarray) -> dict[str, ndarray]:
    """Encoders need no cleaning; NaN and gaps are left for the checks to refuse."""
    streams = {
        name: resample_linear(log.timestamps_s, getattr(log, name), grid_s).astype(np.float32)
        for name in ("state", "action", "effector_m")
    }
    gap_s = np.abs(log.timestamps_s[nearest(log.timestamps_s, grid_s)] - grid_s)
    known = np.isfinite(streams["effector_m"]).all(axis=2) & (gap_s <= 1.5 / RATE_HZ)[:, None]
    return {**streams, "reliable": known}


def _on_grid(raw: RawCamera, grid_s: ndarray) -> CameraStream:
    chosen = nearest(raw.timestamps_s, grid_s)
    return CameraStream(
        frames=raw.frames.select(chosen),
        timestamps_s=raw.timestamps_s[chosen] - grid_s[0],
        intrinsics=raw.intrinsics,
        depth_mm=None if raw.depth_mm is None else raw.depth_mm[chosen],
    )
