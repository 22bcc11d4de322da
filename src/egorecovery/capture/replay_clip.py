"""An existing clip, from a store's episode or a raw recording, as cameras and robot would deliver it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.capture.recording import HandPoses, HandTracks, RawCamera, RobotLog
from egorecovery.capture.recording_files import DESCRIPTION, load_recording
from egorecovery.episodes import Camera, Episode, EpisodeStore, Source
from egorecovery.episodes.store import STORE
from egorecovery.errors import CaptureError
from egorecovery.kinematics import EffectorPoses, unpack
from egorecovery.motion import KeypointOrder
from egorecovery.motion.aperture import CLOSED_M, OPEN_M


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplayClip:
    """A clip with every stream on one clock that starts at 0."""

    name: str
    source: Source
    cameras: Mapping[Camera, RawCamera]
    motion: HandTracks | RobotLog

    @property
    def duration_s(self) -> float:
        return max(float(stream.timestamps_s[-1]) for stream in (self.motion, *self.cameras.values()))


def find_clips(path: Path, source: Source) -> list["ClipPlace"]:
    """The clips of a source at a path: an episode, a store, a raw recording, or a folder of those."""
    if (path / STORE).is_file():
        store = EpisodeStore(path)
        places = [ClipPlace(path, name) for name in store.ids() if store.card(name).source is source]
    elif (path.parent / STORE).is_file():
        EpisodeStore(path.parent).path(path.name)  # raises an error that lists the episodes, if this one is missing
        places = [ClipPlace(path.parent, path.name)]
    elif (path / DESCRIPTION).is_file():
        places = [ClipPlace(path, "")]
    else:
        places = [ClipPlace(description.parent, "") for description in sorted(path.glob(f"*/{DESCRIPTION}"))]
    if not places:
        raise CaptureError(
            f"{path}: no {source} clip to replay there; name STORE/EPISODE, STORE, or a folder of raw recordings"
        )
    return places


@dataclass(frozen=True)
class ClipPlace:
    """The place of a clip that is loaded on demand."""

    root: Path
    episode: str  # empty for a raw recording

    def load(self) -> ReplayClip:
        if self.episode:
            episode = EpisodeStore(self.root).read(self.episode)
            return _from_zero(
                ReplayClip(name=episode.id, source=episode.source, cameras=_film(episode), motion=_motion(episode))
            )
        recording = load_recording(self.root)
        faults = recording.clock_faults()
        if faults:
            raise CaptureError(f"{self.root} cannot be replayed: {'; '.join(faults)}")
        if isinstance(recording.motion, HandPoses):
            raise CaptureError(f"{self.root} cannot be replayed: it has wrists alone, not 21 keypoints per hand")
        return _from_zero(
            ReplayClip(name=recording.id, source=recording.source, cameras=recording.cameras, motion=recording.motion)
        )


def _from_zero(clip: ReplayClip) -> ReplayClip:
    first_s = min(float(stream.timestamps_s[0]) for stream in (clip.motion, *clip.cameras.values()))
    return replace(
        clip,
        motion=replace(clip.motion, timestamps_s=clip.motion.timestamps_s - first_s),
        cameras={camera: replace(raw, timestamps_s=raw.timestamps_s - first_s) for camera, raw in clip.cameras.items()},
    )


def _film(episode: Episode) -> dict[Camera, RawCamera]:
    """The pictures that the camera took. Those that the 25 Hz grid repeats are delivered once."""
    cameras = {}
    for camera, stream in episode.cameras.items():
        taken = np.flatnonzero(np.diff(stream.timestamps_s, prepend=-np.inf) > 0)
        cameras[camera] = RawCamera(
            frames=stream.frames.select(taken),
            timestamps_s=stream.timestamps_s[taken],
            intrinsics=stream.intrinsics,
            depth_mm=None if stream.depth_mm is None else stream.depth_mm[taken],
        )
    return cameras


def _motion(episode: Episode) -> HandTracks | RobotLog:
    if episode.source.is_human:
        return hands_of(episode)
    return RobotLog(
        timestamps_s=episode.timestamps_s,
        state=episode.state.astype(float),
        action=episode.action.astype(float),
        effector_m=episode.effector_m.astype(float),
        effector_state=None if episode.effector_state is None else episode.effector_state.astype(float),
        effector_action=None if episode.effector_action is None else episode.effector_action.astype(float),
    )


def hands_of(episode: Episode) -> HandTracks:
    """Hand tracks from which an import gives this episode's motion again.

    A store holds wrists, pinch frames and openings, not 21 keypoints. The wrist and the two fingertips that define
    pinch and opening are exact. The other points lie on the line from the wrist to the pinch.
    """
    frames = len(episode)
    state = episode.state.reshape(frames, 2, 7).astype(float)
    wrist_m = episode.effector_m.astype(float)
    pinch = _pinch(episode, state, wrist_m)
    order = KeypointOrder.MANO
    along = np.linspace(0, 1, 21)[None, None, :, None]
    keypoints_m = wrist_m[:, :, None] + along * (pinch.position_m - wrist_m)[:, :, None]
    half_m = (CLOSED_M + (OPEN_M - CLOSED_M) * state[..., 6]) / 2
    to_thumb_m = pinch.rotation[..., :, 1] * half_m[..., None] * np.array([-1.0, 1.0])[None, :, None]
    keypoints_m[:, :, order.thumb_tip] = pinch.position_m + to_thumb_m
    keypoints_m[:, :, order.index_tip] = pinch.position_m - to_thumb_m
    turns = Rotation.from_euler("xyz", state[..., 3:6].reshape(-1, 3)).as_matrix()
    return HandTracks(
        timestamps_s=episode.timestamps_s,
        keypoints_m=keypoints_m,
        wrist_rotation=turns.reshape(frames, 2, 3, 3),
        confidence=episode.reliable.astype(float),
        order=order,
    )


def _pinch(episode: Episode, state: Float[ndarray, "T 2 7"], wrist_m: Float[ndarray, "T 2 3"]) -> EffectorPoses:
    if episode.effector_state is not None:
        return unpack(episode.effector_state)
    turns = Rotation.from_euler("xyz", state[..., 3:6].reshape(-1, 3)).as_matrix().reshape(*wrist_m.shape, 3)
    ahead_m = 0.12 * turns[..., :, 0]  # old stores have no pinch frame: a hand's length along the wrist's first axis
    axes = np.stack([turns[..., :, 2], turns[..., :, 1], turns[..., :, 0]], axis=-1)
    return EffectorPoses(position_m=wrist_m + ahead_m, rotation=axes, opening_01=state[..., 6])
