"""Trained policies for the evaluator. Importing this needs no torch, calling it does."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from jaxtyping import Float32, UInt8
from numpy import ndarray

from egorecovery.capture.picture_fit import Fit
from egorecovery.episodes import Camera
from egorecovery.kinematics import ActionSpace
from egorecovery.policy.action_source import (
    ActionSource,
    Intervention,
    PolicyOutput,
    action_space_of,
    wants_hidden_embodiment,
)


@dataclass(frozen=True, kw_only=True)
class CheckpointFactory:
    """Builds a policy, here or in a Ray worker; equal by value, so that a worker builds it once."""

    checkpoint: Path
    device: str = "cpu"
    acceleration: Literal["auto", "on", "off"] = "auto"
    intervention: Intervention = field(default_factory=Intervention)

    def __call__(self) -> ActionSource:
        from egorecovery.accelerator import load_policy

        source = load_policy(self.checkpoint, self.device, self.intervention, self.acceleration)
        return OneThread(source) if self.device == "cpu" else source


class OneThread:
    """A policy that computes on one core.

    Beside busy workers, torch's threads wait for each other: 400 ms instead of 7 ms for a small policy on two shared
    cores. And the last bits must not depend on how many cores there are.
    """

    def __init__(self, source: ActionSource) -> None:
        self._source = source

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def cameras(self) -> tuple[Camera, ...]:
        return self._source.cameras

    @property
    def image_size(self) -> int:
        return self._source.image_size

    @property
    def picture_fit(self) -> Fit:
        return getattr(self._source, "picture_fit", "exact")

    @property
    def action_space(self) -> ActionSpace:
        return action_space_of(self._source)

    @property
    def hidden_embodiment(self) -> bool:
        return wants_hidden_embodiment(self._source)

    def infer(self, images_BVHW3: UInt8[ndarray, "B V S S 3"], state_BA: Float32[ndarray, "B A"]) -> PolicyOutput:
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return self._source.infer(images_BVHW3, state_BA)
        finally:
            torch.set_num_threads(threads)  # whoever trains in this process wants them back
