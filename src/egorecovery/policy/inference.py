"""A trained policy as something to act with: pictures and proprioception in, a chunk of actions out."""

# B observations, V views, S picture side, H horizon, A action dimensions, C intent dimensions

import hashlib
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from numpy import ndarray
from torch import Tensor

from egorecovery.episodes import Camera, Embodiment
from egorecovery.errors import RecipeError
from egorecovery.kinematics import ActionSpace
from egorecovery.policy.action_source import Intervention, PolicyOutput
from egorecovery.policy.checkpoint import load_into, open_checkpoint
from egorecovery.policy.device import pick_device, usual_precision
from egorecovery.policy.frame_batches import AT_ONCE, parts_at_once
from egorecovery.policy.near_and_far import blended
from egorecovery.policy.normaliser import Statistics
from egorecovery.policy.pixels import plain_images
from egorecovery.policy.policy import Policy
from egorecovery.policy.policy_name import policy_name

BATCHES = (1, 4, 16, AT_ONCE)  # sizes that batches are padded to: libraries choose their algorithms once for each


class TrainedPolicy:
    """An `ActionSource`. Answers depend on each observation alone, not on who else is in the batch's padding."""

    def __init__(
        self,
        policy: Policy,
        statistics: Statistics,
        *,
        name: str,
        task: str | None = None,
        device: torch.device,
        intervention: Intervention | None = None,
        gate_sample: Float32[ndarray, " G"] | None = None,
        precision: torch.dtype | None = None,
        graphs: bool | None = None,
    ) -> None:
        self.name = name
        self.task = task  # that it was trained for, where that is known
        self.config = policy.config
        self.intervention = intervention or Intervention()
        if self.config.correction is None and self.intervention != Intervention():
            raise RecipeError(f"{name} has neither gate nor intent: '{self.intervention.words}' cannot be done to it")
        unfelt = self._unfelt()
        if unfelt != Intervention():
            raise RecipeError(f"{name} was trained without what '{unfelt.words}' acts on: it would change nothing")
        self._gate_sample = np.zeros(0, np.float32) if gate_sample is None else gate_sample
        if self.intervention.gate == "shuffled" and not len(self._gate_sample):
            raise RecipeError(f"{name} was saved without a sample of its gates: it cannot be run with shuffled ones")
        self.device = device
        self.precision = precision or usual_precision(device)
        self.policy = policy.to(device, self.precision).eval().requires_grad_(False)
        self._statistics = statistics
        self._graphs: dict[int, _Captured] | None = (
            {} if (device.type == "cuda" if graphs is None else graphs) else None
        )

    def _unfelt(self) -> Intervention:
        """The part of the intervention that this policy's modulation cannot feel."""
        correction, asked = self.config.correction, self.intervention
        if correction is None or correction.modulation == "none":
            return asked
        return Intervention(gate=asked.gate) if correction.modulation == "always_on" else Intervention()

    @property
    def cameras(self) -> tuple[Camera, ...]:
        return self.config.cameras

    @property
    def image_size(self) -> int:
        return self.config.image_size

    @property
    def picture_fit(self) -> Literal["exact", "letterbox", "crop"]:
        """How the pictures it was trained on became squares."""
        return self.config.picture_fit

    @property
    def action_space(self) -> ActionSpace:
        """Of the states it is given and the actions it answers with."""
        return self.config.action_space

    @property
    def hidden_embodiment(self) -> bool:
        return self.config.hidden_embodiment

    def infer(self, images_BVHW3: UInt8[ndarray, "B V S S 3"], state_BA: Float32[ndarray, "B A"]) -> PolicyOutput:
        """A state of NaN is one that is not known: the policy decides by pictures alone."""
        self._check(images_BVHW3, state_BA)
        parts = [self._answer(images_BVHW3[part], state_BA[part]) for part in parts_at_once(len(state_BA))]
        action_BHA, gate_B, intent_BC = (
            None if values[0] is None else np.concatenate(values) for values in zip(*parts, strict=True)
        )
        assert action_BHA is not None
        normaliser = self._statistics.action[Embodiment.ROBOT]
        here_BA = self._statistics.anchor(Embodiment.ROBOT, state_BA, self.action_space)
        if self.config.relative_actions:
            action_BHA = action_BHA + here_BA[:, None]
        action_BHA = blended(action_BHA, here_BA, normaliser.spread_A, self.config)
        return PolicyOutput(action_BHA=normaliser.restore(action_BHA), gate_B=gate_B, intent_BC=intent_BC)

    def _check(self, images: ndarray, state: ndarray) -> None:
        size, views = self.image_size, len(self.cameras)
        wanted = (len(state), views, size, size, 3)
        if not len(state):
            raise RecipeError(f"{self.name} wants at least one observation")
        if images.dtype != np.uint8:
            raise RecipeError(f"{self.name} wants pictures of bytes (uint8, 0..255), got {images.dtype}")
        if images.shape != wanted or state.shape != (len(state), self.config.action_dim):
            raise RecipeError(
                f"{self.name} wants pictures of shape {wanted} ({', '.join(self.cameras)}) and states of "
                f"{self.config.action_dim}, got {images.shape} and {state.shape}"
            )
        if self.config.relative_actions and np.isnan(state).any():
            raise RecipeError(f"{self.name} counts actions from where the arms are: it cannot act without their state")

    def _answer(self, images_BVSS3: ndarray, state_BA: ndarray) -> tuple[ndarray, ndarray | None, ndarray | None]:
        count = len(state_BA)
        padded = next(size for size in BATCHES if size >= count)
        # In the memory order of what is given, channels first or last: the network's first operation takes both.
        pictures = np.zeros_like(images_BVSS3, shape=(padded, *images_BVSS3.shape[1:]))
        states = np.zeros((padded, state_BA.shape[1]), np.float32)
        gates = np.zeros(padded, np.float32)
        pictures[:count] = images_BVSS3
        normalised_BA = self._statistics.state[Embodiment.ROBOT].normalise(state_BA)
        states[:count] = np.where(np.isnan(normalised_BA), np.float32(0), normalised_BA)  # as dropped in training
        gates[:count] = self._forced_gates(images_BVSS3, state_BA)
        with torch.inference_mode():
            inputs = [torch.from_numpy(each) for each in (pictures, states, gates)]
            action, gate, intent = (
                None if each is None else each[:count].float().cpu().numpy() for each in self._forward(inputs)
            )
        assert action is not None
        return action, gate, intent

    def _forced_gates(self, images_BVSS3: ndarray, state_BA: ndarray) -> ndarray:
        """What an intervention puts in the gate's place; not used where the gate is as learned."""
        use = self.intervention.gate
        if use == "learned":
            return np.zeros(len(state_BA), np.float32)
        if use != "shuffled":
            return np.full(len(state_BA), float(use), np.float32)
        # Another moment's gate, chosen by the observation itself: the same whoever else is in the batch.
        digests = [
            hashlib.sha256(images.tobytes() + state.tobytes()).digest()
            for images, state in zip(images_BVSS3, state_BA, strict=True)
        ]
        chosen = [int.from_bytes(digest[:8], "little") % len(self._gate_sample) for digest in digests]
        return self._gate_sample[chosen]

    def _forward(self, inputs: list[Tensor]) -> tuple[Tensor | None, ...]:
        if self._graphs is None:
            return self.compute(*(each.to(self.device) for each in inputs))
        size = len(inputs[0])
        if size not in self._graphs:
            self._graphs[size] = _Captured(self, [each.to(self.device) for each in inputs])
        return self._graphs[size].replay(inputs)

    def compute(self, pictures_BVSS3: Tensor, state_BA: Tensor, forced_gate_B: Tensor) -> tuple[Tensor | None, ...]:
        """Normalised actions, the gate that was used, intent."""
        policy, robots = self.policy, len(state_BA)
        tokens_BND = policy.tokens(plain_images(pictures_BVSS3, self.precision), state_BA.to(self.precision), robots)
        pooled_BD, intent_BC, gate_logit_B = policy.correction(tokens_BND)
        gate_B = None if gate_logit_B is None else gate_logit_B.sigmoid()
        if self.intervention.zero_intent and intent_BC is not None:
            intent_BC = torch.zeros_like(intent_BC)
        if self.intervention.gate != "learned":
            gate_B = forced_gate_B
        acted = policy.act(tokens_BND, pooled_BD, intent_BC, gate_logit_B, gate_B, robots)
        return acted.robot_action_RHA, gate_B, intent_BC


