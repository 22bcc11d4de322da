"""What a policy answers. Evaluation and serving speak this; it needs no torch."""

# B observations, V views, H steps of a chunk, A action dimensions, C intent dimensions

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from jaxtyping import Float32, UInt8
from numpy import ndarray

from egorecovery.episodes import Camera
from egorecovery.kinematics import ActionSpace

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
class PolicyOutput:
    """One chunk of actions per observation at 25 Hz, in physical units of the source's action space.

    joint: targets in radians, gripper 0..1. effector: see kinematics/effector_space.py.
    """

    action_BHA: Float32[ndarray, "B H A"]
    gate_B: Float32[ndarray, " B"] | None  # probability that correction is needed; None for methods without a gate
    intent_BC: Float32[ndarray, "B C"] | None  # in units of the training pool's typical correction


@runtime_checkable
class ActionSource(Protocol):
    """Anything that turns robot observations into chunks: a trained policy, a remote one, a script.

    A source may say its `action_space`, in which it then also wants the state, and `hidden_embodiment`; see
    `action_space_of` and `wants_hidden_embodiment`.
    """

    @property
    def name(self) -> str: ...
    @property
    def cameras(self) -> tuple[Camera, ...]: ...
    @property
    def image_size(self) -> int: ...

    def infer(self, images_BVHW3: UInt8[ndarray, "B V S S 3"], state_BA: Float32[ndarray, "B A"]) -> PolicyOutput: ...


def action_space_of(source: ActionSource) -> ActionSpace:
    """Sources that do not say act in joint space."""
    return getattr(source, "action_space", "joint")


def wants_hidden_embodiment(source: ActionSource) -> bool:
    """Whether it was trained on pictures without arms and hands. Sources that do not say were not."""
    return getattr(source, "hidden_embodiment", False)
