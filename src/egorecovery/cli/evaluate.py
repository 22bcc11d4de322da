"""`egorecovery evaluate`."""

import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro
from tyro.conf import Positional

from egorecovery.cli.options import command_of
from egorecovery.errors import RecipeError

if TYPE_CHECKING:
    from egorecovery.evaluation import Evaluation, EvaluationProtocol, RolloutRecord, SourceFactory, Subject

HOLD_STILL = "hold_still"


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Evaluate a policy in closed loop in the workcell; run again, it goes on where it stopped."""

    EXAMPLE: ClassVar = "evaluate runs/policy --task cube_stack --rollouts 5 --film 1"
    HEADINGS: ClassVar = {
        "regime": "which rollouts",
        "replan": "how the policy is used",
        "plain_room": "what it sees",
        "out": "what is written",
        "workers": "this machine",
    }

    checkpoint: Positional[Path]
    """A training run or one of its checkpoints, or 'hold_still' for the policy that does nothing."""
    task: str | None = None
    """cup_brush, table_sweep, round_disk, cube_stack, or a task of your own (docs/tutorial_task.md).

    By default the one that the policy was trained for; hold_still needs it."""
    regime: Literal["initial", "recovery", "both"] = "both"
    """Which starts: ordinary ones, failures, or both."""
    rollouts: int = 20
    """Of each kind of start."""
    starts_seed: str = "comparison"
    """Which starts, by name: 'comparison' for results, 'validation' for anything that is tuned."""
    protocol: Literal["bench", "paper"] = "bench"
    """bench: the paper's rules with a time limit per task; paper: 300 s."""
    replan: int | None = None
    """Steps of a chunk to execute before the policy looks again; 35 (of a short chunk half), or 1 with --ensemble."""
    ensemble: bool = False
    """Average overlapping chunks (ACT)."""
    gate: Literal["learned", "0", "0.5", "1", "shuffled"] = "learned"
    """Replace what the gate says."""
    zero_intent: bool = False
    """Replace the intent by 0."""
    plain_room: bool = False
    """Always the same light, colours and cameras."""
    clutter: bool = False
    """Distractors on the table."""
    camera_size: str = ""
    """What the cameras record, such as 640x480, for a policy of your own data; its own rule then fits the pictures."""
    state_dropout: float = 0.0
    """Share of decisions that are made without proprioception, for policies trained with some of it dropped."""
    out: Path | None = None
    """The file that results are added to; rollouts that are in it are not run again.

    By default RUN/results.jsonl, or CHECKPOINT_results.jsonl beside a checkpoint alone."""
    film: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """Film the first N rollouts of each kind of start, beside the results."""
    film_starts: Annotated[tuple[int, ...], tyro.conf.arg(metavar="K")] = ()
    """Film these starts, counted from 0; they need not be among the rollouts."""
    json: bool = False
    """Print JSON instead of tables."""
    workers: int = 0
    """Processes to use; 0 for all cores, and half as many again where they wait for a policy on a GPU."""
    executor: Literal["local", "ray"] = "local"
    """This machine, or a Ray cluster (docs/scale.md)."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ...; auto is a GPU where there is one."""
    acceleration: Literal["auto", "on", "off"] = "auto"
    """Fused kernels on a GPU. auto: where a parity check passes on its kind; off: plain PyTorch."""
    batch: int = 0
    """Rows of every inference; 0 for 16 on a GPU and 1 without."""

    def run(self) -> int:
        import time

        from egorecovery.cli.console import console, progress_bar
        from egorecovery.evaluation import ResultFile, default_workers, evaluate

        if self.task is None:
            return replace(self, task=self._trained_task()).run()
        factory, evaluation, device = self._plan()
        there: int | None = None
        started_s = time.monotonic()
        with progress_bar(f"Evaluating on {self.task}", "rollouts") as advance:

            def progress(done: int, total: int) -> None:
                nonlocal there
                there = done if there is None else there
                advance(done, total)

            records = evaluate(
                evaluation,
                factory,
                ResultFile(self.results),
                workers=self.workers or default_workers(device),
                executor=self.executor,
                on_progress=progress,
            )
        seconds = time.monotonic() - started_s
        films = self._film(evaluation, factory)
        if self.json:
            _print_json(records)
            return 0
        show_rates(records, f"{evaluation.subject.policy} ({self.protocol}, starts '{self.starts_seed}')")
        made = len(records) - (there or 0)
        console.print(
            f"{made} rollouts in {seconds:.0f} s, {there} were there; results: {self.results}", soft_wrap=True
        )
        for path in films:
            console.print(f"film: {path}", soft_wrap=True)
        console.print(f"next: {self._next()}", soft_wrap=True)
        return 0

    @property
    def results(self) -> Path:
        """In the run that is evaluated, whichever of its checkpoints that is: nothing appears where nobody looks."""
        if self.out is not None:
            return self.out
        if str(self.checkpoint) == HOLD_STILL:
            return Path(HOLD_STILL) / "results.jsonl"
        run = self.checkpoint if self.checkpoint.name.strip(".") else self.checkpoint.resolve()
        if run.absolute().parent.name == "checkpoints":
            run = (run if len(run.parts) > 1 else run.absolute()).parents[1]
        elif (run / "checkpoint.json").exists():  # alone; what is not its own would be damage in it
            return run.with_name(f"{run.name}_results.jsonl")
        return run / "results.jsonl"

    def _filmed_starts(self) -> list[int]:
        return sorted({*range(min(self.film, self.rollouts)), *self.film_starts})

    def _next(self) -> str:
        """What one does with results: watch those that are filmed, or film some of the same rollouts."""
        if any(start < self.rollouts for start in self._filmed_starts()):
            return f"egorecovery watch {shlex.quote(str(self.results))}"
        return command_of("evaluate", replace(self, film=min(self.rollouts, 5), film_starts=(), json=False))

    def _trained_task(self) -> str:
        """What the policy was trained for: a recipe has one task."""
        from egorecovery.policy.checkpoint import open_checkpoint

        if str(self.checkpoint) == HOLD_STILL:
            raise RecipeError("hold_still has no task of its own: name one, as in --task cube_stack")
        saved = open_checkpoint(self.checkpoint)
        task = saved.recipe.get("task")
        if not isinstance(task, str):
            raise RecipeError(f"{saved.path} does not say what it was trained for: name it with --task")
        return task

    def _plan(self) -> "tuple[SourceFactory, Evaluation, str]":
        """Who is asked, what is run, and where the policy computes."""
        from egorecovery.evaluation import REGIMES, Evaluation, Subject
        from egorecovery.evaluation.baselines import HoldStill
        from egorecovery.evaluation.batched_policy import usual_batch_rows

        if self.out is not None and self.out.is_dir():
            raise RecipeError(
                f"--out names a file that results are added to, and {self.out} is a folder; such as "
                f"{self.out / 'results.jsonl'}"
            )
        if min(self.film_starts, default=0) < 0:
            raise RecipeError(f"starts are counted from 0, got --film-starts {min(self.film_starts)}")
        if str(self.checkpoint) == HOLD_STILL:
            protocol, subject, device = self._protocol(), Subject(policy=HOLD_STILL), "cpu"
            factory = HoldStill(steps=protocol.replan_steps)
        else:
            factory, subject, device, horizon = self._trained()
            protocol = self._protocol(horizon)
        evaluation = Evaluation(
            subject=subject,
            task=self.task or self._trained_task(),
            protocol=protocol,
            regimes=REGIMES if self.regime == "both" else (self.regime,),
            batch_rows=self.batch or usual_batch_rows(device),
        )
        return factory, evaluation, device

    def _trained(self) -> "tuple[SourceFactory, Subject, str, int]":
        """The policy of a checkpoint, who it is, where it computes, and how long its chunks are."""
        from egorecovery.evaluation import Subject
        from egorecovery.evaluation.checkpoint_source import CheckpointFactory
        from egorecovery.policy.action_source import Intervention
        from egorecovery.policy.checkpoint import open_checkpoint
        from egorecovery.policy.checkpoint_card import policy_hash
        from egorecovery.policy.device import pick_device

        saved = open_checkpoint(self.checkpoint)
        if saved.recipe.get("task") != self.task:
            trained_for = saved.recipe.get("task")
            raise RecipeError(
                f"{saved.path} was trained for {trained_for}, not for {self.task}; give --task {trained_for}"
            )
        # Ray lends its workers no GPU.
        device = "cpu" if self.executor == "ray" and self.device == "auto" else str(pick_device(self.device))
        intervention = Intervention(zero_intent=self.zero_intent, gate=self.gate)
        factory = CheckpointFactory(
            checkpoint=saved.path.absolute(), device=device, intervention=intervention, acceleration=self.acceleration
        )
        source = factory()
        weights = policy_hash(saved.path)
        subject = Subject(
            policy=self._name_on_record(weights) or source.name,
            policy_hash=weights,
            seed=int(saved.recipe.get("seed", 0)),
            intervention=asdict(intervention),
        )
        lent = factory if self.executor == "ray" else lambda: source
        return lent, subject, device.split(":")[0], int(saved.recipe["policy"]["horizon"])

    def _name_on_record(self, weights: str) -> str | None:
        """How the results already there call these weights: under another name they would be run again."""
        from egorecovery.evaluation import ResultFile

        records = ResultFile(self.results).records() if self.results.exists() else []
        return next((record.subject.policy for record in records if record.subject.policy_hash == weights), None)

    def _protocol(self, horizon: int | None = None) -> "EvaluationProtocol":
        from egorecovery.evaluation import bench_protocol, paper_protocol

        named = (
            paper_protocol(horizon)
            if self.protocol == "paper"
            else bench_protocol(self.task or self._trained_task(), horizon)
        )
        return replace(
            named,
            rollouts=self.rollouts,
            starts_seed=self.starts_seed,
            replan_steps=self.replan if self.replan is not None else 1 if self.ensemble else named.replan_steps,
            ensemble=self.ensemble,
            varied_appearance=not self.plain_room,
            clutter=self.clutter,
            state_dropout=self.state_dropout,
            camera_size=self.camera_size,
        )

    def _film(self, evaluation: "Evaluation", factory: "SourceFactory") -> list[Path]:
        indices = self._filmed_starts()
        if not indices:
            return []
        from egorecovery.evaluation import BatchedPolicy
        from egorecovery.evaluation.rollout_videos import video_path
        from egorecovery.evaluation.video import render_video

        policy = BatchedPolicy(factory(), evaluation.batch_rows)
        jobs = evaluation.jobs_at(indices, policy.source)
        paths = [
            video_path(self.results, task=job.task, regime=job.regime, index=job.index, key=evaluation.key(job))
            for job in jobs
        ]
        for job, path in zip(jobs, paths, strict=True):
            render_video(job, policy, path)
        return paths


