"""ALOHA episodes, laid out as ACT's recorder and Mobile ALOHA's compression lay them out, with plain h5py."""

from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
import simplejpeg

REST = np.array([-0.574, -0.116, 0.6185, 0.0, 1.0684, -0.574])  # of the left arm; the right one mirrors it
MIRROR = np.array([-1, 1, 1, -1, 1, -1])
CAMERAS = ("cam_high", "cam_low", "cam_left_wrist", "cam_right_wrist")
STATE_GRIPPER, ACTION_GRIPPER = (0.02, 0.058), (-0.6, 1.4)  # closed and open, of two scales


@dataclass
class Told:
    """What is written, to compare with."""

    qpos: np.ndarray
    action: np.ndarray
    opening_01: np.ndarray  # (N, 2)
    pictures: dict[str, np.ndarray] = field(default_factory=dict)
    jpegs: dict[str, list[bytes]] = field(default_factory=dict)


def make_episode(frames: int = 60, size: tuple[int, int] = (24, 32), seed: int = 0) -> Told:
    """Arms that wave, grippers that close and open, pictures that all differ; red is much stronger than blue."""
    rng = np.random.default_rng(seed)
    along = np.linspace(0, 1, frames)[:, None]
    swing = 0.25 * np.sin(2 * np.pi * along + rng.uniform(0, 1, 6))
    left, right = REST + swing, MIRROR * REST + 0.5 * swing
    opening = np.stack([np.clip((1 + 1.2 * np.cos(4 * np.pi * along[:, 0])) / 2, 0, 1)] * 2, axis=1)
    opening[:, 1] = 0.5  # one gripper is never used

    def joints(span: tuple[float, float], ahead: float) -> np.ndarray:
        gripper = span[0] + (span[1] - span[0]) * opening
        return np.column_stack([left + ahead, gripper[:, 0], right + ahead, gripper[:, 1]]).astype(np.float32)

    known = Told(qpos=joints(STATE_GRIPPER, 0.0), action=joints(ACTION_GRIPPER, 0.01), opening_01=opening)
    for number, camera in enumerate(CAMERAS):
        picture = np.zeros((frames, *size, 3), np.uint8)
        picture[..., 0] = 200 - number * 10
        picture[..., 1] = (np.arange(frames) * 2 % 200)[:, None, None] + np.arange(size[1]) // 4
        picture[..., 2] = 20
        known.pictures[camera] = picture
    return known


def write_raw(path: Path, known: Told, base: bool = False) -> None:
    """As ACT's and ALOHA's record_episodes.py do."""
    frames = len(known.qpos)
    with h5py.File(path, "w", rdcc_nbytes=1024**2 * 2) as root:
        root.attrs["sim"] = False
        observations = root.create_group("observations")
        image = observations.create_group("images")
        for name, pictures in known.pictures.items():
            image.create_dataset(name, pictures.shape, dtype="uint8", chunks=(1, *pictures.shape[1:]))
        observations.create_dataset("qpos", (frames, 14), dtype="f4")
        observations.create_dataset("qvel", (frames, 14), dtype="f4")
        observations.create_dataset("effort", (frames, 14), dtype="f4")
        root.create_dataset("action", (frames, 14), dtype="f4")
        if base:
            root.create_dataset("base_action", (frames, 2), dtype="f4")
            root["base_action"][...] = 0.1
        root["/observations/qpos"][...] = known.qpos
        root["/observations/qvel"][...] = np.zeros_like(known.qpos)
        root["/observations/effort"][...] = np.zeros_like(known.qpos)
        root["/action"][...] = known.action
        for name, pictures in known.pictures.items():
            root[f"/observations/images/{name}"][...] = pictures


def write_compressed(path: Path, known: Told, swap: bool = False) -> None:
    """As Mobile ALOHA's compress_data.py does: JPEG in rows padded with zeros, lengths as float in compress_len.

    `swap`: as where the encoder was given RGB and took it for BGR.
    """
    with h5py.File(path, "w") as root:
        root.attrs["sim"] = False
        root.attrs["compress"] = True
        root["action"] = known.action
        observations = root.create_group("observations")
        observations["qpos"] = known.qpos
        image = observations.create_group("images")
        lengths = []
        for name in sorted(known.pictures):
            order = slice(None, None, -1 if swap else 1)
            encoded = [
                simplejpeg.encode_jpeg(np.ascontiguousarray(p[..., order]), quality=90, colorsubsampling="444")
                for p in known.pictures[name]
            ]
            known.jpegs[name] = encoded
            longest = max(map(len, encoded))
            stored = image.create_dataset(name, (len(encoded), longest), dtype="uint8")
            for index, one in enumerate(encoded):
                stored[index, : len(one)] = np.frombuffer(one, np.uint8)
            lengths.append([len(one) for one in encoded])
        stored = root.create_dataset("compress_len", np.shape(lengths), dtype="f4")
        stored[...] = lengths


def write_data_set(folder: Path, episodes: int = 3, **shape) -> list[Told]:
    folder.mkdir(parents=True)
    known = [make_episode(seed=seed, **shape) for seed in range(episodes)]
    for number, one in enumerate(known):
        write_raw(folder / f"episode_{number}.hdf5", one)
    return known
