"""Trainings that share a GPU take turns: real processes, one of them killed."""

import subprocess
import sys
import time
from pathlib import Path

from egorecovery.training.gpu_lock import turn

TAKES_ITS_TURN = """
import sys, time
from pathlib import Path
from egorecovery.training.gpu_lock import turn
with turn(Path(sys.argv[1])) as waited_s:
    print("in", time.monotonic(), waited_s, flush=True)
    time.sleep(float(sys.argv[2]))
    print("out", time.monotonic(), flush=True)
"""


def started(lock: Path, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", TAKES_ITS_TURN, str(lock), str(seconds)], stdout=subprocess.PIPE, text=True
    )


def lines(process: subprocess.Popen[str]) -> dict[str, float]:
    told, _ = process.communicate(timeout=60)
    return {line.split()[0]: float(line.split()[1]) for line in told.splitlines()}


def test_of_two_trainings_one_waits_until_the_other_is_through(tmp_path):
    both = [started(tmp_path / "turn.lock", 0.4) for _ in range(2)]
    first, second = sorted((lines(each) for each in both), key=lambda told: told["in"])
    assert second["in"] >= first["out"]


def test_a_training_that_is_killed_gives_up_its_turn(tmp_path):
    lock = tmp_path / "turn.lock"
    holder = started(lock, 600)
    assert holder.stdout is not None
    assert holder.stdout.readline().startswith("in")
    holder.kill()
    holder.wait()
    with turn(lock) as waited_s:
        assert waited_s < 600  # for so long the holder would have kept it


def test_the_wait_is_told_apart_from_the_work(tmp_path):
    lock = tmp_path / "turn.lock"
    holder = started(lock, 0.5)
    assert holder.stdout is not None
    holder.stdout.readline()
    since_s = time.monotonic()
    with turn(lock) as waited_s:
        entered_s = time.monotonic()
    until_s = lines(holder)["out"]
    assert until_s <= entered_s
    assert until_s - since_s - 0.25 <= waited_s <= entered_s - since_s


def test_without_a_file_nobody_waits():
    with turn(None) as waited_s:
        assert waited_s == 0.0
