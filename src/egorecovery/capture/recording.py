"""A raw recording: every stream on its own clock, as delivered by the sensors, without cleaning."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, UInt16
from numpy import ndarray

from egorecovery.episodes import Camera, EpisodeId, Intrinsics, JpegFrames, Provenance, Source, Task, episode_id
from egorecovery.episodes.vocabulary import EFFECTOR_DIM, STATE_DIM
from egorecovery.errors import RecordingError
from egorecovery.motion import KeypointOrder

FASTEST_S, SLOWEST_S = 0.0009, 1.0  # allowed median steps of a clock; 1 kHz logs jitter slightly below 1 ms
LONGEST_S = 3600.0  # of a recording, whose grid and pictures are all in memory
LONGEST_GAP_S = 60.0  # a clock that jumps farther was set meanwhile, so no grid can cross the gap
ROTATION_TOLERANCE = 0.1  # of the determinant, which is 1 for a rotation; rounding costs far less
HANDS = ("left", "right")


@dataclass(frozen=True, kw_only=True, eq=False)
class RawCamera:
    """One camera's frames and their capture times."""

    frames: JpegFrames
    timestamps_s: Float[ndarray, " N"]
    intrinsics: Intrinsics
    depth_mm: UInt16[ndarray, "N h w"] | None = None

    def __post_init__(self) -> None:
        _require_seconds(self.timestamps_s)
        if len(self.frames) != len(self.timestamps_s):
            raise RecordingError(f"{len(self.frames)} frames but {len(self.timestamps_s)} timestamps")
        if self.depth_mm is not None and len(self.depth_mm) != len(self.frames):
            raise RecordingError(f"{len(self.frames)} frames but {len(self.depth_mm)} depth maps")


@dataclass(frozen=True, kw_only=True, eq=False)
class HandTracks:
    """Both hands as a tracker reconstructs them, left then right, in the workspace frame. NaN where none was seen."""

    timestamps_s: Float[ndarray, " N"]
    keypoints_m: Float[ndarray, "N 2 21 3"]  # point 0 is the wrist
    wrist_rotation: Float[ndarray, "N 2 3 3"]  # MANO root orientation
    confidence: Float[ndarray, "N 2"]  # 0..1
    order: KeypointOrder

    def __post_init__(self) -> None:
        _require_seconds(self.timestamps_s)
        _require_shapes(
            len(self.timestamps_s),
            keypoints_m=(self.keypoints_m, (2, 21, 3)),
            wrist_rotation=(self.wrist_rotation, (2, 3, 3)),
            confidence=(self.confidence, (2,)),
        )
        self._require_unmirrored()

    def seen(self, min_confidence: float) -> Bool[ndarray, "N 2"]:
        """Samples with enough confidence, all points, and a valid rotation."""
        return (
            (self.confidence >= min_confidence)
            & np.isfinite(self.keypoints_m).all(axis=(2, 3))
            & (np.abs(determinants(self.wrist_rotation) - 1) <= ROTATION_TOLERANCE)
        )

    def _require_unmirrored(self) -> None:
        determinant = determinants(self.wrist_rotation)
        mirrored = (np.abs(determinant + 1) <= ROTATION_TOLERANCE).sum(axis=0)
        given = np.isfinite(determinant).sum(axis=0)
        for hand, name in enumerate(HANDS):
            if 2 * mirrored[hand] > given[hand]:
                raise RecordingError(
                    f"the {name} hand looks mirrored: wrist_rotation has determinant -1 in {mirrored[hand]} of "
                    f"{given[hand]} samples, as when a MANO left hand is made from a flipped right one. Mirror a "
                    f"rotation R on both sides, M @ R @ M with M = diag(-1, 1, 1), and write the file again"
                )


