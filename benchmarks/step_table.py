"""What each part of `acceleration` is worth: one training step, plain, compiled, accelerated, and without one part.

python benchmarks/step_table.py --image-size 224 --json step_table_224.json     # on a GPU; 96 as well

Rows: plain torch eager; the same as a CUDA graph; `torch.compile` as a CUDA graph; everything in `acceleration`; and
everything but one part, for each part. "Costs" is how much longer a step takes without that part: what does not cost 3%
is to go. Mean losses stand beside the times, because a fast wrong step is no step.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.table import Table

from egorecovery import accelerator
from egorecovery.acceleration.modules import PARTS
from egorecovery.policy.policy import Policy
from egorecovery.training import RECIPES, Recipe
from egorecovery.training.backend import PLAIN, Backend
from egorecovery.training.runtime import Runtime, seed_initialisation, start
from egorecovery.training.throughput import median_ms, training_step

LEAST_WORTH = 0.03  # of a step's time, below which a part is not worth its lines


@dataclass(frozen=True, kw_only=True)
class Options:
    recipe: str = "paper"
    image_size: int = 224
    steps: int = 40
    device: str = "auto"
    only: tuple[str, ...] = ()
    """Rows whose name contains one of these; all without it."""
    json: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to compute the same step."""

    name: str
    graph: bool = True
    compiled: bool = False
    parts: tuple[str, ...] = ()  # of acceleration


@dataclass(frozen=True, kw_only=True)
class Timed:
    name: str
    step_ms: float | None = None  # median
    first_s: float | None = None  # the first step: kernels compiled, algorithms chosen, graph captured
    loss: float | None = None  # mean over the timed steps
    reason: str = ""  # why there are no figures


def ways() -> list[Way]:
    return [
        Way(name="plain, eager", graph=False),
        Way(name="plain, graph"),
        Way(name="torch.compile, graph", compiled=True),
        Way(name="all parts", parts=PARTS),
        *(Way(name=f"without {part}", parts=tuple(other for other in PARTS if other != part)) for part in PARTS),
    ]


def why_not(way: Way, runtime: Runtime) -> str | None:
    if way.graph and runtime.device.type != "cuda":
        return "a CUDA graph needs a CUDA device"
    return accelerator.why_not(runtime.device) if way.parts else None


def timed(way: Way, recipe: Recipe, runtime: Runtime, steps: int) -> Timed:
    """Always from the same weights and on the same data."""
    runtime = replace(runtime, graph=way.graph)
    backend = Backend(**accelerator.replacements(runtime.device, way.parts)) if way.parts else PLAIN
    seed_initialisation(recipe.seed)
    step, plans = training_step(recipe, Policy(recipe.policy).on(runtime.device), runtime, backend)
    if way.compiled:
        step.network.compile(dynamic=False)
    first_ms = median_ms(lambda index: step.run(plans(index)), 1, runtime.device)
    for index in range(1, 4):
        step.run(plans(index))
    step.means()
    ms = median_ms(lambda index: step.run(plans(4 + index)), steps, runtime.device)
    return Timed(name=way.name, step_ms=ms, first_s=first_ms / 1e3, loss=step.means()["loss"])


def rows(
    recipe: Recipe,
    runtime: Runtime,
    steps: int,
    only: tuple[str, ...] = (),
    time: Callable[[Way, Recipe, Runtime, int], Timed] = timed,
) -> Iterator[Timed]:
    """One after another; a way that cannot be had, or fails, says why, and the next one comes."""
    for way in ways():
        if only and not any(part in way.name for part in only):
            continue
        reason = why_not(way, runtime)
        if reason:
            yield Timed(name=way.name, reason=reason)
            continue
        try:
            yield time(way, recipe, runtime, steps)
        except (RuntimeError, AssertionError) as error:  # torch's compiler, memory, a kernel
            yield Timed(name=way.name, reason=(str(error).strip().splitlines() or [type(error).__name__])[0][:80])
        if runtime.device.type == "cuda":
            torch.cuda.empty_cache()


def costs(timings: list[Timed]) -> dict[str, float]:
    """By part: how much longer a step takes without it, as a share of the step with everything."""
    whole = next((timed.step_ms for timed in timings if timed.name == "all parts"), None)
    if whole is None:
        return {}
    without = [timed for timed in timings if timed.name.startswith("without ")]
    parts = {timed.name.removeprefix("without "): timed.step_ms for timed in without}
    return {part: ms / whole - 1 for part, ms in parts.items() if ms is not None}


def table_of(timings: list[Timed], title: str) -> Table:
    table = Table(title=title, box=None)
    for column in ("", "step", "first step", "mean loss", "costs", ""):
        table.add_column(column, justify="left" if not column else "right")
    worth = costs(timings)
    for timed in timings:
        cost = worth.get(timed.name.removeprefix("without "))
        table.add_row(
            timed.name,
            _figure(timed.step_ms, "{:.2f} ms"),
            _figure(timed.first_s, "{:.1f} s"),
            _figure(timed.loss, "{:.4f}"),
            _figure(cost, "{:+.1%}"),
            timed.reason or ("goes: less than 3%" if cost is not None and cost < LEAST_WORTH else ""),
        )
    return table


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def record(timings: list[Timed], recipe: Recipe, runtime: Runtime) -> dict[str, Any]:
    cuda = runtime.device.type == "cuda"
    return {
        "recipe": recipe.name,
        "image_size": recipe.policy.image_size,
        "device": torch.cuda.get_device_name(runtime.device) if cuda else "cpu",
        "torch": torch.__version__,
        "precision": str(runtime.precision).removeprefix("torch."),
        "rows": [asdict(timed) for timed in timings],
        "costs": costs(timings),
    }


def main(options: Options) -> None:
    recipe = RECIPES[options.recipe]("cube_stack")
    recipe = replace(recipe, policy=replace(recipe.policy, image_size=options.image_size))
    runtime = start(options.device, acceleration="off")
    console = Console(width=110)
    timings = []
    for timed in rows(recipe, runtime, options.steps, options.only):
        timings.append(timed)
        console.print(f"{timed.name}: {timed.reason or _figure(timed.step_ms, '{:.2f} ms')}")
    console.print(table_of(timings, f"{recipe.name}, {options.image_size} x {options.image_size}"))
    if options.json:
        options.json.write_text(json.dumps(record(timings, recipe, runtime), indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options))
