"""Sources of actions that were not learned: the floor of every comparison, and stand-ins in tests and benchmarks."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, UInt8
from numpy import ndarray

from egorecovery.episodes import Camera
from egorecovery.policy.action_source import PolicyOutput


@dataclass(frozen=True, kw_only=True)
class HoldStill:
    """Stays where it is. Also the factory of itself."""

    name: str = "hold_still"
    cameras: tuple[Camera, ...] = tuple(Camera)
    image_size: int = 96
    steps: int = 20

    def __call__(self) -> "HoldStill":
        return self

    def infer(self, images_BVHW3: UInt8[ndarray, "B V H W 3"], state_BA: Float32[ndarray, "B 14"]) -> PolicyOutput:
        return PolicyOutput(action_BHA=np.repeat(state_BA[:, None], self.steps, axis=1), gate_B=None, intent_BC=None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Replay:
    """Executes recorded actions open loop, then holds the last: recovery needs more than that."""

    actions: Float[ndarray, "T 14"]
    steps: int  # length of the chunk; the recording must fit, and the protocol must not replan before its end
    name: str = "replay"
    cameras: tuple[Camera, ...] = tuple(Camera)
    image_size: int = 96

    def __call__(self) -> "Replay":
        return self

    def infer(self, images_BVHW3: UInt8[ndarray, "B V H W 3"], state_BA: Float32[ndarray, "B 14"]) -> PolicyOutput:
        tail = np.repeat(self.actions[-1:], max(0, self.steps - len(self.actions)), axis=0)
        chunk = np.concatenate([self.actions, tail])[: self.steps].astype(np.float32)
        return PolicyOutput(action_BHA=np.repeat(chunk[None], len(state_BA), axis=0), gate_B=None, intent_BC=None)
