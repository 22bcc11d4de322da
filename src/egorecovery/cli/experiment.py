"""`egorecovery experiment`."""

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro
from tyro.conf import Positional

from egorecovery.cli.options import command_of
from egorecovery.errors import EgoRecoveryError

if TYPE_CHECKING:
    from egorecovery.experiments import Suite, SuitePlan
    from egorecovery.experiments.cell import CellPlan

REPORTED = "report: "
UNLIKE = "done, with other settings"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Run a suite of experiments, the paper's or our own: data, trainings, evaluations, report. Run again, it goes on.

    Exit code 1 means that a cell failed; the others were run, and its error.json says why.
    """

    EXAMPLE: ClassVar = "experiment main --out runs/main --tasks cube_stack"
    HEADINGS: ClassVar = {
        "tasks": "which trainings",
        "rollouts": "rollouts",
        "list": "what else it can do",
        "work": "this machine",
    }

    suite: Positional[
        Literal[
            "main",
            "scaling",
            "cost_matched",
            "low_robot_grounding",
            "ablation",
            "gate_intervention",
            "intent_target",
            "coverage",
            "stand_ins",
            "scarce_robot",
            "boundary_noise",
            "two_failure_modes",
            "clutter_ood",
            "diffusion_head",
        ]
    ]
    """The paper's: main, scaling, cost_matched, low_robot_grounding, ablation, gate_intervention, intent_target.

    Ours: coverage, stand_ins, scarce_robot.

    The paper's, not built yet: boundary_noise, two_failure_modes, clutter_ood, diffusion_head."""
    out: Path
    """The suite's folder: data, trainings, results, report."""
    tasks: tuple[Literal["cup_brush", "table_sweep", "round_disk", "cube_stack"], ...] = ()
    """cup_brush, table_sweep, round_disk or cube_stack; all that the suite has by default."""
    seeds: tuple[int, ...] = (0,)
    """Of the trainings."""
    only: tuple[str, ...] = ()
    """Patterns of cell names, such as '*egorecovery*'."""
    recipe: Literal["paper", "bench", "demo"] = "bench"
    """Of every training, as in train."""
    set: dict[str, str] = field(default_factory=dict)
    """Settings of the recipe by dotted name, as in --set optimisation.steps 8000."""
    rollouts: int = 20
    """Per task and kind of start. A finished cell that has fewer gets the rest."""
    starts_seed: str = "comparison"
    """Which starts, by name: 'comparison' for results, 'validation' for anything that is tuned."""
    protocol: Literal["bench", "paper"] = "bench"
    """bench: the paper's rules with a time limit per task; paper: 300 s."""
    replan: int | None = None
    """Steps of a chunk to execute before a policy looks again; 35 (of a short chunk half) if not given."""
    list: bool = False
    """Show the cells and which are done; run nothing."""
    merge: tuple[Path, ...] = ()
    """Copy finished cells of these folders into --out and report on all; run nothing."""
    diagnostics: bool = False
    """At the end, diagnose the policies of seed 0: egorecovery on each task, beside robot_recovery."""
    films: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """Film N rollouts per row, task and kind of start for the report, one of each kind of failure first."""
    work: Path | None = None
    """Where data and trainings lie, if not in --out; suites that run one after another may share it."""
    budget_minutes: float | None = None
    """After so many minutes, save, stop what runs and start nothing. Run again, it goes on."""
    executor: Literal["local", "ray"] = "local"
    """For data and rollouts."""
    workers: int = 0
    """Processes for data and rollouts; 0 for all cores, and half as many again for rollouts that wait for a GPU."""
    trainings_at_once: int = 0
    """Processes that train; 0 for two on a GPU, where one gets ready while the other trains, and one without."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ...; auto is a GPU where there is one."""

    def run(self) -> int:
        from egorecovery.cli.console import console
        from egorecovery.cli.experiment_screen import ExperimentScreen
        from egorecovery.cli.extras import require
        from egorecovery.experiments import Resources, merge, plan_suite, run_suite, suite_named

        suite = suite_named(self.suite)
        if self.merge:
            console.print(f"{len(merge(self.merge, self.out, suite.name))} cells copied")
        if self.list:
            return self._list(suite)
        if not self.merge:
            require("torch", "transformers", "matplotlib")
        if self.merge:  # the report is all that was asked for
            reported = self._report()
            console.print(f"next: {self._after_merge(reported)}", soft_wrap=True)
            return 0 if reported else 1
        with ExperimentScreen() as watch:
            outcome = run_suite(
                plan_suite(suite, **self._chosen()),
                self.out,
                work=self.work,
                resources=Resources(
                    executor=self.executor,
                    workers=self.workers,
                    device=self.device,
                    trainings_at_once=self.trainings_at_once,
                ),
                budget_minutes=self.budget_minutes,
                diagnostics=self.diagnostics,
                films=self.films,
                on_event=watch,
            )
        console.print(
            f"cells: {len(outcome.done)} done, {len(outcome.there)} were there, {len(outcome.failed)} failed, "
            f"{len(outcome.left)} left for want of time",
            soft_wrap=True,
        )
        for task, words in outcome.diagnosed.items():
            console.print(f"diagnostics of {task}: {words}", soft_wrap=True)
        for cell, words in outcome.filmed.items():
            console.print(f"films of {cell}: {words}", soft_wrap=True)
        reported = self._report()
        again = outcome.left or outcome.failed or not reported
        following = command_of("experiment", self) if again else f"open {self.out / 'report.html'} in a browser"
        console.print(f"next: {following}", soft_wrap=True)
        return outcome.exit_code

    def _after_merge(self, reported: bool) -> str:
        if not reported:
            return shlex.join(["egorecovery", "verify", str(self.out)])
        report = self.out / "report.html"
        if report.exists():
            return f"open {report} in a browser"
        return command_of("experiment", self, without=("--merge",))  # nothing was merged: run what it would be of

    def _report(self) -> bool:
        """Whether there is one, or nothing to report on."""
        from egorecovery.cli.console import console
        from egorecovery.experiments import ExperimentFolder

        if not ExperimentFolder(self.out).done():
            return True
        message = _report_on(self.out)
        console.print(message, soft_wrap=True)
        if message.startswith(REPORTED):
            for name in ("report.md", "report.json"):
                console.print(f"wrote: {self.out / name}", soft_wrap=True)
        return message.startswith(REPORTED)

    def _chosen(self) -> dict[str, Any]:
        from egorecovery.evaluation import EvaluationProtocol, bench_protocol, paper_protocol
        from egorecovery.policy.config_json import changed
        from egorecovery.training import RECIPES, Recipe

        def recipe(task: str) -> Recipe:
            return changed(RECIPES[self.recipe](task), self.set)

        def protocol(task: str) -> EvaluationProtocol:
            horizon = recipe(task).policy.horizon
            named = bench_protocol(task, horizon) if self.protocol == "bench" else paper_protocol(horizon)
            return named if self.replan is None else replace(named, replan_steps=self.replan)

        return {
            "tasks": self.tasks or None,
            "seeds": self.seeds,
            "only": self.only,
            "recipe": recipe,
            "protocol": protocol,
            "rollouts": self.rollouts,
            "starts_seed": self.starts_seed,
        }

    def _list(self, suite: "Suite") -> int:
        from egorecovery.cli.console import console
        from egorecovery.experiments import ExperimentFolder, plan_suite
        from egorecovery.experiments.folder import OTHER_OPTIONS, OtherSettings

        def state_of(cell: "CellPlan") -> str:
            try:
                done = folder.is_done(cell)
            except OtherSettings:
                return UNLIKE
            failed = (folder.cell(cell.id) / "error.json").exists()
            return "done" if done else "failed" if failed else "to do"

        plan: SuitePlan = plan_suite(suite, **self._chosen())
        folder = ExperimentFolder(self.out)
        states = [state_of(cell) for cell in plan.cells]
        for cell, state in zip(plan.cells, states, strict=True):
            console.print(f"{state:6s} {cell.id}  {cell.training_id[:8]}", soft_wrap=True)
        trainings = len({cell.training_id for cell in plan.cells})
        console.print(
            f"{states.count('done')} of {len(states)} cells done; {trainings} trainings (the number behind a cell)"
        )
        following = command_of("experiment", self, without=("--list",))
        if UNLIKE in states:  # that command would refuse
            following = OTHER_OPTIONS.format(report=self.out / "report.md")
        console.print(f"next: {following}", soft_wrap=True)
        return 0


def _report_on(out: Path) -> str:
    """Says where the report is. Results are worth more: no failure to describe them is a failure of the experiment."""
    try:
        from egorecovery.cli.console import console
        from egorecovery.cli.experiment_table import rate_tables
        from egorecovery.report import write_analysis
        from egorecovery.report.analysis import Analysis
        from egorecovery.report.results import read_results

        analysis = Analysis(read_results(out))
        for table in rate_tables(analysis):
            console.print(table)
        return f"{REPORTED}{write_analysis(analysis)}"
    except (EgoRecoveryError, ModuleNotFoundError, OSError) as error:
        return f"no report: {error}"
