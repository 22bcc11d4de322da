"""`egorecovery demo`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import tyro

if TYPE_CHECKING:
    from egorecovery.demo.running import DemoResult

FULL, QUICK = Path("runs/demo"), Path("runs/demo-quick")
QUICK_ROLLOUTS = 30
INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The whole system in minutes, without robot or GPU.

    Collects demonstrations in the simulated workcell and trains three policies: on robot successes, with robot
    recoveries, with human clips. All meet the same failures; a page with films shows what came of it.
    """

    EXAMPLE: ClassVar = "demo --quick"
    HEADINGS: ClassVar = {
        "task": "what is trained, without --quick",
    }

    out: Path | None = None
    """Where to work; runs/demo by default, with --quick runs/demo-quick. A demo that was interrupted there goes on."""
    quick: bool = False
    """Rollouts and films only, with policies that come with the package: under three minutes on two cores."""
    rollouts: int | None = None
    """Per kind of start and policy; 100 by default, 30 with --quick."""
    films: Annotated[int, tyro.conf.arg(metavar="N")] = 3
    """Starts that all three policies are filmed from."""
    task: Literal["cup_brush", "table_sweep", "round_disk", "cube_stack"] = "cube_stack"
    """What the policies are to do."""
    robot_success: int = 40
    """Robot successes to collect and train on."""
    robot_recovery: int = 20
    """Robot recoveries, likewise."""
    human_recovery: int = 200
    """Human recoveries, likewise."""
    steps: int = 3200
    """Of each training."""
    seed: int = 0
    """Of the trainings."""

    def run(self) -> int:
        import os
        import time

        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, "1")  # before torch is loaded: each training has a core of its own

        from egorecovery.cli.console import messages
        from egorecovery.cli.extras import require

        require("torch", "transformers", "matplotlib")
        started_s = time.monotonic()
        out = self.out or (QUICK if self.quick else FULL)
        try:
            messages.print("getting ready ...")
            result = self._run(out)
        except KeyboardInterrupt:
            messages.print("stopped; run the same command again to go on")
            return INTERRUPTED
        self._tell(result, (time.monotonic() - started_s) / 60)
        return 0

    def _run(self, out: Path) -> "DemoResult":
        from egorecovery.cli.console import messages
        from egorecovery.cli.demo_screen import DemoScreen
        from egorecovery.demo.plan import DemoPlan

        usual = {"rollouts": QUICK_ROLLOUTS} if self.quick else {}
        rollouts = usual if self.rollouts is None else {"rollouts": self.rollouts}
        plan = DemoPlan(
            task=self.task,
            steps=self.steps,
            robot_success=self.robot_success,
            robot_recovery=self.robot_recovery,
            human_recovery=self.human_recovery,
            films=self.films,
            seed=self.seed,
            **rollouts,
        )
        with DemoScreen(plan, messages, quick=self.quick) as screen:
            if self.quick:
                from egorecovery.demo.shipped import run_quick

                return run_quick(out, films=self.films, on_event=screen, **rollouts)
            from egorecovery.demo.running import run_demo

            return run_demo(out, plan, screen)

    def _tell(self, result: "DemoResult", minutes: float) -> None:
        from rich.table import Table

        from egorecovery.cli.console import console
        from egorecovery.demo.plan import METHODS, NAMES

        table = Table(box=None, title_justify="left", padding=(0, 2, 0, 0))
        table.add_column("trained on")
        table.add_column("from ordinary starts", justify="right")
        table.add_column("from failures", justify="right")
        for method, rates in result.outcomes.rates().items():
            found = (f"{rate.successes} of {rate.rollouts}" for rate in rates.values())
            table.add_row(f"{METHODS.index(method) + 1}. {NAMES[method]}", *found)
        console.print(table)
        console.print(result.summary["sentence"])
        console.print(f"{minutes:.1f} minutes")
        for path in result.written:
            console.print(f"wrote: {path}", soft_wrap=True)
        console.print(f"next: open {result.page} in a browser", soft_wrap=True)
