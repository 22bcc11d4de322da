"""Episodes of EgoVerse and EgoMimic, and of the paper's authors: one Zarr layout, different keys."""

# N samples

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.capture.formats.pictures import same_sizes, whole_jpeg
from egorecovery.capture.formats.zarr_reading import MAX_FRAMES, ZarrGroup
from egorecovery.episodes import JpegFrames, Side
from egorecovery.episodes.vocabulary import STATE_DIM
from egorecovery.errors import RecordingError

JOINTS, JOINT_ACTIONS = "observations.state.joint_positions", "actions_joints"  # the authors' robots
HAND_STATE = "observations.state.ee_pose"  # the authors' people: x y z roll pitch yaw opening per hand
LABELS = ("sr_label", "gt_intent_raw", "gt_intent_valid", "recovery_intent_valid")
PICTURES = ("images.", "observations.images.")
POSE = 7  # x y z, then a quaternion with the real part first
MISSING_M = 1e6  # larger coordinates mark a hand that was not seen; the files use 1e9
UNIT = 0.05  # tolerance of a quaternion's length
# 21 points as Aria numbers them: five tips from the thumb on, the wrist, two more of the thumb, three more of each
# finger, the middle of the palm. The thumb has no fourth point: its third stands for it.
OPENPOSE_OF_ARIA = (5, 6, 6, 7, 0, 8, 9, 10, 1, 11, 12, 13, 2, 14, 15, 16, 3, 17, 18, 19, 4)

# joints: 14 numbers, or six per arm and grippers. poses: tool poses and grippers. hands: wrist poses and openings.
# keypoints: 21 points per hand.
Kind = Literal["joints", "poses", "hands", "keypoints"]


@dataclass(frozen=True, kw_only=True)
class EgoVerseEpisode:
    """One episode without its pictures."""

    path: Path
    frames: int
    rate_hz: float | None
    kinds: tuple[Kind, ...]  # of motion in the episode, best first
    cameras: tuple[str, ...]  # full names of the arrays
    labels: tuple[str, ...]
    described: Mapping[str, object] = field(default_factory=dict)  # the file's embodiment and task; stored, not used


def look_at(path: Path) -> EgoVerseEpisode:
    group = ZarrGroup.at(path)
    names = group.names()
    frames, fps = group.attributes.get("total_frames"), group.attributes.get("fps")
    if not isinstance(frames, int) or isinstance(frames, bool) or not 2 <= frames <= MAX_FRAMES:
        raise RecordingError(
            f"{path}: total_frames is {frames!r}, a whole number from 2 to {MAX_FRAMES} is wanted; "
            f"arrays are padded, so their length does not tell"
        )
    return EgoVerseEpisode(
        path=path,
        frames=frames,
        rate_hz=_rate_hz(fps),
        kinds=_kinds(set(names)),
        cameras=tuple(name for name in names if name.startswith(PICTURES) and group.is_pictures(name)),
        labels=tuple(name for name in LABELS if name in names),
        described={
            name: group.attributes[name]
            for name in ("embodiment", "task_name", "task_description")
            if isinstance(group.attributes.get(name), (str, int))
        },
    )


def _rate_hz(fps: object) -> float | None:
    if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not 1 <= fps <= 1000:
        return None
    return float(fps)


def _kinds(names: set[str]) -> tuple[Kind, ...]:
    def both(*suffixes: str) -> bool:
        return all(f"{side}.{suffix}" in names for side in Side for suffix in suffixes)

    grippers = _gripper_names(names) is not None
    kinds: list[Kind] = []
    if {JOINTS, JOINT_ACTIONS} <= names or (both("obs_joints", "cmd_joints") and grippers):
        kinds.append("joints")
    if both("obs_ee_pose", "cmd_ee_pose") and grippers:
        kinds.append("poses")
    if both("obs_keypoints") and (both("obs_wrist_pose") or both("obs_ee_pose")):
        kinds.append("keypoints")
    if HAND_STATE in names:
        kinds.append("hands")
    return tuple(kinds)


def _gripper_names(names: set[str]) -> tuple[str, str] | None:
    """Names of the measured and the commanded gripper. Older files have one for both."""
    for state, action in (("obs_gripper", "cmd_gripper"), ("gripper", "gripper")):
        if all(f"{side}.{name}" in names for side in Side for name in (state, action)):
            return state, action
    return None