def show_rates(records: "list[RolloutRecord]", title: str) -> None:
    from collections import Counter

    from rich.box import SIMPLE
    from rich.table import Table

    from egorecovery.cli.console import console
    from egorecovery.evaluation import rates

    table = Table(title=title, title_justify="left", box=SIMPLE)
    for column in ("regime", "mode", "success", "rate, 95% Wilson", "retries", "seconds"):
        table.add_column(column, justify="left" if column in ("regime", "mode") else "right")
    for regime in dict.fromkeys(record.regime for record in records):
        of_regime = [record for record in records if record.regime == regime]
        modes = rates(of_regime, by=lambda record: record.mode)
        rows: list[tuple[str, list[RolloutRecord]]] = [("all", of_regime)]
        if len(modes) > 1:
            rows += [(mode, [record for record in of_regime if record.mode == mode]) for mode in modes]
        for mode, chosen in rows:
            count, interval = str(rates(chosen, by=lambda record: 0)[0]).split("  ")
            retries = sum(record.retries for record in chosen) / len(chosen)
            seconds = sum(record.duration_s for record in chosen) / len(chosen)
            label = regime if mode == "all" else ""
            table.add_row(label, mode, count, interval, f"{retries:.1f}", f"{seconds:.1f}")
    console.print(table)
    reasons = Counter(_kind(record.reason) for record in records if not record.succeeded)
    for reason, count in reasons.most_common():
        console.print(f"failures: {count} x {reason}", soft_wrap=True)


def _kind(reason: str) -> str:
    """Measured numbers differ from rollout to rollout; the kind of failure does not."""
    import re

    return re.sub(r"\d+(\.\d+)?", "N", reason)


def _print_json(records: "list[RolloutRecord]") -> None:
    from egorecovery.cli.console import print_json
    from egorecovery.evaluation import rates

    def summary(by: Any) -> dict[str, Any]:
        found = rates(records, by=by)
        return {name: {**asdict(rate), "rate": rate.value, **asdict(rate.wilson)} for name, rate in found.items()}

    by_mode = summary(lambda record: f"{record.regime}/{record.mode}")
    print_json({"regimes": summary(lambda record: record.regime), "modes": by_mode})
