"""The trainings of an experiment: here, or each in a process of its own, so that one gets ready while another trains.

`python -m egorecovery.experiments RUN` is such a process: it trains as `RUN/job.json` says, and saves and stops when
the process that started it is gone.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from egorecovery.episodes import EpisodeStore
from egorecovery.errors import EgoRecoveryError, RecipeError, StoreDamaged, StoreLocked
from egorecovery.executors import cores
from egorecovery.experiments.cell_card import TrainingCard
from egorecovery.experiments.plan import Training
from egorecovery.storage.atomic_io import write_file
from egorecovery.storage.checksummed_json import read_checksummed, with_checksum
from egorecovery.storage.containment import exists, inside, is_folder, names_in, open_for_append, remove
from egorecovery.storage.typed_json import from_json, to_json
from egorecovery.training import Recipe
from egorecovery.training.logs import read_log, run_lock
from egorecovery.training.stopping import SAVED_AND_STOPPED

ORPHAN_S = 60.0  # a training whose parent was killed may still be saving for so long
LAST_WORDS = 12  # lines of a failed training's output that its record keeps


class TrainingFailed(EgoRecoveryError):
    """A training process that ended badly."""


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    recipe: Recipe
    store: Path
    run: Path
    device: str = "auto"
    schedule: dict[str, int] = field(default_factory=dict)  # changes to `training.loop.Schedule`
    turn_file: Path | None = None  # shared by trainings that step one after another

    def write(self) -> None:
        record = {
            "recipe": to_json(self.recipe),
            "store": str(self.store.absolute()),
            "device": self.device,
            "schedule": self.schedule,
            "turn_file": self.turn_file and str(self.turn_file.absolute()),
        }
        self.run.mkdir(parents=True, exist_ok=True)
        write_file(self.run / "job.json", with_checksum(record))

    @classmethod
    def read(cls, run: Path) -> "TrainingJob":
        path = inside(run, "job.json")
        record = read_checksummed(path)
        try:
            return cls(
                recipe=from_json(Recipe, record["recipe"], "recipe", RecipeError),
                store=Path(record["store"]),
                run=run,
                device=record["device"],
                schedule=record["schedule"],
                turn_file=record["turn_file"] and Path(record["turn_file"]),
            )
        except (KeyError, TypeError) as error:
            raise StoreDamaged(f"{path} is not the job of a training ({error!r}); remove it") from None


def training_card(run: Path) -> dict[str, Any] | None:
    """What a finished training says of itself; None of one that is not, or whose checkpoint is gone."""
    path = inside(run, "training.json")
    if not exists(path) or not any(exists(checkpoint / "checkpoint.json") for checkpoint in _checkpoints(run)):
        return None
    advice = "remove the file, and the training is looked at again"
    return from_json(TrainingCard, read_checksummed(path), f"{path}: ", StoreDamaged, advice)


def _checkpoints(run: Path) -> list[Path]:
    home = inside(run, "checkpoints")
    return [home / name for name in names_in(home) if name.startswith("step_") and is_folder(home / name)]


def run_training(
    job: TrainingJob,
    watch: Callable[[int, int], None] = lambda step, steps: None,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Trains to the end from wherever an earlier try got to, and says so in `training.json`."""
    from egorecovery.training.loop import Schedule, train
    from egorecovery.training.runtime import start

    resumed = bool(_checkpoints(job.run))
    started_s = time.monotonic()
    job.run.mkdir(parents=True, exist_ok=True)
    with _locked(job.run):
        runtime = start(job.device)
        outcome = train(
            locked=True,
            recipe=job.recipe,
            store=EpisodeStore(job.store),
            run=job.run,
            runtime=runtime,
            resume=True,
            schedule=Schedule(**job.schedule),
            turn_file=job.turn_file,
            watch=lambda at: watch(at.step, at.steps),
            stop=stop,
        )
        wall_s = time.monotonic() - started_s - outcome.waited_s
        for checkpoint in _checkpoints(job.run):  # they are large, and the last one is what counts
            if checkpoint != outcome.checkpoint:
                remove(checkpoint)
        card = _card(job, outcome.checkpoint, None if resumed else wall_s)
        write_file(job.run / "training.json", with_checksum(card))


