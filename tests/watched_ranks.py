"""Training runs under torchrun, watched: `watched_ranks.py ORDER.json`, in each process.

Processes agree on stopping after steps 1, 3, 7, 15 and so on, however fast they are.

The order is {"out": folder, "runs": [{"arguments": ["train", ...], "signal": [rank, step] or null}, ...]}. Each process
writes `rank_N.json` to the folder: per run its exit code, its rows of each embodiment and step, and what it changed.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from egorecovery.cli.main import main
from egorecovery.training import Recipe, distributed_stop, run_setup
from egorecovery.training.batch_sampler import StepPlan
from egorecovery.training.frame_table import FrameTable
from egorecovery.training.step import TrainingStep

RANK = int(os.environ["RANK"])
WRITABLE = os.O_WRONLY | os.O_RDWR


def watched(order: dict[str, Any]) -> dict[str, Any]:
    rows: list[list[int]] = []
    changed: set[str] = set()
    run = order["arguments"][order["arguments"].index("--run") + 1]

    class Watched(TrainingStep):
        def __init__(self, recipe: Recipe, frames: FrameTable, *others: Any) -> None:
            self.robot_frames = frames.robot_frames
            super().__init__(recipe, frames, *others)

        def run(self, plan: StepPlan) -> None:
            super().run(plan)
            is_robot_B = self._inputs["frame_B"] < self.robot_frames  # what was computed, not what was planned
            rows.append([plan.step, int(is_robot_B.sum()), int((~is_robot_B).sum())])
            if order["signal"] == [RANK, plan.step]:
                os.kill(os.getpid(), signal.SIGTERM)

    def note(event: str, details: tuple[Any, ...]) -> None:
        if event in ("os.mkdir", "os.rename") or (event == "open" and details[2] & WRITABLE):
            path = os.fsdecode(details[0]) if not isinstance(details[0], int) else ""
            if path.startswith(run):
                changed.add(path)

    sys.addaudithook(note)
    run_setup.TrainingStep = Watched
    code = main(order["arguments"])
    return {"code": code, "rows": rows, "changed": sorted(changed)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    distributed_stop.ANSWERED_S = float("inf")
    order = json.loads(Path(sys.argv[1]).read_text())
    seen = [watched(each) for each in order["runs"]]
    Path(order["out"], f"rank_{RANK}.json").write_text(json.dumps(seen))
    raise SystemExit(max(each["code"] for each in seen))
