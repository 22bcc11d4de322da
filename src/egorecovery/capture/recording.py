"""A raw recording: every stream on its own clock, as the sensors gave it. Nothing is cleaned yet."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt16
from numpy import ndarray

from egorecovery.episodes import Camera, EpisodeId, Intrinsics, JpegFrames, Provenance, Source, Task, episode_id
from egorecovery.episodes.vocabulary import STATE_DIM
from egorecovery.errors import RecordingError
from egorecovery.motion import KeypointOrder


@dataclass(frozen=True, kw_only=True, eq=False)
class RawCamera:
    """One camera's frames with the times they were taken."""

    frames: JpegFrames
    timestamps_s: Float[ndarray, " N"]
    intrinsics: Intrinsics
    depth_mm: UInt16[ndarray, "N h w"] | None = None

    def __post_init__(self) -> None:
        if len(self.frames) != len(self.timestamps_s):
            raise RecordingError(f"{len(self.frames)} frames but {len(self.timestamps_s)} timestamps")
        if self.depth_mm is not None and len(self.depth_mm) != len(self.frames):
            raise RecordingError(f"{len(self.frames)} frames but {len(self.depth_mm)} depth maps")


@dataclass(frozen=True, kw_only=True, eq=False)
class HandTracks:
    """Both hands as a tracker reconstructs them, left then right, in the workspace frame. NaN where it saw none."""

    timestamps_s: Float[ndarray, " N"]
    keypoints_m: Float[ndarray, "N 2 21 3"]  # point 0 is the wrist
    wrist_rotation: Float[ndarray, "N 2 3 3"]  # MANO root orientation
    confidence: Float[ndarray, "N 2"]  # 0..1
    order: KeypointOrder

    def __post_init__(self) -> None:
        _require_shapes(
            len(self.timestamps_s),
            keypoints_m=(self.keypoints_m, (2, 21, 3)),
            wrist_rotation=(self.wrist_rotation, (2, 3, 3)),
            confidence=(self.confidence, (2,)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotLog:
    """The robot's own log: what it measured and what it was told."""

    timestamps_s: Float[ndarray, " N"]
    state: Float[ndarray, "N 14"]
    action: Float[ndarray, "N 14"]
    effector_m: Float[ndarray, "N 2 3"]  # by forward kinematics, in the workspace frame

    def __post_init__(self) -> None:
        _require_shapes(
            len(self.timestamps_s),
            state=(self.state, (STATE_DIM,)),
            action=(self.action, (STATE_DIM,)),
            effector_m=(self.effector_m, (2, 3)),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """One attempt at one episode."""

    id: EpisodeId
    task: Task
    source: Source
    cameras: Mapping[Camera, RawCamera]
    motion: HandTracks | RobotLog
    provenance: Provenance

    def __post_init__(self) -> None:
        episode_id(self.id)
        if self.source.is_human != isinstance(self.motion, HandTracks):
            raise RecordingError(f"{self.id}: source {self.source} does not go with {type(self.motion).__name__}")
        clocks = {"motion": self.motion.timestamps_s, **{c: raw.timestamps_s for c, raw in self.cameras.items()}}
        for name, clock_s in clocks.items():
            if not len(clock_s) or not np.isfinite(clock_s).all():
                raise RecordingError(f"{self.id}: {name} has no timestamps, or some that are not finite")
            backwards = np.diff(clock_s) <= 0
            if backwards.any():
                at = int(np.argmax(backwards)) + 1
                raise RecordingError(
                    f"{self.id}: {name} timestamps do not increase at sample {at} "
                    f"({clock_s[at - 1]:.4f} s, then {clock_s[at]:.4f} s); fix or drop that sample"
                )


def _require_shapes(samples: int, **arrays: tuple[ndarray, tuple[int, ...]]) -> None:
    for name, (array, shape) in arrays.items():
        if array.shape != (samples, *shape):
            raise RecordingError(f"{name} must have shape {(samples, *shape)}, got {array.shape}")
