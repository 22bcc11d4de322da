"""Runs a hand tracker over a clip and writes a hand file (docs/hand_tracks.md)."""

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from operator import attrgetter
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from egorecovery.capture.hand_tracking.placing import curls_like_a_right_hand, placed_hand
from egorecovery.capture.hand_tracking.tracker import FoundHand, HandTracker
from egorecovery.capture.recording import HANDS, RawCamera
from egorecovery.capture.recording_images import reading
from egorecovery.errors import RecordingError
from egorecovery.storage.atomic_io import write_file
from egorecovery.storage.containment import require_regular

ENOUGH = 10  # bent hands that must contradict the tracker before it is refused


@dataclass(frozen=True, kw_only=True, eq=False)
class TrackedClip:
    """Hands of one clip in the camera's frame, left then right; NaN where none was found."""

    timestamps_s: Float[ndarray, " N"]
    keypoints_m: Float[ndarray, "N 2 21 3"]
    confidence: Float[ndarray, "N 2"]
    tracker: str

    def seen(self) -> dict[str, float]:
        return {hand: float((self.confidence[:, index] > 0).mean()) for index, hand in enumerate(HANDS)}

    def require_handedness(self) -> None:
        """Refuses tracks in which bent fingers show that left and right are exchanged."""
        wrong = clear = 0
        for index, hand in enumerate(HANDS):
            right, bent = curls_like_a_right_hand(self.keypoints_m[:, index])
            clear += int(bent.sum())
            wrong += int((bent & (right != (hand == "right"))).sum())
        if wrong >= ENOUGH and wrong > clear / 2:
            raise RecordingError(
                f"left and right look exchanged: in {wrong} of {clear} samples fingers bend the other way. Is the "
                f"picture mirrored, as from a front camera? add --mirrored, or leave it out if it was given"
            )

    def save(self, path: Path, world_from_camera: Float[ndarray, "N 4 4"]) -> None:
        payload = BytesIO()
        np.savez(
            payload,
            timestamps_s=self.timestamps_s,
            keypoints=self.keypoints_m,
            confidence=self.confidence,
            keypoint_order=np.array("openpose"),
            units=np.array("m"),
            frame=np.array("camera"),
            world_from_camera=world_from_camera,
            tracker=np.array(self.tracker),
        )
        write_file(path, payload.getvalue())


def track_clip(
    camera: RawCamera, tracker: HandTracker, mirrored: bool = False, advance: Callable[[int, int], None] | None = None
) -> TrackedClip:
    """Tracks hands picture by picture. MediaPipe labels hands as in a mirror; `mirrored` means mirrored pictures."""
    frames = len(camera.frames)
    points_m, confidence = np.full((frames, 2, 21, 3), np.nan), np.zeros((frames, 2))
    for frame in range(frames):
        hands_found = tracker.find(camera.frames.encoded(frame).tobytes())
        depth_mm = None if camera.depth_mm is None else np.asarray(camera.depth_mm[frame])
        for hand in sorted(hands_found, key=attrgetter("score")):  # of two hands of one name the surer one is kept
            index = _index(hand, mirrored)
            placed_m = placed_hand(hand.pixels, hand.metres, camera.intrinsics, depth_mm)
            if placed_m is not None:
                points_m[frame, index], confidence[frame, index] = placed_m, hand.score
        if advance:
            advance(frame + 1, frames)
    return TrackedClip(
        timestamps_s=camera.timestamps_s,
        keypoints_m=points_m,
        confidence=confidence,
        tracker=f"mediapipe {tracker.version}",
    )


def _index(hand: FoundHand, mirrored: bool) -> int:
    named_right = hand.label == "Right"
    return int(named_right if mirrored else not named_right)


def camera_poses(path: Path | None, frames: int) -> Float[ndarray, "N 4 4"]:
    """Camera poses from a file, or identity poses of a camera that stands still and defines the world."""
    if path is None:
        return np.tile(np.eye(4), (frames, 1, 1))
    with reading(path):
        require_regular(path.resolve())  # the user named it, and may name a link
        poses = np.load(path, allow_pickle=False, mmap_mode="r")
    if not isinstance(poses, ndarray) or poses.shape != (frames, 4, 4) or poses.dtype.kind != "f":
        raise RecordingError(f"{path} must hold one 4 x 4 pose for each of the {frames} pictures")
    return np.asarray(poses, np.float64)
