"""Training runs that die on time: one per line of JSON on stdin, forked so that the imports are paid once.

{"arguments": ["train", ...], "before_step": 7}           SIGKILL to itself before that step (counted from 0)
{"arguments": ["train", ...], "before_path": ["a", "b"]}  SIGKILL to itself when it turns to a path with both in it
"""

import json
import os
import signal
import sys
from typing import Any

import torch
import torch.utils.tensorboard  # a run imports it at its start; here that is paid before the fork

from egorecovery.cli.main import main
from egorecovery.training import run_setup
from egorecovery.training.batch_sampler import StepPlan
from egorecovery.training.step import TrainingStep

EVENTS = ("os.rename", "open")  # safetensors are written beyond the interpreter's sight, but synced within it


def die_before_step(fatal: int) -> None:
    class Dying(TrainingStep):
        def run(self, plan: StepPlan) -> None:
            if plan.step == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            super().run(plan)

    run_setup.TrainingStep = Dying


def die_before_path(parts: list[str]) -> None:
    def die_on_time(event: str, details: tuple[Any, ...]) -> None:
        if event in EVENTS:
            paths = [os.fsdecode(each) for each in details[:2] if isinstance(each, (str, bytes, os.PathLike))]
            if any(all(part in path for part in parts) for path in paths):
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die_on_time)


def start_victims() -> None:
    torch.set_num_threads(1)
    for line in sys.stdin:
        order = json.loads(line)
        victim = os.fork()
        if victim == 0:
            os.dup2(2, 1)  # what it says is not for the test
            if "before_step" in order:
                die_before_step(order["before_step"])
            else:
                die_before_path(order["before_path"])
            os._exit(main(order["arguments"]))
        _, status = os.waitpid(victim, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    start_victims()
