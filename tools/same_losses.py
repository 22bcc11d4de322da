"""Whether two checkouts train alike on a CPU: same losses at every step, same weights at the end, bit for bit.

python tools/same_losses.py BEFORE AFTER STORE --task cube_stack --steps 50 --recipes demo bench

BEFORE and AFTER are checkouts, STORE is labelled. Batches and pictures are small: what counts is that nothing differs.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TIMES = {"samples_per_s"}  # of a log's rows: they differ from run to run
SETTINGS = ["held_out", "0", "batch.robot", "2", "batch.human", "2", "policy.image_size", "64"]


def train(checkout: Path, store: Path, recipe: str, run: Path, given: argparse.Namespace) -> None:
    command = [sys.executable, "-m", "egorecovery", "train", str(store), "--task", given.task, "--recipe", recipe]
    command += ["--method", given.method, "--steps", str(given.steps), "--log-every", "1", "--run", str(run)]
    command += ["--robot-success", "2", "--robot-recovery", "2", "--human-success", "0", "--human-recovery", "3"]
    command += ["--device", "cpu", "--precision", "fp32", "--deterministic", "--set", *SETTINGS, *given.set]
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")}
    subprocess.run(command, check=True, cwd=checkout, env=environment, stdout=subprocess.DEVNULL)


def outcome(run: Path) -> tuple[list[dict], str]:
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [{name: row[name] for name in row.keys() - TIMES} for row in rows if row["kind"] == "train"]
    weights = max((run / "checkpoints").glob("step_*")) / "policy.safetensors"
    return losses, hashlib.sha256(weights.read_bytes()).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("store", type=Path)
    parser.add_argument("--task", default="cube_stack")
    parser.add_argument("--method", default="egorecovery")
    parser.add_argument("--recipes", nargs="+", default=["demo", "bench", "paper"])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--set", nargs="+", default=[], help="more settings by dotted name")
    given = parser.parse_args()
    differing = 0
    for recipe in given.recipes:
        with tempfile.TemporaryDirectory() as folder:
            runs = [Path(folder) / name for name in ("before", "after")]
            for checkout, run in zip((given.before, given.after), runs, strict=True):
                train(checkout, given.store.resolve(), recipe, run, given)
            (before, first), (after, second) = map(outcome, runs)
        same = before == after and first == second
        differing += not same
        print(f"{recipe}: {len(after)} steps, {'same' if same else 'DIFFERENT'}, weights {first[:16]} {second[:16]}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
