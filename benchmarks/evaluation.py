"""Rollouts per minute of the evaluator, with a policy that only takes time.

python benchmarks/evaluation.py [--task cube_stack] [--rollouts 40] [--workers 2 ...] [--latency-ms 10] [--json PATH]

The policy holds still, so every rollout runs to its time limit: the slowest evaluation there is. The first line is a
bare loop of `Workcell.step` with the same rendering, in one process: what the machinery costs is the difference.
"""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from egorecovery.episodes import RATE_HZ
from egorecovery.evaluation import (
    REGIMES,
    Evaluation,
    EvaluationProtocol,
    RolloutPool,
    Subject,
    bench_protocol,
    evaluate,
    starts,
)
from egorecovery.evaluation.baselines import HoldStill
from egorecovery.executors import cores
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.workcell import Workcell


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is measured."""

    task: str = "cube_stack"
    rollouts: int = 20
    """Per regime."""
    workers: tuple[int, ...] = (1, 2)
    latency_ms: float = 10.0
    """Of one inference, whatever the batch."""
    batch_rows: int = 16
    time_limit_s: float | None = None
    """Of a rollout; the bench protocol's if not given."""
    replan: int = 20
    image_size: int = 96
    json: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Slow(HoldStill):
    """Thinks for a while before it does nothing."""

    latency_s: float = 0.0

    def decide(self, images_BVHW3, state_BA):  # noqa: N803 - the contract's names
        time.sleep(self.latency_s)
        return super().decide(images_BVHW3, state_BA)


def bare_steps_per_s(protocol: EvaluationProtocol, task: str, image_size: int) -> float:
    """The same starts and pictures, staging included, by a plain loop."""
    few = replace(protocol, rollouts=min(4, protocol.rollouts))
    scenes = [start for regime in REGIMES for start in starts(few, task, regime)]
    steps = protocol.longest_steps
    with Workcell(scene_named(task), image_size=image_size) as cell:
        cell.reset(scenes[0])
        cell.observe()
        started_s = time.perf_counter()
        for start in scenes:
            cell.reset(start)
            hold = cell.robot.target()
            for step in range(steps):
                if step % protocol.replan_steps == 0:
                    cell.observe()
                cell.step(hold)
        return steps * len(scenes) / (time.perf_counter() - started_s)


def main(options: Options) -> None:
    protocol = replace(bench_protocol(options.task), rollouts=options.rollouts, replan_steps=options.replan)
    if options.time_limit_s is not None:
        protocol = replace(protocol, time_limit_s=options.time_limit_s)
    source = Slow(latency_s=options.latency_ms / 1000, image_size=options.image_size, steps=options.replan)
    bare = bare_steps_per_s(protocol, options.task, options.image_size)
    title = f"{options.task}, {protocol.time_limit_s:g} s per rollout, {options.latency_ms:g} ms per inference"
    table = Table(title=f"{title}, {cores()} cores")
    for column in ("workers", "rollouts/min", "control steps/s", "of bare stepping per worker", "start-up s"):
        table.add_column(column, justify="right")
    table.add_row("bare", "", f"{bare:.0f}", "100%", "")
    found: dict[str, dict[str, float]] = {"bare": {"steps_per_s": bare}}
    for workers in options.workers:
        with RolloutPool(workers) as pool:
            evaluation = Evaluation(
                subject=Subject(policy=source.name), task=options.task, protocol=protocol, batch_rows=options.batch_rows
            )
            short = replace(protocol, time_limit_s=3.2, rollouts=max(1, workers))
            started_s = time.perf_counter()
            evaluate(replace(evaluation, protocol=short), source, pool=pool)  # compiles the scenes, opens GL
            ready_s = time.perf_counter()
            records = evaluate(evaluation, source, pool=pool)
            seconds = time.perf_counter() - ready_s
        steps = sum(record.duration_s for record in records) * RATE_HZ / seconds
        per_minute = 60 * len(records) / seconds
        found[str(workers)] = {"rollouts_per_min": per_minute, "steps_per_s": steps, "start_up_s": ready_s - started_s}
        share = steps / bare / workers
        table.add_row(str(workers), f"{per_minute:.0f}", f"{steps:.0f}", f"{share:.0%}", f"{ready_s - started_s:.1f}")
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