class _Captured:
    """One batch size as a CUDA graph."""

    def __init__(self, owner: TrainedPolicy, inputs: list[Tensor]) -> None:
        self._inputs = [each.clone() for each in inputs]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                owner.compute(*self._inputs)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._answers = owner.compute(*self._inputs)

    def replay(self, inputs: list[Tensor]) -> tuple[Tensor | None, ...]:
        for own, given in zip(self._inputs, inputs, strict=True):
            own.copy_(given.to(own.device))  # as it lies in memory; put in order by the device
        self._graph.replay()
        return self._answers


def load_action_source(
    checkpoint: Path, device: str = "auto", intervention: Intervention | None = None
) -> TrainedPolicy:
    """The policy of a run's latest checkpoint, or of one checkpoint, ready to act."""
    saved = open_checkpoint(checkpoint)
    task = saved.recipe.get("task")
    config, weights = saved.config, saved.weights()  # both checked before anything of their size is made
    policy = Policy(config)
    load_into(policy, weights, saved.path)
    return TrainedPolicy(
        policy,
        saved.statistics,
        name=policy_name(saved.recipe, saved.step),
        task=task if isinstance(task, str) else None,
        device=pick_device(device),
        intervention=intervention,
        gate_sample=np.asarray(saved.gate_sample, np.float32),
    )
