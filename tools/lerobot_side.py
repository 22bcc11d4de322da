"""LeRobot's own half of tools/interop_lerobot.py: runs in LeRobot's environment, imports nothing of ours.

python tools/lerobot_side.py read DATA_SET FRAMES.npz      every frame and column as LeRobot returns them
python tools/lerobot_side.py write DATA_SET TRUTH.npz      a data set from LeRobot's writer, and what went into it
python tools/lerobot_side.py time DATA_SET                 seconds of LeRobot's loader: clock, processor
"""

import os
import sys
import time
import types
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from inspect import signature
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

import av
import numpy as np
import torch

TASK = "put the cube on the other"
CAMERAS = ("cam_high", "cam_left_wrist", "cam_right_wrist")


class VideoReader:
    """What LeRobot's `pyav` backend asks of torchvision, which does not install beside torch on a CPU."""

    def __init__(self, path: str, stream: str) -> None:
        self.container = av.open(path)
        self._stream = self.container.streams.video[0]

    def seek(self, time_s: float, keyframes_only: bool = False) -> "VideoReader":
        self.container.seek(int(time_s / self._stream.time_base), stream=self._stream)
        return self

    def __iter__(self):
        for frame in self.container.decode(self._stream):
            yield {"data": torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1), "pts": frame.time}


class ToTensor:
    def __call__(self, image) -> torch.Tensor:
        return torch.from_numpy(np.asarray(image, np.float32) / 255).permute(2, 0, 1)


def stand_in_for_torchvision() -> None:
    def module(name: str, **names: object) -> types.ModuleType:
        made = types.ModuleType(name)
        made.__spec__, made.__path__ = ModuleSpec(name, None), []
        vars(made).update(names)
        sys.modules[name] = made
        return made

    reader = module("torchvision.io", VideoReader=VideoReader)
    transforms = module("torchvision.transforms", ToTensor=ToTensor)
    module("torchvision.transforms.v2")
    module("torchvision", io=reader, transforms=transforms, set_video_backend=lambda name: None)


def read(root: Path, out: Path) -> None:
    data_set = opened(root)
    columns = {name: [] for name in data_set[0]}
    for index in range(len(data_set)):
        for name, value in data_set[index].items():
            columns[name].append(value if isinstance(value, str) else np.asarray(value))
    arrays = {name: np.stack(values) for name, values in columns.items() if not isinstance(values[0], str)}
    for name in data_set.meta.camera_keys:
        arrays[name] = np.rint(arrays[name] * 255).astype(np.uint8).transpose(0, 2, 3, 1)
    mean = data_set.meta.stats["observation.state"]["mean"]
    np.savez(out, tasks=np.array(columns["task"]), state_mean=mean, rate_hz=data_set.fps, **arrays)


def write(root: Path, truth: Path, rate_hz: int = 50, episodes: int = 3) -> None:
    """Videos of two cameras and images of a third; lengths differ, so that offsets matter; marked pictures."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    kinds = dict(zip(CAMERAS, ("video", "video", "image"), strict=True))
    shape = (96, 128, 3)
    features = {
        f"observation.images.{camera}": {"dtype": kind, "shape": shape, "names": ["height", "width", "channels"]}
        for camera, kind in kinds.items()
    }
    for name in ("observation.state", "action"):
        features[name] = {"dtype": "float32", "shape": (14,), "names": None}
    for name in ("is_intervention", "next.success"):
        features[name] = {"dtype": "bool", "shape": (1,), "names": None}
    data_set = LeRobotDataset.create("me/interop", rate_hz, features, root=root, robot_type="aloha", **h264())
    older = not hasattr(data_set, "finalize")  # writes v2.1
    rng, kept = np.random.default_rng(0), {}
    for episode in range(episodes):
        length = 60 + 17 * episode
        state = np.cumsum(rng.normal(0, 0.02, (length, 14)), axis=0).astype(np.float32)
        state[:, [6, 13]] = np.linspace(0, 1, length)[:, None]
        action = np.concatenate([state[1:], state[-1:]])
        for frame in range(length):
            pictures = {f"observation.images.{c}": marked(frame, episode, n, shape) for n, c in enumerate(CAMERAS)}
            values = {
                **pictures,
                "observation.state": state[frame],
                "action": action[frame],
                "is_intervention": np.array([10 <= frame < 40]),
                "next.success": np.array([frame == length - 1]),
            }
            if older:
                data_set.add_frame(values, TASK)
            else:
                data_set.add_frame({**values, "task": TASK})
        data_set.save_episode()
        kept |= {f"state_{episode}": state, f"action_{episode}": action}
    if not older:
        data_set.finalize()
    np.savez(truth, episodes=episodes, rate_hz=rate_hz, **kept)


def h264() -> dict[str, object]:
    """How LeRobot is asked for this codec: 0.4 by a name, 0.6 by a configuration, 0.3 not at all (it writes AV1)."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    try:
        from lerobot.configs.video import RGBEncoderConfig
    except ImportError:
        return {"vcodec": "h264"} if "vcodec" in signature(LeRobotDataset.create).parameters else {}
    return {"rgb_encoder": RGBEncoderConfig(vcodec="h264")}


def marked(frame: int, episode: int, camera: int, shape: tuple[int, int, int]) -> np.ndarray:
    """A picture that says in 12 dark and bright fields which one it is."""
    picture = np.empty(shape, np.uint8)
    number = frame | episode << 8 | camera << 10
    for bit in range(12):
        row, column = divmod(bit, 4)
        picture[row * 32 : row * 32 + 32, column * 32 : column * 32 + 32] = 215 if number >> bit & 1 else 40
    return picture


def time_loader(root: Path) -> None:
    """Every sample once, in order, in this process."""
    data_set = opened(root)
    started, used = time.perf_counter(), time.process_time()
    for index in range(len(data_set)):
        data_set[index]
    print(time.perf_counter() - started, time.process_time() - used)


def opened(root: Path):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    return LeRobotDataset(f"me/{root.name}", root=root, video_backend="pyav")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if find_spec("torchvision") is None:
        stand_in_for_torchvision()
    job, *paths = sys.argv[1:]
    {"read": read, "write": write, "time": time_loader}[job](*map(Path, paths))
