"""Rollouts per minute of the evaluator, with a policy that only takes time.

python benchmarks/evaluation.py [--task cube_stack] [--rollouts 40] [--workers 2 ...] [--latency-ms 10] [--json PATH]

The policy holds still, so every rollout runs to its time limit: the slowest evaluation there is. The first line is a
bare loop of `Workcell.step` with the same rendering, in one process: what the machinery costs is the difference.

python benchmarks/evaluation.py --check RUN [--rollouts 10] [--workers 2 ...] [--batch-rows 4] [--json PATH]

Measures no speed but asks whether results depend on how they were made: `egorecovery evaluate` of a trained policy
with one worker, with several, on a local Ray cluster, and killed halfway and resumed. A Ray worker computes on a CPU
and asks for one rollout at a time; so that nothing but the executor differs, all use a CPU and pad to the same rows.
"""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from egorecovery.episodes import RATE_HZ
from egorecovery.evaluation import (
    REGIMES,
    Evaluation,
    EvaluationProtocol,
    ResultFile,
    RolloutPool,
    RolloutRecord,
    Subject,
    bench_protocol,
    evaluate,
    starts,
)
from egorecovery.evaluation.baselines import HoldStill
from egorecovery.executors import cores
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.workcell import Workcell

ALONE = "1 worker"
COMPARED = ("outcome", "reason", "duration_s", "retries", "gate_trace")


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
    check: Path | None = None
    """A training run or checkpoint: compare its results; of the other options, takes those named above."""
    json: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Slow(HoldStill):
    """Thinks for a while before it does nothing."""

    latency_s: float = 0.0

    def infer(self, images_BVHW3, state_BA):  # noqa: N803 - the contract's names
        time.sleep(self.latency_s)
        return super().infer(images_BVHW3, state_BA)


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


def check(run: Path, options: Options) -> int:
    """Results of one policy, made in several ways; 1 if they differ."""
    many = max(2, *options.workers)
    ways: dict[str, dict[str, Any]] = {
        ALONE: {"workers": 1},
        f"{many} workers": {"workers": many},
        f"Ray, {many}": {"workers": many, "executor": "ray"},
        "killed, resumed": {"workers": many, "killed": True},
    }
    if importlib.util.find_spec("ray") is None:
        print("Ray is left out, it is not installed: pip install 'egorecovery[ray]'")
        ways = {way: how for way, how in ways.items() if "executor" not in how}
    made: dict[str, list[RolloutRecord]] = {}
    seconds: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        for way, how in ways.items():
            started_s = time.perf_counter()
            made[way] = results(run, options, Path(folder, f"{way}.jsonl"), **how)
            seconds[way] = time.perf_counter() - started_s
    differences = {way: differing(made[ALONE], records) for way, records in made.items()}
    show(made[ALONE], seconds, differences)
    print(f"Compared with {ALONE}; 'all' is the whole record, 'not 3' that 3 rollouts differ.")
    print(f"Every policy on a CPU, in batches of {options.batch_rows} rows.")
    if options.json:
        found = {way: {"seconds": seconds[way], "differing": differences[way]} for way in ways}
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return int(any(count for counts in differences.values() for count in counts.values()))


def show(reference: list[RolloutRecord], seconds: dict[str, float], differences: dict[str, dict[str, int]]) -> None:
    succeeded = sum(record.succeeded for record in reference)
    table = Table(title=f"{reference[0].subject.policy}, {len(reference)} rollouts, {succeeded} succeeded")
    for column in ("", "seconds", *COMPARED, "all"):
        table.add_column(column.split("_")[0], justify="right" if column == "seconds" else "left")
    for way, counts in differences.items():
        words = {name: f"not {count}" if count else "same" for name, count in counts.items()}
        if not any(record.gate_trace for record in reference):
            words["gate_trace"] = "none"
        table.add_row(way, f"{seconds[way]:.0f}", *(words.values() if way != ALONE else ()))
    Console().print(table)


def results(
    run: Path, options: Options, out: Path, workers: int, executor: str = "local", killed: bool = False
) -> list[RolloutRecord]:
    """What `egorecovery evaluate` finds in a process of its own."""
    from egorecovery.policy.checkpoint import open_checkpoint

    how = {
        "task": open_checkpoint(run).recipe["task"],
        "rollouts": options.rollouts,
        "workers": workers,
        "executor": executor,
        "device": "cpu",
        "batch": options.batch_rows,
        "out": out,
    }
    words = [word for name, value in how.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "egorecovery", "evaluate", str(run), *words]
    if killed:
        kill_halfway(command, out, options.rollouts * len(REGIMES))
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=own_cluster())
    return ResultFile(out).records()


def kill_halfway(command: list[str], out: Path, rollouts: int) -> None:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=own_cluster()) as child:
        while not out.exists() or out.read_bytes().count(b"\n") < rollouts // 2:
            if child.poll() is not None:
                sys.exit("the evaluation ended before it could be killed: try again, with more --rollouts")
            time.sleep(0.005)
        child.kill()
    there = len(ResultFile(out).records())
    print(f"killed with {there} of {rollouts} rollouts on record")
    if there == rollouts:
        sys.exit("that was too late to resume anything: try again, with more --rollouts")


def own_cluster() -> dict[str, str]:
    """Ray starts one here unless told of another."""
    return {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}


def differing(reference: Sequence[RolloutRecord], others: Sequence[RolloutRecord]) -> dict[str, int]:
    """How many rollouts differ in each field, and in anything; one that only one side has differs in all."""
    ours, theirs = ({record.key: record for record in records} for records in (reference, others))
    pairs = [(ours.get(key), theirs.get(key)) for key in ours | theirs]
    alone = sum(a is None or b is None for a, b in pairs)
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    fields = {name: alone + sum(getattr(a, name) != getattr(b, name) for a, b in both) for name in COMPARED}
    return {**fields, "all": alone + sum(a != b for a, b in both)}


def main(options: Options) -> int:
    if options.check is not None:
        return check(options.check, options)
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
    return 0


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options, description=__doc__)))
