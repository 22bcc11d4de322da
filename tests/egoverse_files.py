"""EgoVerse episodes as its writer lays them out: Zarr v3, one shard per array, padded, JPEG as blobs, attributes."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
import zarr
from scipy.spatial.transform import Rotation
from zarr.core.dtype import VariableLengthBytes

FRAMES, CHUNK, FPS = 60, 25, 30  # padded to 75
CAMERAS = ("images.front_1", "images.left_wrist", "images.right_wrist")


def write_episode(path: Path, numbers: dict[str, np.ndarray], cameras: tuple[str, ...] = CAMERAS, **attributes: Any):
    """The encoded pictures by camera."""
    frames = len(next(iter(numbers.values())))
    padded = -(-frames // CHUNK) * CHUNK
    known = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr says that blobs are not in the specification yet
        group = zarr.open(str(path), mode="w", zarr_format=3)
        for name, values in numbers.items():
            shape = (padded, *values.shape[1:])
            chunks = (CHUNK, *values.shape[1:])
            made = group.create_array(name, shape=shape, chunks=chunks, shards=shape, dtype=values.dtype, fill_value=0)
            made[:frames] = values
        for number, name in enumerate(cameras):
            made = group.create_array(name, shape=(padded,), chunks=(1,), shards=(padded,), dtype=VariableLengthBytes())
            encoded = np.empty(padded, object)
            for frame in range(padded):
                encoded[frame] = picture(min(frame, frames - 1), number)
            made[:] = encoded
            known[name] = list(encoded[:frames])
        features = {name: {"dtype": "float32"} for name in numbers} | {name: {"dtype": "jpeg"} for name in cameras}
        usual = {"embodiment": "eva_bimanual", "total_frames": frames, "fps": FPS, "task_name": "stack"}
        group.attrs.update({**usual, "features": features, **attributes})
    return known


def picture(frame: int, camera: int) -> bytes:
    rgb = np.full((24, 32, 3), 60 + camera * 20, np.uint8)
    rgb[:, frame % 32] = 250
    return simplejpeg.encode_jpeg(rgb, quality=85)


def path_m(frames: int = FRAMES, side: int = 1) -> np.ndarray:
    along = np.linspace(0, 1, frames)
    return np.stack([0.3 + 0.2 * along, side * (0.15 + 0.05 * np.sin(3 * along)), 0.1 + 0.1 * along**2], axis=1)


def turns(frames: int = FRAMES, side: int = 1) -> Rotation:
    along = np.linspace(0, 1, frames)
    return Rotation.from_euler("xyz", np.stack([along * side, 0.3 * along, -0.5 * along], axis=1))


def poses(frames: int = FRAMES, side: int = 1) -> np.ndarray:
    """x y z, w x y z."""
    return np.column_stack([path_m(frames, side), turns(frames, side).as_quat(scalar_first=True)])


def robot_numbers(frames: int = FRAMES) -> dict[str, np.ndarray]:
    """Upstream keys of a robot without joint angles."""
    gripper = np.linspace(0.0, 0.08, frames)[:, None]
    numbers = {}
    for name, side in (("left", 1), ("right", -1)):
        numbers[f"{name}.obs_ee_pose"] = poses(frames, side)
        numbers[f"{name}.cmd_ee_pose"] = poses(frames, side) + [0.001, 0, 0, 0, 0, 0, 0]
        numbers[f"{name}.gripper"] = gripper
    return numbers


def hand_points(frames: int = FRAMES, side: int = 1) -> np.ndarray:
    """21 points about a moving wrist, in Aria's order: tips first, wrist at 5."""
    shape = np.zeros((21, 3))
    shape[6:, 0] = np.linspace(0.02, 0.08, 15)
    shape[0], shape[1] = [0.09, 0.02 * side, 0.0], [0.10, -0.01 * side, 0.0]
    shape[2:5] = [[0.1, -0.02 * side, 0], [0.095, -0.03 * side, 0], [0.09, -0.04 * side, 0]]
    return path_m(frames, side)[:, None] + shape


def human_numbers(frames: int = FRAMES) -> dict[str, np.ndarray]:
    numbers = {"obs_head_pose": poses(frames)}
    for name, side in (("left", 1), ("right", -1)):
        numbers[f"{name}.obs_ee_pose"] = poses(frames, side)
        numbers[f"{name}.obs_wrist_pose"] = poses(frames, side)
        numbers[f"{name}.obs_keypoints"] = hand_points(frames, side).reshape(frames, 63)
    return numbers


def authors_hand_numbers(frames: int = FRAMES, boundary: int = 20) -> dict[str, np.ndarray]:
    """The authors' keys of people, with their labels."""
    opening = np.linspace(0, 1, frames)[:, None]
    angles = [turns(frames, side).as_euler("xyz") for side in (1, -1)]
    state = np.column_stack([path_m(frames, 1), angles[0], opening, path_m(frames, -1), angles[1], opening])
    recovering = np.arange(frames) <= boundary
    return {
        "observations.state.ee_pose": state.astype(np.float32),
        "actions_ee": state.astype(np.float32),
        "sr_label": recovering,
        "gt_intent_raw": np.tile(np.linspace(1, 0, frames)[:, None], (1, 4)).astype(np.float32),
        "gt_intent_valid": np.arange(frames) < frames - 10,
        "recovery_intent_valid": recovering & (np.arange(frames) < boundary - 5),
    }


def authors_robot_numbers(joints: np.ndarray, actions: np.ndarray) -> dict[str, np.ndarray]:
    return {"observations.state.joint_positions": joints, "actions_joints": actions}