def _card(job: TrainingJob, checkpoint: Path, wall_s: float | None) -> dict[str, Any]:
    """Wall time of an unbroken training; of a broken one the log knows how long its steps took."""
    from egorecovery.policy.checkpoint import open_checkpoint

    rows = read_log(job.run / "log.jsonl", "train")
    steps, done, in_steps_s = job.recipe.optimisation.steps, 0, 0.0
    for row in rows:
        in_steps_s += (row["step"] - done) * job.recipe.batch.size / row["samples_per_s"]
        done = row["step"]
    scores = [row for row in read_log(job.run / "log.jsonl", "held_out") if row["step"] == steps]
    saved = open_checkpoint(checkpoint)
    return {
        "seconds": round(in_steps_s if wall_s is None else wall_s, 1),
        "steps": steps,
        "samples_per_s": round(steps * job.recipe.batch.size / in_steps_s, 1) if in_steps_s else 0.0,
        "scores": {name: value for name, value in scores[-1].items() if name not in ("step", "kind")} if scores else {},
        "data_hash": saved.data,
        "revision": saved.revision,
        "hardware": hardware(job.device),
    }


def hardware(device: str) -> dict[str, Any]:
    import torch

    from egorecovery.policy.device import pick_device

    chosen = pick_device(device)
    name = torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else "cpu"
    return {"device": name, "cpu_count": cores()}


class TrainingProcess:
    """A training under way in another process."""

    def __init__(self, job: TrainingJob, threads: int | None = None) -> None:
        self.job = job
        job.write()
        self._output = inside(job.run, "output.txt")
        environment = dict(os.environ)
        if threads:
            environment.setdefault("OMP_NUM_THREADS", str(threads))
        with os.fdopen(open_for_append(self._output, flags=os.O_TRUNC), "w") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "egorecovery.experiments", str(job.run)],
                stdin=subprocess.PIPE,  # closes when this process dies, however it dies
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )

    def step(self) -> int:
        """The last step it logged."""
        rows = read_log(self.job.run / "log.jsonl", "train")
        return rows[-1]["step"] if rows else 0

    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def stopped(self) -> bool:
        """It was asked to stop, saved, and did."""
        return self._process.returncode in (SAVED_AND_STOPPED, -signal.SIGTERM)  # the latter before its first step

    def require_success(self) -> None:
        if self._process.returncode:
            lines = self._output.read_text(errors="replace").strip().splitlines()[-LAST_WORDS:]
            words = "\n".join(lines) or f"exit code {self._process.returncode}, no output"
            raise TrainingFailed(f"the training process ended with {self._process.returncode}: {words}")

    def stop(self) -> None:
        """Asks it to save and stop, and waits until it has."""
        if not self.ended():
            self._process.terminate()
        try:
            self._process.wait(ORPHAN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass(kw_only=True)
class RunningTraining:
    training: Training
    process: TrainingProcess
    reported: int | None = None  # the last step that watchers were sent


@contextmanager
def _locked(run: Path) -> Iterator[None]:
    """One training at a time in a run's folder; waits for an orphan to save and leave."""
    give_up_s = time.monotonic() + ORPHAN_S
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(run_lock(run))
                break
            except StoreLocked:
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(0.5)
        yield


def _stop_with_parent() -> None:
    """Standard input ends with the process that holds its other end."""

    def watch() -> None:
        while sys.stdin.buffer.raw.read(1):  # pyright: ignore[reportAttributeAccessIssue] - a pipe has it
            continue
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def main(run: Path) -> int:
    """The process of one training."""
    from egorecovery.training.stopping import Stopped

    _stop_with_parent()
    try:
        run_training(TrainingJob.read(run), lambda step, steps: print(json.dumps({"step": step, "of": steps})))
    except Stopped as stopped:
        print(stopped)
        return SAVED_AND_STOPPED
    except EgoRecoveryError as error:
        print(f"{type(error).__name__}: {error}")
        return 1
    return 0
