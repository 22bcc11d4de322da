"""Small policies to serve, and observations of an ALOHA-like robot for them."""

import threading

import numpy as np
import torch

from egorecovery.episodes import Camera
from egorecovery.policy.inference import TrainedPolicy
from egorecovery.serving.served_policy import ServedPolicy
from tiny_policy import statistics, tiny_policy

SIZE, HORIZON = 16, 5
ALOHA = {"cam_high": Camera.HEAD, "cam_left_wrist": Camera.LEFT_WRIST, "cam_right_wrist": Camera.RIGHT_WRIST}


def tiny_source(seed: int = 0, **changes) -> TrainedPolicy:
    """The real architecture with random weights, three cameras."""
    policy = tiny_policy(seed=seed, cameras=tuple(Camera), **changes)
    known = statistics(spread=0.1, dimensions=policy.config.action_dim)
    return TrainedPolicy(policy, known, name=f"tiny {seed}", device=torch.device("cpu"))


def tiny_served(source=None, **changes) -> ServedPolicy:
    return ServedPolicy(
        source or tiny_source(), **{"horizon": HORIZON, "checkpoint": "0" * 64, "client_hz": 25.0, **changes}
    )


def aloha_observation(rng: np.random.Generator, size: int = SIZE, chw: bool = True) -> dict:
    shape = (3, size, size) if chw else (size, size, 3)
    return {
        "state": rng.normal(size=14),
        "images": {name: rng.integers(0, 256, shape, dtype=np.uint8) for name in ALOHA},
        "prompt": "stack the cubes",
    }


def decided(source, observation):
    """What the policy says to an observation without any server."""
    pictures = [
        picture if picture.shape[2] == 3 else picture.transpose(1, 2, 0) for picture in observation["images"].values()
    ]
    return source.infer(np.stack(pictures)[None], observation["state"][None].astype(np.float32))


class Held:
    """A source that answers when it is let go: what happens meanwhile can be tried."""

    def __init__(self, source) -> None:
        self._source = source
        self.name, self.cameras, self.image_size = source.name, source.cameras, source.image_size
        self.asked, self.go = threading.Semaphore(0), threading.Semaphore(0)
        self.holding = False
        self.rows: list[int] = []

    def infer(self, images_BVHW3, state_BA):
        self.rows.append(len(state_BA))
        if self.holding:
            self.asked.release()
            assert self.go.acquire(timeout=60)
        return self._source.infer(images_BVHW3, state_BA)
