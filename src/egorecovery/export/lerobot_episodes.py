"""What an episode becomes in a LeRobot data set: its columns, and the features that describe them."""

# T frames, C intent coefficients

from collections.abc import Mapping, Sequence

import numpy as np
from numpy import ndarray

from egorecovery.capture.formats.lerobot_files import EFFECTORS
from egorecovery.episodes import RATE_HZ, Camera, Embodiment, Episode
from egorecovery.intent import FrameLabels

CAMERAS = {Camera.HEAD: "cam_high", Camera.LEFT_WRIST: "cam_left_wrist", Camera.RIGHT_WRIST: "cam_right_wrist"}
ARM = {
    Embodiment.ROBOT: [f"joint{number}" for number in range(1, 7)] + ["gripper"],
    Embodiment.HUMAN: ["x", "y", "z", "roll", "pitch", "yaw", "aperture"],
}
POSE = [
    "x",
    "y",
    "z",
    *(f"opening_axis_{axis}" for axis in "xyz"),
    *(f"approach_axis_{axis}" for axis in "xyz"),
    "opening",
]
BOOKKEEPING = {
    "timestamp": "float32",
    **dict.fromkeys(("frame_index", "episode_index", "index", "task_index"), "int64"),
}


def columns(episode: Episode, labels: FrameLabels | None) -> dict[str, ndarray]:
    """State, action, effectors, marks; labels where they are known. (T, D) each."""
    frames = len(episode)
    success = np.zeros((frames, 1), bool)
    success[-1] = True  # only attempts that were carried through are in a store
    values = {
        "observation.state": np.asarray(episode.state),
        "action": np.asarray(episode.action),
        EFFECTORS[0]: np.asarray(episode.effector_m).reshape(frames, 6),
        "observation.effector_reliable": np.asarray(episode.reliable),
        "next.success": success,
    }
    if episode.effector_state is not None and episode.effector_action is not None:
        values |= {EFFECTORS[1]: np.asarray(episode.effector_state), EFFECTORS[2]: np.asarray(episode.effector_action)}
    if labels is not None:
        values |= {
            "in_recovery": labels.in_recovery[:, None],
            "intervention": labels.in_recovery[:, None],
            "intent": np.asarray(labels.intent_m, np.float32),
            "intent_mask": labels.intent_mask[:, None],
            "intent_known": labels.gt_intent_valid[:, None],
        }
    return values


def features(found: Mapping[str, ndarray], embodiment: Embodiment) -> dict[str, dict[str, object]]:
    """Of these columns and of bookkeeping, as info.json lists them."""
    described = {
        name: {"dtype": str(values.dtype), "shape": [values.shape[1]], "names": _names(name, embodiment)}
        for name, values in found.items()
    }
    return described | {name: {"dtype": kind, "shape": [1], "names": None} for name, kind in BOOKKEEPING.items()}


def bookkeeping(frames: int, episode: int, first: int, task: int) -> dict[str, ndarray]:
    number = np.arange(frames)
    return {
        "timestamp": (number / RATE_HZ).astype(np.float32)[:, None],
        "frame_index": number[:, None],
        "episode_index": np.full((frames, 1), episode),
        "index": first + number[:, None],
        "task_index": np.full((frames, 1), task),
    }


def _names(column: str, embodiment: Embodiment) -> Sequence[str] | None:
    parts = {
        "observation.state": ARM[embodiment],
        "action": ARM[embodiment],
        EFFECTORS[0]: ["x", "y", "z"],
        EFFECTORS[1]: POSE,
        EFFECTORS[2]: POSE,
        "observation.effector_reliable": ["reliable"],
    }.get(column)
    return parts and [f"{side}_{part}" for side in ("left", "right") for part in parts]
