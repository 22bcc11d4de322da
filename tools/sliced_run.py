"""Runs experiments in slices of a few minutes, for a machine that is lent for no longer.

python tools/sliced_run.py tools/slices/comparison.toml WORK --minutes 8.8 --packed RESULTS [--unpack EARLIER.tar.xz]

A plan is a TOML file of lanes. Lanes run side by side, the commands of a lane one after the other, each with the time
that is left; two lanes keep the cores busy while either waits for the GPU. Trainings of all lanes take turns on one
GPU. At the end finished cells and the rollouts of unfinished ones go into RESULTS/results.tar.xz, what was printed into
RESULTS/output.txt. Run again, it goes on: on the same machine from WORK, on a fresh one from the archive of the slice
before (finished cells are kept, trainings and data are made again).

In commands {out} is the command's own results folder, {work} the lane's data and trainings, {minutes} the time left.
"""

import json
import os
import shlex
import subprocess
import sys
import tarfile
import threading
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table
from tyro.conf import Positional

from egorecovery.experiments import ExperimentFolder

SAVING_S = 45.0  # beyond its time a command may go on saving for so long
ASKED_S = 5.0  # between being asked to stop and being made to
LEAST_MINUTES = 0.3  # with less left no command is begun
KEPT = ("suite.json", "cell.json", "rollouts.jsonl", "log.jsonl", "error.json", "transfer.jsonl")
ARCHIVE = "results.tar.xz"


@dataclass(frozen=True)
class Options:
    plan: Positional[Path]
    work: Positional[Path]
    """Data, trainings and results."""
    minutes: float
    """Of this slice. Saving and packing come on top: up to a minute."""
    packed: Path
    """Where the archive and the output go."""
    unpack: tuple[Path, ...] = ()
    """Archives of earlier slices; what WORK has already is kept."""


@dataclass(frozen=True, kw_only=True)
class Command:
    name: str  # of its results folder
    words: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Lane:
    name: str
    commands: tuple[Command, ...]


def read_plan(path: Path) -> tuple[Lane, ...]:
    """Names of commands are unique: each has a results folder of its own."""
    record = tomllib.loads(path.read_text())
    lanes = tuple(
        Lane(
            name=name,
            commands=tuple(
                Command(name=entry["name"], words=tuple(shlex.split(entry["run"]))) for entry in lane["command"]
            ),
        )
        for name, lane in record["lane"].items()
    )
    named = [command.name for lane in lanes for command in lane.commands]
    if len(set(named)) < len(named):
        raise SystemExit(f"{path}: two commands have one name; each needs a results folder of its own")
    return lanes


def share_turns(lanes: tuple[Lane, ...], work: Path) -> None:
    """One GPU, one turn: the lanes' turn files are one file."""
    first: Path | None = None
    for lane in lanes:
        turns = ExperimentFolder(work / lane.name, work / lane.name).turn_file
        turns.parent.mkdir(parents=True, exist_ok=True)
        if first is None:
            first = turns
            first.touch()
        elif not turns.exists():
            os.link(first, turns)


def run_lane(lane: Lane, work: Path, deadline_s: float, output: Path, codes: dict[str, int]) -> None:
    for command in lane.commands:
        left = (deadline_s - time.monotonic()) / 60
        if left < LEAST_MINUTES:
            return
        places = {"out": work / "results" / command.name, "work": work / lane.name, "minutes": f"{left:.2f}"}
        words = [sys.executable if word == "python" else word.format(**places) for word in command.words]
        with output.open("a") as printed:
            printed.write(f"$ {shlex.join(words)}\n")
            printed.flush()
            process = subprocess.Popen(words, stdout=printed, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            codes[command.name] = ended(process, deadline_s + SAVING_S)


def ended(process: "subprocess.Popen[bytes]", give_up_s: float) -> int:
    """It stops by itself at its deadline; one that does not is asked, then made to."""
    for ask in (lambda: None, process.terminate, process.kill):
        ask()
        try:
            return process.wait(max(give_up_s - time.monotonic(), ASKED_S))
        except subprocess.TimeoutExpired:
            continue
    return process.wait()


def results_of(work: Path) -> Iterator[Path]:
    for path in sorted((work / "results").rglob("*")):
        if path.name in KEPT and path.is_file():
            yield path


def pack(work: Path, into: Path) -> Path:
    into.mkdir(parents=True, exist_ok=True)
    archive = into / ARCHIVE
    draft = archive.with_suffix(".part")
    with tarfile.open(draft, "w:xz") as packed:
        for path in results_of(work):
            packed.add(path, path.relative_to(work / "results"))
    draft.replace(archive)
    return archive


def unpack(archives: tuple[Path, ...], work: Path) -> None:
    for archive in archives:
        with tarfile.open(archive) as packed:
            members = [each for each in packed.getmembers() if not (work / "results" / each.name).exists()]
            packed.extractall(work / "results", members=members, filter="data")


def show(lanes: tuple[Lane, ...], work: Path, codes: dict[str, int]) -> None:
    """What is there, and where the time went."""
    table = Table(title="finished cells", title_justify="left")
    for column in ("command", "cell", "initial", "recovery", "training s", "evaluation s", "finished"):
        table.add_column(column, overflow="fold")
    for lane in lanes:
        for command in lane.commands:
            for card in sorted((work / "results" / command.name / "cells").glob("*/cell.json")):
                table.add_row(command.name, card.parent.name, *figures(card))
            if code := codes.get(command.name, 0):
                print(f"{command.name} ended with {code}")
    Console(width=150).print(table)


def figures(card_path: Path) -> list[str]:
    card = json.loads(card_path.read_text())
    rollouts = [json.loads(line) for line in (card_path.parent / "rollouts.jsonl").read_text().splitlines()]
    found: list[str] = []
    for regime in ("initial", "recovery"):
        outcomes = [rollout["outcome"] == "success" for rollout in rollouts if rollout["regime"] == regime]
        found.append(f"{sum(outcomes)} / {len(outcomes)}")
    took: dict[str, Any] = {part: card.get(part, {}).get("seconds") for part in ("training", "evaluation")}
    return [*found, str(took["training"]), str(took["evaluation"]), card["finished_at"][11:19]]


def main(options: Options) -> int:
    started_s = time.monotonic()
    lanes, codes = read_plan(options.plan), dict[str, int]()
    unpack(options.unpack, options.work)
    share_turns(lanes, options.work)
    options.packed.mkdir(parents=True, exist_ok=True)
    output = options.packed / "output.txt"
    running = [
        threading.Thread(target=run_lane, args=(lane, options.work, started_s + 60 * options.minutes, output, codes))
        for lane in lanes
    ]
    try:
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    finally:
        archive = pack(options.work, options.packed)
    show(lanes, options.work, codes)
    print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB after {time.monotonic() - started_s:.0f} s")
    return int(any(codes.values()))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options, description=__doc__)))
