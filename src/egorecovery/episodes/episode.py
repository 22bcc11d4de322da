"""One demonstration on the 25 Hz grid."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from jaxtyping import Bool, Float32, Float64, UInt16
from numpy import ndarray

from egorecovery.episodes.frames import JpegFrames
from egorecovery.episodes.vocabulary import (
    EFFECTOR_DIM,
    EFFECTORS,
    STATE_DIM,
    Camera,
    EpisodeId,
    Source,
    Task,
    episode_id,
)
from egorecovery.errors import EpisodeError
from egorecovery.storage.typed_json import from_json


@dataclass(frozen=True, kw_only=True)
class Intrinsics:
    """Pinhole parameters in pixels."""

    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float

    def __post_init__(self) -> None:
        if min(self.width, self.height) < 1 or min(self.fx, self.fy) <= 0:
            raise EpisodeError(f"camera intrinsics must have positive size and focal length, got {self}")

    @classmethod
    def from_json(cls, record: object, name: str) -> "Intrinsics":
        """`name` is where the record stands, for messages."""
        return from_json(cls, record, name, EpisodeError)


@dataclass(frozen=True, kw_only=True, eq=False)
class CameraStream:
    """The frame nearest to each grid time, with the time it was really taken."""

    frames: JpegFrames
    timestamps_s: Float64[ndarray, " T"]  # capture times on the episode's clock; repeats where a frame was reused
    intrinsics: Intrinsics
    depth_mm: UInt16[ndarray, "T H W"] | None = None  # 0 = no reading


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Who made the episode, when and at what cost: what the throughput audit counts."""

    operator: str
    started_at: str  # wall clock, ISO 8601 with zone
    stopped_at: str
    staging_s: float = 0.0  # setting up the start state, per episode
    reset_s: float = 0.0  # putting things back at the end
    start_valid: bool = True  # the start was checked to be what the source asks for (failure or nominal)
    completed: bool = True  # the maneuver was carried through to its end
    interruption: str = ""  # what broke the teleoperation or recording off, if anything
    recorder: str = ""  # program or rig that made the recording
    seed: int | None = None
    details: Mapping[str, object] = field(default_factory=dict)  # JSON values: staging parameters, simulator truth

    def __post_init__(self) -> None:
        for name in ("staging_s", "reset_s"):
            seconds = getattr(self, name)
            if not (math.isfinite(seconds) and seconds >= 0):
                raise EpisodeError(f"provenance.{name} must be a finite number of seconds >= 0, got {seconds}")

    @classmethod
    def from_json(cls, record: object) -> "Provenance":
        """What a recording rig wrote, not trusted: every field is checked and named."""
        made = from_json(cls, record, "provenance", EpisodeError)
        started, stopped = (_moment(f"provenance.{name}", getattr(made, name)) for name in ("started_at", "stopped_at"))
        if (started.tzinfo is None) != (stopped.tzinfo is None):
            raise EpisodeError(
                "provenance.started_at and provenance.stopped_at: one has a time zone, the other has none"
            )
        if stopped < started:
            raise EpisodeError(f"provenance.stopped_at ({made.stopped_at}) is before started_at ({made.started_at})")
        return made


def _moment(name: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise EpisodeError(f"{name} must be a time like 2026-03-01T10:00:00+00:00 (ISO 8601), got {text!r}") from None


@dataclass(frozen=True, kw_only=True, eq=False)
class Episode:
    """One demonstration, already on the 25 Hz grid. Arrays share their first axis (T frames)."""

    id: EpisodeId
    task: Task
    source: Source
    timestamps_s: Float64[ndarray, " T"]  # the grid, from 0
    state: Float32[ndarray, "T 14"]  # what the policy perceives of its own body
    action: Float32[ndarray, "T 14"]  # absolute target for the next step
    effector_m: Float32[ndarray, "T 2 3"]  # left, right end effector (or wrist) in the workspace frame
    reliable: Bool[ndarray, "T 2"]  # False where an effector's motion is a guess; such windows get no target
    cameras: Mapping[Camera, CameraStream]
    provenance: Provenance
    # The same in effector space (kinematics/effector_space.py), which robots and people share. Absent in stores that
    # were written before it existed, and for robots that were imported without a kinematic model.
    effector_state: Float32[ndarray, "T 20"] | None = None
    effector_action: Float32[ndarray, "T 20"] | None = None

    def __post_init__(self) -> None:
        episode_id(self.id)
        frames = len(self.timestamps_s)
        if frames < 1:
            raise EpisodeError(f"{self.id}: an episode needs at least one frame")
        wanted = {
            "timestamps_s": ((frames,), np.float64),
            "state": ((frames, STATE_DIM), np.float32),
            "action": ((frames, STATE_DIM), np.float32),
            "effector_m": ((frames, EFFECTORS, 3), np.float32),
            "reliable": ((frames, EFFECTORS), np.bool_),
        }
        if (self.effector_state is None) != (self.effector_action is None):
            raise EpisodeError(f"{self.id}: effector_state and effector_action come together, one is missing")
        if self.effector_state is not None:
            wanted |= {name: ((frames, EFFECTOR_DIM), np.float32) for name in ("effector_state", "effector_action")}
        for name, (shape, dtype) in wanted.items():
            self._require(name, getattr(self, name), shape, dtype)
        for camera, stream in self.cameras.items():
            self._require(f"{camera}.timestamps_s", stream.timestamps_s, (frames,), np.float64)
            if len(stream.frames) != frames:
                raise EpisodeError(f"{self.id}: camera {camera} has {len(stream.frames)} frames, the episode {frames}")
            size_hw = (stream.intrinsics.height, stream.intrinsics.width)
            if stream.frames.size_hw != size_hw:
                raise EpisodeError(
                    f"{self.id}: camera {camera} has frames of {stream.frames.size_hw} (height, width), "
                    f"its intrinsics say {size_hw}"
                )
            if stream.depth_mm is not None:
                self._require(f"{camera}.depth_mm", stream.depth_mm, (frames, *stream.depth_mm.shape[1:]), np.uint16)

    def _require(self, name: str, array: ndarray, shape: tuple[int, ...], dtype: type) -> None:
        if array.shape != shape or array.dtype != dtype:
            raise EpisodeError(
                f"{self.id}: {name} must be {np.dtype(dtype).name} of shape {shape}, got {array.dtype} {array.shape}"
            )

    def __len__(self) -> int:
        return len(self.timestamps_s)

    @property
    def duration_s(self) -> float:
        return float(self.timestamps_s[-1] - self.timestamps_s[0])
