"""`--hands FILE`: a hand tracker's output in one npz (docs/hand_tracks.md), as tracks in the workspace frame."""

# N samples

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from egorecovery.capture.palm import palm_rotation
from egorecovery.capture.recording import HANDS, HandTracks
from egorecovery.episodes import Side
from egorecovery.errors import RecordingError
from egorecovery.motion import KeypointOrder
from egorecovery.storage.bounded_npz import read_npz

FRAMES = ("camera", "world", "workspace")
UNITS_M = {"m": 1.0, "mm": 1e-3}
NEEDED = ("timestamps_s", "keypoints", "confidence", "keypoint_order", "units", "frame")
OPTIONAL = ("world_from_camera", "wrist_rotation", "filled", "tracker")
MAX_SAMPLES = 200_000
FARTHEST_M = 20.0  # a hand farther away means other units
RIGID = 0.02  # tolerance of a camera's rotation


@dataclass(frozen=True, kw_only=True, eq=False)
class HandFile:
    """The file's content, in metres, with points in `frame`."""

    path: Path
    timestamps_s: Float[ndarray, " N"]
    keypoints_m: Float[ndarray, "N 2 21 3"]
    confidence: Float[ndarray, "N 2"]
    order: KeypointOrder
    frame: str  # camera: the head camera's at that moment; world: the tracker's fixed frame; workspace
    world_from_camera: Float[ndarray, "N 4 4"] | None
    wrist_rotation: Float[ndarray, "N 2 3 3"] | None
    filled: Bool[ndarray, "N 2"]  # invented by the tracker where it saw no hand
    tracker: str

    @classmethod
    def load(cls, path: Path) -> "HandFile":
        arrays = read_npz(path, RecordingError)
        for name in NEEDED:
            if name not in arrays:
                raise RecordingError(f"{path} lacks {name}; it holds {', '.join(arrays)} (docs/hand_tracks.md)")
        unknown = arrays.keys() - {*NEEDED, *OPTIONAL}
        if unknown:
            raise RecordingError(f"{path}: {min(unknown)} is not known; {', '.join((*NEEDED, *OPTIONAL))} are")
        samples = len(arrays["timestamps_s"]) if arrays["timestamps_s"].ndim == 1 else 0
        if not 2 <= samples <= MAX_SAMPLES:
            raise RecordingError(f"{path}: timestamps_s must have shape (N,), N from 2 to {MAX_SAMPLES}")
        unit_m = UNITS_M[_word(arrays, "units", tuple(UNITS_M), path)]
        made = cls(
            path=path,
            timestamps_s=_numbers(arrays, "timestamps_s", (samples,), path),
            keypoints_m=_numbers(arrays, "keypoints", (samples, 2, 21, 3), path) * unit_m,
            confidence=_numbers(arrays, "confidence", (samples, 2), path),
            order=KeypointOrder(_word(arrays, "keypoint_order", tuple(KeypointOrder), path)),
            frame=_word(arrays, "frame", FRAMES, path),
            world_from_camera=_poses(arrays, samples, unit_m, path),
            wrist_rotation=_numbers(arrays, "wrist_rotation", (samples, 2, 3, 3), path)
            if "wrist_rotation" in arrays
            else None,
            filled=_numbers(arrays, "filled", (samples, 2), path) > 0
            if "filled" in arrays
            else np.zeros((samples, 2), bool),
            tracker=str(arrays["tracker"]) if "tracker" in arrays else "unknown",
        )
        made._require_sane()
        return made

    def _require_sane(self) -> None:
        if self.frame == "camera" and self.world_from_camera is None:
            raise RecordingError(
                f"{self.path}: points are in the camera's frame, so world_from_camera is needed for every sample; for "
                f"a camera that stands still write the same pose throughout"
            )
        with np.errstate(invalid="ignore"):
            far = np.asarray((np.abs(self.keypoints_m) > FARTHEST_M).any(axis=(1, 2, 3)))
        if far.mean() > 0.5:
            raise RecordingError(
                f"{self.path}: most points are more than {FARTHEST_M:g} m away; are the units right? they say metres "
                f"after units were applied"
            )

    def tracks(self, workspace_from_data: Float[ndarray, "4 4"] | None = None) -> HandTracks:
        """Tracks in the workspace frame. Points that the tracker filled in count as not seen."""
        points_m = self._in_fixed_frame()
        turns = self._fixed_wrist_rotation(points_m)
        if workspace_from_data is not None:
            turn, shift_m = workspace_from_data[:3, :3], workspace_from_data[:3, 3]
            points_m, turns = points_m @ turn.T + shift_m, turn @ turns
        return HandTracks(
            timestamps_s=self.timestamps_s,
            keypoints_m=points_m,
            wrist_rotation=turns,
            confidence=np.where(self.filled, 0.0, np.nan_to_num(self.confidence, nan=0.0)),
            order=self.order,
        )

    def _in_fixed_frame(self) -> Float[ndarray, "N 2 21 3"]:
        if self.frame != "camera" or self.world_from_camera is None:
            return self.keypoints_m
        turn, shift_m = self.world_from_camera[:, :3, :3], self.world_from_camera[:, :3, 3]
        return np.einsum("nij,nhkj->nhki", turn, self.keypoints_m) + shift_m[:, None, None]

    def _fixed_wrist_rotation(self, points_m: Float[ndarray, "N 2 21 3"]) -> Float[ndarray, "N 2 3 3"]:
        if self.wrist_rotation is None:
            rotations = [palm_rotation(points_m[:, side.effector], self.order, side is Side.RIGHT) for side in Side]
            return np.stack(rotations, axis=1)
        if self.frame != "camera" or self.world_from_camera is None:
            return self.wrist_rotation
        return self.world_from_camera[:, None, :3, :3] @ self.wrist_rotation

    def seen(self) -> dict[str, float]:
        """The share of samples in which each hand was seen, as text."""
        known = np.isfinite(self.keypoints_m).all(axis=(2, 3)) & ~self.filled
        return {hand: float(known[:, index].mean()) for index, hand in enumerate(HANDS)}


def _word(arrays: dict[str, ndarray], name: str, words: tuple[str, ...], path: Path) -> str:
    text = str(arrays[name]) if arrays[name].shape == () else ""
    if text not in words:
        raise RecordingError(f"{path}: {name} must be one of {', '.join(words)}, got {text[:40]!r}")
    return text


def _numbers(arrays: dict[str, ndarray], name: str, shape: tuple[int, ...], path: Path) -> ndarray:
    array = arrays[name]
    if array.dtype.kind not in "fiub" or array.shape != shape:
        raise RecordingError(f"{path}: {name} must be numbers of shape {shape}, got {array.dtype} {array.shape}")
    return array.astype(np.float64)


def _poses(arrays: dict[str, ndarray], samples: int, unit_m: float, path: Path) -> ndarray | None:
    if "world_from_camera" not in arrays:
        return None
    poses = _numbers(arrays, "world_from_camera", (samples, 4, 4), path)
    turns = poses[:, :3, :3]
    with np.errstate(invalid="ignore"):
        good = np.abs(turns @ turns.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2)) < RIGID
        good &= (np.linalg.det(np.where(good[:, None, None], turns, np.eye(3))) > 0) & np.isfinite(poses).all(
            axis=(1, 2)
        )
    if not good.all():
        raise RecordingError(
            f"{path}: world_from_camera is no rigid pose in {np.sum(~good)} of {samples} samples, first at sample "
            f"{int(np.argmin(good))}; columns of the rotation are the camera's axes in the world"
        )
    poses[:, :3, 3] *= unit_m
    return poses
