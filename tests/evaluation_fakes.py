"""Policies made for tests of the evaluator; importable in other processes."""

import os
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from egorecovery.episodes import Camera
from egorecovery.policy.action_source import PolicyOutput


@dataclass(frozen=True, kw_only=True)
class Swayer:
    """Moves by what it sees and feels, a row at a time: a rollout that got another's answer would go elsewhere."""

    name: str = "swayer"
    cameras: tuple[Camera, ...] = (Camera.HEAD, Camera.RIGHT_WRIST)
    image_size: int = 16
    steps: int = 20
    has_gate: bool = True

    def __call__(self):
        return self

    def infer(self, images_BVHW3, state_BA):
        assert images_BVHW3.shape[1:] == (len(self.cameras), self.image_size, self.image_size, 3)
        brightness_B = images_BVHW3.astype(np.float32).mean(axis=(1, 2, 3, 4)) / 255
        sway_BHA = 0.4 * np.sin(np.arange(self.steps)[:, None] / 9 + 20 * brightness_B[:, None, None] + np.arange(14))
        return PolicyOutput(
            action_BHA=(state_BA[:, None] + sway_BHA).astype(np.float32),
            gate_B=brightness_B if self.has_gate else None,
            intent_BC=np.stack([brightness_B] * 4, axis=1) if self.has_gate else None,
        )


@dataclass(frozen=True, kw_only=True)
class Spoiler(Swayer):
    """Answers well at first, then as `spoil` says."""

    spoil: str = "nan"

    def infer(self, images_BVHW3, state_BA):
        decision = super().infer(images_BVHW3, state_BA)
        actions, gate_B = decision.action_BHA.astype(float), decision.gate_B
        if self.spoil == "nan":
            actions[:, 3, 5] = np.nan
        elif self.spoil == "infinite":
            actions[0, -1, 0] = np.inf
        elif self.spoil == "short rows":
            actions = actions[..., :13]
        elif self.spoil == "no steps":
            actions = actions[:, :0]
        elif self.spoil == "one chunk":
            actions = actions[0]
        elif self.spoil == "integers":
            actions = actions.astype(int)
        elif self.spoil == "bad gate":
            gate_B = gate_B * np.nan
        elif self.spoil == "gate column":
            gate_B = gate_B[:, None]
        elif self.spoil == "raises":
            raise ZeroDivisionError("the policy is broken")
        return SimpleNamespace(action_BHA=actions, gate_B=gate_B, intent_BC=decision.intent_BC)


@dataclass(frozen=True, kw_only=True)
class Assassin(Swayer):
    """Kills one of this process's children each time it is asked, while there are victims to spare."""

    kills: list

    def infer(self, images_BVHW3, state_BA):
        import multiprocessing
        import signal

        if self.kills:
            victim = multiprocessing.active_children()[0].pid
            os.kill(victim, signal.SIGKILL)
            self.kills.pop()
        return super().infer(images_BVHW3, state_BA)