@dataclass(frozen=True, kw_only=True, eq=False)
class HandPoses:
    """Wrists and openings of both hands, left then right, in the workspace frame, without keypoints."""

    timestamps_s: Float[ndarray, " N"]
    wrist_m: Float[ndarray, "N 2 3"]
    wrist_rotation: Float[ndarray, "N 2 3 3"]
    opening_01: Float[ndarray, "N 2"]  # 0 closed, 1 open

    def __post_init__(self) -> None:
        _require_seconds(self.timestamps_s)
        _require_shapes(
            len(self.timestamps_s),
            wrist_m=(self.wrist_m, (2, 3)),
            wrist_rotation=(self.wrist_rotation, (2, 3, 3)),
            opening_01=(self.opening_01, (2,)),
        )

    def seen(self) -> Bool[ndarray, "N 2"]:
        """Samples in which everything is known and the orientation is a valid rotation."""
        return (
            np.isfinite(self.wrist_m).all(axis=2)
            & np.isfinite(self.opening_01)
            & (np.abs(determinants(self.wrist_rotation) - 1) <= ROTATION_TOLERANCE)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotLog:
    """The robot's log: measured states and commanded actions."""

    timestamps_s: Float[ndarray, " N"]
    state: Float[ndarray, "N 14"]
    action: Float[ndarray, "N 14"]
    effector_m: Float[ndarray, "N 2 3"]  # by forward kinematics, in the workspace frame
    effector_state: Float[ndarray, "N 20"] | None = None  # state and action in effector space, where known
    effector_action: Float[ndarray, "N 20"] | None = None

    def __post_init__(self) -> None:
        _require_seconds(self.timestamps_s)
        for name in ("effector_state", "effector_action"):
            if getattr(self, name) is not None:
                _require_shapes(len(self.timestamps_s), **{name: (getattr(self, name), (EFFECTOR_DIM,))})
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
    motion: HandTracks | HandPoses | RobotLog
    provenance: Provenance

    def __post_init__(self) -> None:
        episode_id(self.id)
        if self.source.is_human == isinstance(self.motion, RobotLog):
            raise RecordingError(f"{self.id}: source {self.source} does not go with {type(self.motion).__name__}")

    def clocks(self) -> dict[str, Float[ndarray, " _"]]:
        """The sample times of every stream, by its name."""
        motion = "robot" if isinstance(self.motion, RobotLog) else "hands"
        return {motion: self.motion.timestamps_s, **{str(c): raw.timestamps_s for c, raw in self.cameras.items()}}

    def clock_faults(self) -> tuple[str, ...]:
        """Reasons why the streams have no common grid. Not an error, because the attempt took place and is logged."""
        return tuple(fault for name, clock_s in self.clocks().items() for fault in _clock_faults(name, clock_s))


def determinants(rotations: Float[ndarray, "N 2 3 3"]) -> Float[ndarray, "N 2"]:
    """Determinants: 1 for a rotation, -1 for a mirrored one, NaN for none."""
    finite = np.asarray(np.isfinite(rotations).all(axis=(2, 3)))
    with np.errstate(all="ignore"):
        values = np.linalg.det(np.where(finite[:, :, None, None], rotations, 0.0))
    return np.where(finite, values, np.nan)


def _clock_faults(name: str, clock_s: Float[ndarray, " N"]) -> Iterator[str]:
    if not len(clock_s):
        yield f"{name}: no samples"
    elif not np.isfinite(clock_s).all():
        yield f"{name}: {np.sum(~np.isfinite(clock_s))} of {len(clock_s)} timestamps are not finite"
    elif (backwards := np.diff(clock_s) <= 0).any():
        at = int(np.argmax(backwards)) + 1
        yield (
            f"{name}: timestamps do not increase at sample {at} ({clock_s[at - 1]:.4f} s, then {clock_s[at]:.4f} s); "
            f"fix or drop that sample"
        )
    elif len(clock_s) > 1 and np.diff(clock_s).max() > LONGEST_GAP_S:
        at = int(np.argmax(np.diff(clock_s))) + 1
        yield f"{name}: the clock jumps by {clock_s[at] - clock_s[at - 1]:.0f} s at sample {at}"
    elif len(clock_s) > 1 and (silent_s := float(_gaps(clock_s).sum())) > LONGEST_GAP_S:
        yield (
            f"{name}: no samples for {silent_s:.0f} s in {len(_gaps(clock_s))} gaps of more than {SLOWEST_S:g} s "
            f"(limit {LONGEST_GAP_S:.0f} s in all)"
        )
    elif len(clock_s) > 1 and clock_s[-1] - clock_s[0] > LONGEST_S:
        lasts_s = clock_s[-1] - clock_s[0]
        yield f"{name}: lasts {lasts_s:.0f} s, at most {LONGEST_S:.0f} s are imported; cut it into clips"


def _gaps(clock_s: Float[ndarray, " N"]) -> Float[ndarray, " gaps"]:
    """Clock steps in which nothing was recorded."""
    steps_s = np.diff(clock_s)
    return steps_s[steps_s > SLOWEST_S]


def _require_seconds(clock_s: ndarray) -> None:
    """Refuses times in other units, which would give episodes of hours or of no length."""
    if clock_s.ndim != 1:
        raise RecordingError(f"timestamps_s must have shape (N,), got {clock_s.shape}")
    steps_s = np.diff(clock_s[np.isfinite(clock_s)])
    onward_s = steps_s[steps_s > 0]  # those that do not increase are another fault
    if len(onward_s) and not FASTEST_S <= np.median(onward_s) <= SLOWEST_S:
        raise RecordingError(
            f"timestamps_s has a median step of {np.median(onward_s):g}, between 0.001 and 1 expected; "
            f"are these milliseconds or nanoseconds? seconds are wanted"
        )


def _require_shapes(samples: int, **arrays: tuple[ndarray, tuple[int, ...]]) -> None:
    for name, (array, shape) in arrays.items():
        if array.shape != (samples, *shape):
            raise RecordingError(f"{name} must have shape {(samples, *shape)}, got {array.shape}")
