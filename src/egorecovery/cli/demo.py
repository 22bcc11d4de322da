"""`egorecovery demo`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The whole system in minutes, without robot or GPU.

    Collects demonstrations in the simulated workcell, trains a policy on robot successes alone and one with corrective
    intent from human clips, lets both recover from failures, and writes a report.
    """

    out: Path = Path("runs/demo")
    """Where to work. An interrupted demo goes on there."""
    task: Literal["cup_brush", "table_sweep", "round_disk", "cube_stack"] = "cup_brush"
    steps: int = 2000
    """Of each training."""
    rollouts: int = 30
    """Per kind of start and policy."""
    robot_success: int = 32
    robot_recovery: int = 24
    human_recovery: int = 60
    films: Annotated[int, tyro.conf.arg(metavar="N")] = 1
    """Per kind of start and policy, in the report."""

    def run(self) -> int:
        import os
        import time

        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, "1")  # before torch is loaded: each training has a core of its own

        from rich.table import Table

        from egorecovery.cli.console import console
        from egorecovery.cli.experiment import Watcher
        from egorecovery.demo import EGORECOVERY, SUCCESS_ONLY, DemoPlan, run_demo

        started_s = time.monotonic()
        plan = DemoPlan(
            task=self.task,
            steps=self.steps,
            rollouts=self.rollouts,
            robot_success=self.robot_success,
            robot_recovery=self.robot_recovery,
            human_recovery=self.human_recovery,
            films=self.films,
        )
        with Watcher() as watch:
            result = run_demo(self.out, plan, watch)
        table = Table(title=f"{self.task}: rollouts that succeed, 95% interval", title_justify="left", box=None)
        table.add_column("trained on")
        table.add_column("from the normal start", justify="right")
        table.add_column("from a failure", justify="right")
        for method, words in ((SUCCESS_ONLY, "robot successes"), (EGORECOVERY, "+ recoveries, corrective intent")):
            table.add_row(words, *(str(found) for found in result.rates[method].values()))
        console.print(table)
        console.print(f"{(time.monotonic() - started_s) / 60:.1f} minutes")
        for cell, words in result.filmed.items():
            console.print(f"films of {cell}: {words}", soft_wrap=True)
        console.print(f"summary: {result.summary}")
        console.print(f"report:  {result.report}", soft_wrap=True)
        return 0
