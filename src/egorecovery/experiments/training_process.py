"""A training in a process of its own, so that one gets ready while another trains.

`python -m egorecovery.experiments RUN` is such a process: it trains as `RUN/job.json` says, and saves and stops when
the process that started it is gone.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from egorecovery.errors import EgoRecoveryError
from egorecovery.experiments.plan import Training
from egorecovery.experiments.trainings import ORPHAN_S, TrainingJob, run_training
from egorecovery.storage.containment import inside, open_for_append
from egorecovery.training.logs import read_log
from egorecovery.training.stopping import SAVED_AND_STOPPED

LAST_WORDS = 12  # lines of a failed training's output that its record keeps


class TrainingFailed(EgoRecoveryError):
    """A training process that ended badly."""


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
