"""What a policy answers. Evaluation and serving speak this; it needs no torch."""

# B observations, V views, H steps of a chunk, A action dimensions, C intent dimensions

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from jaxtyping import Float32, UInt8
from numpy import ndarray

from egorecovery.episodes import Camera

GateUse = Literal["learned", "0", "0.5", "1", "shuffled"]


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """What an experiment may do to a trained policy at test time; nothing by default."""

    zero_intent: bool = False
    gate: GateUse = "learned"  # "shuffled": each observation gets the gate of another one

    @property
    def words(self) -> str:
        parts = ["intent 0"] * self.zero_intent + [f"gate {self.gate}"] * (self.gate != "learned")
        return ", ".join(parts) or "as trained"


@dataclass(frozen=True, kw_only=True, eq=False)
class Decision:
    """One chunk of actions per observation, in physical units: joint targets in radians, gripper 0..1, 25 Hz."""

    action_BHA: Float32[ndarray, "B H A"]
    gate_B: Float32[ndarray, " B"] | None  # probability that correction is needed; None for methods without a gate
    intent_BC: Float32[ndarray, "B C"] | None  # in units of the training pool's typical correction


@runtime_checkable
class ActionSource(Protocol):
    """Anything that turns robot observations into chunks: a trained policy, a remote one, a script."""

    @property
    def name(self) -> str: ...
    @property
    def cameras(self) -> tuple[Camera, ...]: ...
    @property
    def image_size(self) -> int: ...

    def decide(self, images_BVHW3: UInt8[ndarray, "B V S S 3"], state_BA: Float32[ndarray, "B A"]) -> Decision: ...
