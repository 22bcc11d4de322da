"""Turns tracked hands into the streams of an episode: cleaned, smoothed and resampled to the grid."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Float32
from numpy import ndarray
from scipy.spatial.transform import Rotation

from egorecovery.capture.recording import HANDS, HandPoses, HandTracks
from egorecovery.errors import MotionError
from egorecovery.kinematics import EffectorPoses, pack
from egorecovery.motion import Cleaning, CleanTrack, Smoothing, aperture_01, clean_track, pinch_track

UNCHANGED = Smoothing(median=1, window=1, order=0)


def track_streams(
    hands: HandTracks, grid_s: Float[ndarray, " T"], min_confidence: float, cleaning: Cleaning
) -> dict[str, ndarray]:
    """Streams from 21 keypoints per hand, as a tracker gives them."""
    seen = hands.seen(min_confidence)
    _require_both(seen, f"a confidence of {min_confidence} or more, finite keypoints and a rotation matrix")
    tracks = [_clean_hand(hands, hand, seen[:, hand], grid_s, cleaning) for hand in range(2)]
    pinch = _effector_vectors(tracks)
    return {**_streams(tracks), "effector_state": pinch, "effector_action": _next(pinch)}


def pose_streams(hands: HandPoses, grid_s: Float[ndarray, " T"], cleaning: Cleaning) -> dict[str, ndarray]:
    """Streams from smoothed wrists and openings. Jumps and gaps are bridged; the rest is kept.

    Without fingertips there is no effector space.
    """
    seen = hands.seen()
    _require_both(seen, "a finite wrist, a rotation and an opening")
    known = Cleaning(jumps=cleaning.jumps, smoothing=UNCHANGED, max_bridge_s=cleaning.max_bridge_s)
    return _streams(
        [
            clean_track(
                times_s=hands.timestamps_s,
                wrist_m=hands.wrist_m[:, hand],
                quaternions=_quaternions(hands.wrist_rotation[:, hand], seen[:, hand]),
                aperture_01=hands.opening_01[:, hand],
                pinch=None,
                usable=seen[:, hand],
                grid_s=grid_s,
                how=known,
            )
            for hand in range(2)
        ]
    )


def _require_both(seen: Bool[ndarray, "N 2"], wanted: str) -> None:
    for hand, name in enumerate(HANDS):
        if not seen[:, hand].any():
            raise MotionError(f"hands: the {name} hand was never seen: none of {len(seen)} samples has {wanted}")


def _streams(tracks: Sequence[CleanTrack]) -> dict[str, ndarray]:
    state = np.concatenate([track.state() for track in tracks], axis=1).astype(np.float32)
    return {
        "state": state,
        # Absolute hand targets (appendix, training): the hand's state one step later; the last frame repeats.
        "action": _next(state),
        "effector_m": np.stack([track.wrist_m for track in tracks], axis=1).astype(np.float32),
        "reliable": np.stack([track.reliable for track in tracks], axis=1),
    }


def _next(vectors: Float32[ndarray, "T D"]) -> Float32[ndarray, "T D"]:
    return np.concatenate([vectors[1:], vectors[-1:]])


def _effector_vectors(tracks: Sequence[CleanTrack]) -> Float32[ndarray, "T 20"]:
    """Both hands in effector space: pinch frames and openings."""
    rotations = [Rotation.from_quat(track.pinch_quaternions).as_matrix() for track in tracks]
    poses = EffectorPoses(
        position_m=np.stack([np.asarray(track.pinch_m) for track in tracks], axis=1),
        rotation=np.stack(rotations, axis=1),
        opening_01=np.stack([track.aperture_01 for track in tracks], axis=1),
    )
    return pack(poses).astype(np.float32)


def _clean_hand(
    hands: HandTracks, hand: int, seen: Bool[ndarray, " N"], grid_s: Float[ndarray, " T"], cleaning: Cleaning
) -> CleanTrack:
    keypoints_m = hands.keypoints_m[:, hand]
    return clean_track(
        times_s=hands.timestamps_s,
        wrist_m=keypoints_m[:, 0],
        quaternions=_quaternions(hands.wrist_rotation[:, hand], seen),
        aperture_01=aperture_01(keypoints_m, hands.order),
        pinch=pinch_track(keypoints_m, hands.order, right_hand=HANDS[hand] == "right"),
        usable=seen,
        grid_s=grid_s,
        how=cleaning,
    )


def _quaternions(matrices: Float[ndarray, "N 3 3"], seen: Bool[ndarray, " N"]) -> Float[ndarray, "N 4"]:
    return Rotation.from_matrix(np.where(seen[:, None, None], matrices, np.eye(3))).as_quat()