@dataclass(frozen=True)
class EgoVerseStreams:
    """The numbers of one episode, without padding."""

    episode: EgoVerseEpisode

    def joints(self) -> tuple[Float[ndarray, "N 14"], Float[ndarray, "N 14"]]:
        """State and action, with raw gripper readings."""
        if JOINTS in self._group:
            return self._finite(JOINTS, STATE_DIM), self._finite(JOINT_ACTIONS, STATE_DIM)
        return self._per_side("obs_joints", 6, gripper=0), self._per_side("cmd_joints", 6, gripper=1)

    def tool_poses(self) -> tuple[Float[ndarray, "N 2 8"], Float[ndarray, "N 2 8"]]:
        """State and action per arm: x y z, w x y z, gripper."""
        state, action = (
            self._per_side(name, POSE, gripper).reshape(-1, 2, POSE + 1)
            for gripper, name in enumerate(("obs_ee_pose", "cmd_ee_pose"))
        )
        for name, poses in (("obs_ee_pose", state), ("cmd_ee_pose", action)):
            bad = np.asarray(~_unit(poses[..., 3:7]).all(axis=1))
            if bad.any():
                raise RecordingError(
                    f"{self.episode.path}: {name} has no unit quaternion in {bad.sum()} of {len(bad)} frames, first at "
                    f"frame {int(np.argmax(bad))}; x y z and then w x y z are wanted"
                )
        return state, action

    def recorded_positions_m(self) -> Float[ndarray, "N 2 3"] | None:
        """Positions of both tools, if the episode has them."""
        if not all(f"{side}.obs_ee_pose" in self._group for side in Side):
            return None
        return np.stack([self._finite(f"{side}.obs_ee_pose", POSE)[:, :3] for side in Side], axis=1)

    def hand_state(self) -> Float[ndarray, "N 2 7"]:
        """Hand states: x y z, roll pitch yaw and opening per hand."""
        return self._numbers(HAND_STATE, STATE_DIM).reshape(-1, 2, STATE_DIM // 2)

    def keypoints_m(self) -> Float[ndarray, "N 2 21 3"]:
        """Keypoints in the episode's order; NaN where a hand is marked as not seen."""
        points = []
        for side in Side:
            name = f"{side}.obs_keypoints"
            shape = (63,) if self._group.width(name) == (63,) else (21, 3)
            points.append(self._group.numbers(name, self.episode.frames, *shape).reshape(-1, 21, 3))
        return _unseen_as_nan(np.stack(points, axis=1).astype(np.float64))

    def wrists(self) -> tuple[str, Float[ndarray, "N 2 3 3"]]:
        """The source array's name and the rotation matrices; NaN where there is none."""
        name = "obs_wrist_pose" if all(f"{side}.obs_wrist_pose" in self._group for side in Side) else "obs_ee_pose"
        turns = np.stack([self._numbers(f"{side}.{name}", POSE)[:, 3:] for side in Side], axis=1)
        known = _unit(turns)
        matrices = np.full((len(turns), 2, 3, 3), np.nan)
        if known.any():
            matrices[known] = Rotation.from_quat(turns[known], scalar_first=True).as_matrix()
        return name, matrices

    def labels(self) -> dict[str, ndarray]:
        """Labels that the authors' tools wrote beside the motion."""
        labels = {}
        for name in self.episode.labels:
            width = self._group.width(name)
            if len(width) > 1 or (width and width[0] > 64):
                raise RecordingError(f"{self.episode.path / name} has frames of shape {width}; labels are short")
            labels[name] = self._group.numbers(name, self.episode.frames, *width)
        return labels

    def pictures(self, camera: str) -> JpegFrames:
        """The camera's JPEG pictures, byte for byte."""
        where = f"{self.episode.path}: {camera}"
        blobs = self._group.blobs(camera, self.episode.frames)
        whole = (whole_jpeg(blob, f"{where}, frame {number}") for number, blob in enumerate(blobs))
        return JpegFrames.pack(list(same_sizes(whole, where)))

    @property
    def _group(self) -> ZarrGroup:
        return ZarrGroup.at(self.episode.path)

    def _numbers(self, name: str, columns: int) -> ndarray:
        return self._group.numbers(name, self.episode.frames, columns).astype(np.float64)

    def _finite(self, name: str, columns: int) -> ndarray:
        numbers = self._numbers(name, columns)
        bad = np.asarray(~(np.isfinite(numbers) & (np.abs(numbers) < MISSING_M)).all(axis=1))
        if bad.any():
            raise RecordingError(
                f"{self.episode.path}: {name} is NaN, infinite or marked as missing in {bad.sum()} of {len(bad)} "
                f"frames, first at frame {int(np.argmax(bad))}; a robot knows its own joints, cut these frames"
            )
        return numbers

    def _per_side(self, name: str, columns: int, gripper: int) -> Float[ndarray, "N D"]:
        """Left then right, each with its gripper last; `gripper` 0 is the measured one, 1 the commanded one."""
        grippers = _gripper_names(set(self._group.names()))
        assert grippers is not None, "checked before"
        parts = []
        for side in Side:
            parts += [self._finite(f"{side}.{name}", columns), self._opening(f"{side}.{grippers[gripper]}")]
        return np.concatenate(parts, axis=1)

    def _opening(self, name: str) -> Float[ndarray, "N 1"]:
        if self._group.width(name) == ():
            return self._group.numbers(name, self.episode.frames).astype(np.float64)[:, None]
        return self._finite(name, 1)


def in_openpose_order(points: Float[ndarray, "N 2 21 3"]) -> Float[ndarray, "N 2 21 3"]:
    """Aria's points, reordered to MediaPipe's and HaMeR's order."""
    return points[:, :, OPENPOSE_OF_ARIA]


def _unseen_as_nan(points_m: Float[ndarray, "N 2 21 3"]) -> Float[ndarray, "N 2 21 3"]:
    seen = np.asarray((np.isfinite(points_m) & (np.abs(points_m) < MISSING_M)).all(axis=(2, 3)))
    seen &= np.ptp(np.where(seen[..., None, None], points_m, 0.0), axis=2).max(axis=2) > 0  # all zero: padding
    return np.where(seen[:, :, None, None], points_m, np.nan)


def _unit(quaternions: Float[ndarray, "*N 4"]) -> ndarray:
    with np.errstate(all="ignore"):
        return np.abs(np.linalg.norm(quaternions, axis=-1) - 1) < UNIT
