"""`egorecovery bench`."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Measure how fast a recipe trains and answers on this machine, with made-up data."""

    EXAMPLE: ClassVar = "bench --recipe demo"

    recipe: Literal["paper", "bench", "demo"] = "demo"
    """What to train, as in train."""
    image_size: int = 0
    """Picture side in pixels; 0 for the recipe's own."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ...; auto is a GPU where there is one."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """auto is bf16 on a GPU; on a CPU fp32, with matrix products in bf16 where it has them. fp32 is exact."""
    no_graph: bool = False
    """On a GPU: launch every kernel instead of replaying a CUDA graph."""
    acceleration: Literal["auto", "on", "off"] = "auto"
    """Fused kernels and streams on a GPU. auto: where a parity check passes on its kind; off: plain PyTorch."""
    steps: int = 50
    """How many are measured."""
    json: Path | None = None
    """Also write the figures here."""

    def run(self) -> int:
        import json
        from dataclasses import replace

        from rich.table import Table

        from egorecovery.cli.console import console
        from egorecovery.storage.atomic_io import write_file
        from egorecovery.training import RECIPES
        from egorecovery.training.runtime import start
        from egorecovery.training.throughput import measure

        recipe = RECIPES[self.recipe]("cube_stack")
        if self.image_size:
            recipe = replace(recipe, policy=replace(recipe.policy, image_size=self.image_size))
        runtime = start(self.device, self.precision, acceleration=self.acceleration)
        runtime = replace(runtime, graph=runtime.graph and not self.no_graph)
        speed = measure(recipe, runtime, self.steps)
        table = Table(
            title=f"{speed.recipe}, {speed.image_size} x {speed.image_size}, batch {speed.batch}",
            title_justify="left",
            box=None,
        )
        table.add_column()
        table.add_column(justify="right")
        for words, value in (
            ("device", f"{speed.device}, {speed.precision}{', CUDA graph' if speed.graph else ''}"),
            ("acceleration", "on" if speed.accelerated else "off: plain PyTorch"),
            ("parameters", f"{speed.parameters_m:.1f} M"),
            ("first step (cold)", f"{speed.first_step_s:.1f} s"),
            ("step", f"{speed.step_ms:.2f} ms"),
            ("samples per second", f"{speed.samples_per_s:,.0f}"),
            ("work per step", f"{speed.tflop_per_step:.3f} TFLOP"),
            ("rate", f"{speed.tflops:.3g} TFLOP/s"),
            ("matrix-product ceiling", f"{speed.ceiling_tflops:.3g} TFLOP/s"),
            ("share of the ceiling", f"{speed.of_ceiling:.0%}"),
            ("memory", f"{speed.memory_gb:.1f} GB" if speed.memory_gb else "-"),
            *((f"answer, batch {size}", f"{ms:.2f} ms") for size, ms in speed.latency_ms.items()),
        ):
            table.add_row(words, value)
        console.print(table)
        if self.json:
            write_file(self.json, (json.dumps(speed.to_json(), indent=1) + "\n").encode())
            console.print(f"wrote: {self.json}", soft_wrap=True)
        console.print(f"next: egorecovery train STORE --task TASK --recipe {self.recipe} --run RUN", soft_wrap=True)
        return 0
