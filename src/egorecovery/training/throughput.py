"""How fast a recipe trains and answers on this machine, with made-up data of the right shape."""

# F frames, B batch

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from egorecovery import accelerator
from egorecovery.episodes import Embodiment, episode_id
from egorecovery.policy.inference import TrainedPolicy
from egorecovery.policy.normaliser import Normaliser, Statistics
from egorecovery.policy.policy import Policy
from egorecovery.storage.typed_json import to_json
from egorecovery.training.backend import Backend, backend_on
from egorecovery.training.batch_sampler import plan_step
from egorecovery.training.frame_table import FrameTable
from egorecovery.training.image_source import ResidentImages
from egorecovery.training.recipe import Recipe
from egorecovery.training.runtime import Runtime, seed_initialisation
from egorecovery.training.step import TrainingStep
from egorecovery.training.weights import Weights

FRAMES = 2048  # per embodiment: more than any cache holds
EPISODE = 128  # frames


@dataclass(frozen=True, kw_only=True)
class Speed:
    recipe: str
    image_size: int
    batch: int
    device: str
    precision: str
    graph: bool
    accelerated: bool
    parameters_m: float
    first_step_s: float  # cold: kernels compiled, algorithms chosen, graph captured
    step_ms: float  # median
    samples_per_s: float
    tflop_per_step: float  # counted on plain torch: matrix products and convolutions, forward and backward
    tflops: float
    ceiling_tflops: float  # a large matrix product on this device, in the same precision
    latency_ms: dict[int, float]  # by batch: pictures in host memory to actions in host memory, median
    memory_gb: float | None

    @property
    def of_ceiling(self) -> float:
        return self.tflops / self.ceiling_tflops

    def to_json(self) -> dict[str, Any]:
        return {**to_json(self), "of_ceiling": self.of_ceiling}


def measure(recipe: Recipe, runtime: Runtime, steps: int = 50, batches: tuple[int, ...] = (1, 16)) -> Speed:
    device = runtime.device
    seed_initialisation(recipe.seed)
    policy = Policy(recipe.policy).on(device)
    parameters_m = sum(weight.numel() for weight in policy.parameters()) / 1e6
    flop = _flop(recipe, policy, runtime)
    step, plans = training_step(recipe, policy, runtime)
    started = time.perf_counter()
    step.run(plans(0))
    _wait(device)
    first_step_s = time.perf_counter() - started
    for index in range(1, 4):
        step.run(plans(index))
    step_ms = median_ms(lambda index: step.run(plans(index)), steps, device)
    return Speed(
        recipe=recipe.name,
        image_size=recipe.policy.image_size,
        batch=recipe.batch.size,
        device=torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"{torch.get_num_threads()} CPU threads",
        precision=str(runtime.precision).removeprefix("torch."),
        graph=runtime.graph,
        accelerated=runtime.accelerated,
        parameters_m=parameters_m,
        first_step_s=first_step_s,
        step_ms=step_ms,
        samples_per_s=recipe.batch.size / step_ms * 1e3,
        tflop_per_step=flop / 1e12,
        tflops=flop / 1e9 / step_ms,
        ceiling_tflops=matmul_ceiling(device, runtime.precision),
        memory_gb=torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else None,
        latency_ms={size: latency(recipe, device, size, steps, runtime.accelerated) for size in batches},
    )


def training_step(
    recipe: Recipe, policy: Policy, runtime: Runtime, backend: Backend | None = None
) -> tuple[TrainingStep, Callable[[int], Any]]:
    """A step on random frames, and its plans; with the runtime's backend, or another."""
    rng = np.random.default_rng(0)
    human = FRAMES if recipe.batch.human else 0
    frames, config = FRAMES + human, recipe.policy
    intent_dim = config.correction.intent_dim if config.correction else 4
    table = FrameTable(
        samples=[(episode_id("made_up"), row) for row in range(frames)],
        source_F=np.zeros(frames, np.int64),
        robot_frames=FRAMES,
        state_FA=rng.standard_normal((frames, config.action_dim), np.float32),
        action_FA=rng.standard_normal((frames, config.action_dim), np.float32),
        anchor_FA=np.zeros((frames, config.action_dim), np.float32),
        last_F=(np.arange(frames) // EPISODE + 1) * EPISODE - 1,
        intent_FC=rng.standard_normal((frames, intent_dim), np.float32),
        intent_mask_F=rng.random(frames) < 0.3,
        in_recovery_F=rng.random(frames) < 0.3,
    )
    shape = (frames, len(config.cameras), config.image_size, config.image_size, 3)
    pictures = torch.randint(0, 256, shape, dtype=torch.uint8, device=runtime.device)
    backend = backend or backend_on(runtime.device, runtime.accelerated)
    weights = Weights(policy, runtime.precision, recipe.optimisation.average_decay, backend)
    step = TrainingStep(recipe, table, ResidentImages(pictures), weights, runtime)
    return step, lambda index: plan_step(recipe, table.robot_frames, table.human_frames, index)


def latency(recipe: Recipe, device: torch.device, size: int, repeats: int, accelerated: bool = False) -> float:
    """One answer, everything included: from pictures in host memory to actions in host memory."""
    config = recipe.policy
    identity = Normaliser(np.zeros(config.action_dim, np.float32), np.ones(config.action_dim, np.float32))
    of_robot = {Embodiment.ROBOT: identity}
    source = TrainedPolicy(
        Policy(config), Statistics(state=of_robot, action=of_robot, intent=None), name="made up", device=device
    )
    if accelerated:
        accelerator.accelerate(source.policy)
    rng = np.random.default_rng(1)
    shape = (size, len(config.cameras), config.image_size, config.image_size, 3)
    images = rng.integers(0, 256, shape, np.uint8)
    state = rng.standard_normal((size, config.action_dim), np.float32)
    for _ in range(3):
        source.infer(images, state)
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        source.infer(images, state)
        times.append(time.perf_counter() - started)
    return 1e3 * statistics.median(times)


def matmul_ceiling(device: torch.device, precision: torch.dtype, repeats: int = 10) -> float:
    """TFLOP/s of a square matrix product of random numbers."""
    side = 8192 if device.type == "cuda" else 2048
    left, right = (torch.randn(side, side, device=device, dtype=precision) for _ in range(2))
    ms = median_ms(lambda _: left @ right, repeats, device)
    return 2 * side**3 / ms / 1e9


def _flop(recipe: Recipe, policy: Policy, runtime: Runtime) -> float:
    step, plans = training_step(recipe, policy, replace(runtime, accelerated=False))
    with FlopCounterMode(display=False) as counter:
        step.rehearse(plans(0))
    return float(counter.get_total_flops())


def median_ms(do: Callable[[int], Any], repeats: int, device: torch.device) -> float:
    """On CUDA by events, in a row without waiting between: as a run does it."""
    if device.type != "cuda":
        times = []
        for index in range(repeats):
            started = time.perf_counter()
            do(index)
            times.append(time.perf_counter() - started)
        return 1e3 * statistics.median(times)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    marks[0].record()
    for index, mark in enumerate(marks[1:]):
        do(index)
        mark.record()
    torch.cuda.synchronize(device)
    return statistics.median(first.elapsed_time(second) for first, second in pairwise(marks))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
