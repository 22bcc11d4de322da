"""Where the time of a training step goes: on a GPU kernels of graph replays, summed by kind; on a CPU operations.

python benchmarks/step_profile.py --recipe paper --image-size 224
OMP_NUM_THREADS=1 python benchmarks/step_profile.py --recipe demo --image-size 64 --device cpu --steps 12
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import tyro
from torch.profiler import ProfilerActivity, profile

from egorecovery.policy.policy import Policy
from egorecovery.training import RECIPES
from egorecovery.training.batch_sampler import StepPlan
from egorecovery.training.runtime import Precision, start
from egorecovery.training.step import TrainingStep
from egorecovery.training.throughput import training_step

KINDS = (  # first match wins
    ("convolution", r"xmma_(fprop|dgrad|wgrad)|conv|cudnn"),
    ("matrix product", r"gemm|nvjet|cutlass|cublas|splitK"),
    ("attention", r"_attention_"),
    ("layer norm", r"_layer_norm_"),
    ("MLP", r"_mlp_"),
    ("group norm and pooling", r"^(_whole_|stats_kernel|apply_kernel|_pool|_?reduce_kernel|_?gradient_kernel)"),
    ("weight gradients", r"_weight_gradients_kernel"),
    ("stem", r"_stem_|_weight_kernel|_affine_kernel|_total_kernel"),
    ("sums of norm gradients", r"_totals_kernel"),
    ("augmentation", r"_gather_kernel"),
    ("AdamW", r"_adamw_kernel"),
    ("sums and means", r"reduce"),
    ("GELU", r"[Gg]elu"),
    ("additions", r"CUDAFunctor_add"),
    ("element by element", r"(?i)elementwise|copy|cat|fill|memset|multi_tensor"),
)


@dataclass(frozen=True, kw_only=True)
class Arguments:
    recipe: str = "paper"
    image_size: int = 224
    device: str = "cuda"
    precision: Precision = "auto"
    steps: int = 5
    out: Path | None = None


def main(arguments: Arguments) -> None:
    recipe = RECIPES[arguments.recipe]("cube_stack")
    recipe = replace(recipe, policy=replace(recipe.policy, image_size=arguments.image_size))
    runtime = start(arguments.device, arguments.precision)
    policy = Policy(recipe.policy).on(runtime.device)
    step, plans = training_step(recipe, policy, runtime)
    for index in range(4):
        step.run(plans(index))
    if runtime.device.type == "cpu":
        show_operations(step, plans, arguments)
        return
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for index in range(arguments.steps):
            step.run(plans(index))
        torch.cuda.synchronize()
    kinds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0])
    kernels = []
    for event in seen.key_averages():
        ms = event.self_device_time_total / 1e3 / arguments.steps
        kind = next((name for name, pattern in KINDS if re.search(pattern, event.key)), "other")
        kinds[kind][0] += ms
        kinds[kind][1] += event.count / arguments.steps
        kernels.append((ms, event.count / arguments.steps, kind, event.key[:90]))
    print(
        f"{arguments.recipe} {arguments.image_size}: {sum(ms for ms, _ in kinds.values()):.2f} ms of kernels per step"
    )
    for name, (ms, count) in sorted(kinds.items(), key=lambda item: -item[1][0]):
        print(f"  {ms:7.2f} ms {count:6.0f} x  {name}")
    for ms, count, kind, key in sorted(kernels, reverse=True)[:28]:
        print(f"    {ms:6.2f} ms {count:5.0f} x  [{kind}] {key}")
    if arguments.out:
        arguments.out.write_text(json.dumps({"kinds": kinds, "kernels": sorted(kernels, reverse=True)}, indent=1))


def show_operations(step: TrainingStep, plans: Callable[[int], StepPlan], arguments: Arguments) -> None:
    """The least time of each operation and shape in any step: other work on the machine counts little."""
    least_ms: dict[tuple[str, str], float] = defaultdict(lambda: float("inf"))
    for index in range(arguments.steps):
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
            step.run(plans(index))
        for event in seen.key_averages(group_by_input_shape=True):
            key = event.key, str(event.input_shapes)
            least_ms[key] = min(least_ms[key], event.self_cpu_time_total / 1e3)
    operations: dict[str, float] = defaultdict(float)
    for (name, _), ms in least_ms.items():
        operations[name] += ms
    print(f"{arguments.recipe} {arguments.image_size}: {sum(operations.values()):.0f} ms of operations per step")
    for name, ms in sorted(operations.items(), key=lambda item: -item[1])[:28]:
        print(f"  {ms:7.2f} ms  {name[:90]}")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
