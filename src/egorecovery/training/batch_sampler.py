"""Everything random about a training step, as a pure function of seed and step.

Samples, augmentation and drop path are drawn here, on the host, and only then sent to the device. So a step is the
same on CPU and GPU, in one process or several, with data on the device or streamed, resumed or not.
"""

# B batch (robots first), V views, A state dimensions, K residual branches, N bytes

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32, Int32, Int64, UInt8
from numpy import ndarray
from torch import Tensor

from egorecovery.randomness import generator_for
from egorecovery.training.recipe import Augmentation, Optimisation, Recipe

TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
FROM_YIQ = np.linalg.inv(TO_YIQ)
ALIGNMENT = 16  # bytes: as many as a thread of a kernel reads at once


@dataclass(frozen=True, kw_only=True, eq=False)
class StepPlan:
    step: int
    learning_rate: float
    frame_B: Int64[ndarray, " B"]  # rows of the frame table
    colour_B34: Float32[ndarray, "B 3 4"]  # RGB in 0..1 to RGB in 0..1, before centring
    crop_BV5: Int32[ndarray, "B V 5"]  # per view: pixels down, right; top, left and side of a hidden square
    keep_KB: Float32[ndarray, "K B"]  # drop path: 0, or 1 / (1 - rate)
    noise_BA: Float32[ndarray, "B A"]  # added to the normalised state
    state_keep_B: Float32[ndarray, " B"]  # 0 where proprioception is dropped

    def shard(self, rank: int, ranks: int, robots: int) -> "StepPlan":
        """This process's part: an equal share of the robots and of the humans."""
        rows = np.concatenate([_share(0, robots, rank, ranks), _share(robots, len(self.frame_B), rank, ranks)])
        return StepPlan(
            step=self.step,
            learning_rate=self.learning_rate,
            frame_B=self.frame_B[rows],
            colour_B34=self.colour_B34[rows],
            crop_BV5=self.crop_BV5[rows],
            keep_KB=np.ascontiguousarray(self.keep_KB[:, rows]),
            noise_BA=self.noise_BA[rows],
            state_keep_B=self.state_keep_B[rows],
        )


class InputRow:
    """What a step is given, end to end in one row of bytes on the device: one small copy costs as much as all.

    `views` are the parts of the row in their own shapes and types. They stay where they are, as a graph needs.
    """

    def __init__(self, like: Mapping[str, Tensor], device: torch.device) -> None:
        self._like = {name: (value.shape, value.dtype) for name, value in like.items()}
        self._starts, self._size = {}, 0
        for name, value in like.items():
            self._starts[name] = self._size
            self._size += -(-value.nbytes // ALIGNMENT) * ALIGNMENT
        self._row_N = torch.zeros(self._size, dtype=torch.uint8, device=device)
        self.views = self._views(self._row_N)

    def send(self, values: Mapping[str, Tensor]) -> None:
        """Queues the copy. Values are of the shapes and types that the row was made for."""
        assert {name: (value.shape, value.dtype) for name, value in values.items()} == self._like
        # From pinned memory the copy is queued; from any other the host would wait for the whole last step. Pinned anew
        # every time: torch does not give the memory away again before the copy is done.
        row_N = torch.empty(self._size, dtype=torch.uint8, pin_memory=self._row_N.is_cuda)
        for name, view in self._views(row_N).items():
            view.copy_(values[name])
        self._row_N.copy_(row_N, non_blocking=True)

    def _views(self, row_N: UInt8[Tensor, " N"]) -> dict[str, Tensor]:
        return {
            name: row_N[self._starts[name] :][: shape.numel() * dtype.itemsize].view(dtype).view(shape)
            for name, (shape, dtype) in self._like.items()
        }


def _share(first: int, end: int, rank: int, ranks: int) -> Int64[ndarray, " N"]:
    share = (end - first) // ranks
    return np.arange(first + rank * share, first + (rank + 1) * share)


def plan_step(recipe: Recipe, robot_frames: int, human_frames: int, step: int) -> StepPlan:
    """Frames are drawn uniformly within each embodiment's pool, as the paper does."""
    rng = generator_for(seed=recipe.seed, purpose="training step", step=step)
    batch = recipe.batch
    robots = rng.integers(0, robot_frames, batch.robot)
    humans = rng.integers(robot_frames, robot_frames + human_frames, batch.human) if batch.human else []
    chosen = recipe.augmentation
    rates_K1 = np.array(recipe.policy.drop_path_rates)[:, None]
    dimensions = recipe.policy.action_dim
    return StepPlan(
        step=step,
        learning_rate=learning_rate(recipe.optimisation, step),
        frame_B=np.concatenate([robots, humans]).astype(np.int64),
        colour_B34=colours(rng, chosen, batch.size),
        crop_BV5=crops(rng, chosen, recipe.policy.image_size, (batch.size, len(recipe.policy.cameras))),
        keep_KB=((rng.random((len(rates_K1), batch.size)) >= rates_K1) / (1 - rates_K1)).astype(np.float32),
        noise_BA=(chosen.state_noise * rng.standard_normal((batch.size, dimensions))).astype(np.float32),
        state_keep_B=(rng.random(batch.size) >= chosen.state_dropout).astype(np.float32),
    )


def crops(rng: np.random.Generator, chosen: Augmentation, size: int, shape: tuple[int, int]) -> Int32[ndarray, "B V 5"]:
    """Each view on its own: one camera's shift says nothing about another's."""
    reach, largest = round(chosen.shift * size), round(chosen.hide * size)
    shift_BV2 = rng.integers(-reach, reach + 1, (*shape, 2))
    side_BV1 = rng.integers(0, largest + 1, (*shape, 1))
    corner_BV2 = rng.integers(-largest, size, (*shape, 2))
    return np.concatenate([shift_BV2, corner_BV2, side_BV1], axis=-1).astype(np.int32)


def colours(rng: np.random.Generator, chosen: Augmentation, count: int) -> Float32[ndarray, "B 3 4"]:
    """Brightness, contrast, saturation and hue as one affine map of RGB per sample: one pass over its pixels."""
    bright, contrast, saturated = (
        1 + half * rng.uniform(-1, 1, count) for half in (chosen.brightness, chosen.contrast, chosen.saturation)
    )
    angle = 2 * np.pi * chosen.hue_turns * rng.uniform(-1, 1, count)
    turn_B33 = np.zeros((count, 3, 3))
    turn_B33[:, 0, 0] = 1
    turn_B33[:, 1, 1] = turn_B33[:, 2, 2] = saturated * np.cos(angle)
    turn_B33[:, 1, 2] = -saturated * np.sin(angle)
    turn_B33[:, 2, 1] = saturated * np.sin(angle)
    gain_B = bright * contrast
    linear_B33 = gain_B[:, None, None] * (FROM_YIQ @ turn_B33 @ TO_YIQ)
    offset_B3 = np.repeat((0.5 * (1 - contrast))[:, None], 3, axis=1)
    return np.concatenate([linear_B33, offset_B3[..., None]], axis=-1).astype(np.float32)


def learning_rate(chosen: Optimisation, step: int) -> float:
    """Linear warm-up, then a cosine down to the least."""
    if step < chosen.warmup_steps:
        return chosen.learning_rate * (step + 1) / chosen.warmup_steps
    share = (step - chosen.warmup_steps) / max(1, chosen.steps - chosen.warmup_steps)
    return chosen.least_learning_rate + (chosen.learning_rate - chosen.least_learning_rate) * float(
        0.5 * (1 + np.cos(np.pi * min(share, 1.0)))
    )
