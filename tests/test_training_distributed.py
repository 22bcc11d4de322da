"""Two processes under torchrun compute what one computes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from egorecovery.cli.main import main
from egorecovery.policy.checkpoint import incomplete, open_checkpoint
from egorecovery.training.logs import read_log
from egorecovery.training.stopping import SAVED_AND_STOPPED
from training_store import training_arguments

pytestmark = pytest.mark.slow

STEPS = 12
SIGNALLED_IN = 4  # index of a step after which processes do not agree on stopping
STOPPED_AFTER = 7  # the next that they do; not a multiple of the log's interval
CHANGES = {
    "augmentation.state_noise": "0.05",
    "policy.drop_path": "0.2",
    "optimisation.clip_after": "4",
    "optimisation.average_decay": "0.9",
}
OPTIONS = {"steps": STEPS, "log_every": 3, "score_every": 6, "save_every": 100}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def alone(made_up, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("alone") / "run"
    assert main(training_arguments(made_up, run, CHANGES, **OPTIONS)) == 0
    return run


@pytest.fixture(scope="module")
def together(made_up, tmp_path_factory) -> tuple[Path, dict[str, Any]]:
    """Under torchrun, in one start because starting takes longest: a whole run, one told to stop, the same resumed."""
    out = tmp_path_factory.mktemp("together")
    whole, stopped, resumed = (
        training_arguments(made_up, out / run, CHANGES, resume=resume, **OPTIONS)
        for run, resume in (("whole", False), ("stopped", False), ("stopped", True))
    )
    runs = [
        {"arguments": whole, "signal": None},
        {"arguments": stopped, "signal": [1, SIGNALLED_IN]},
        {"arguments": resumed, "signal": None},
    ]
    (out / "order.json").write_text(json.dumps({"out": str(out), "runs": runs}))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
    command += [str(Path(__file__).parent / "watched_ranks.py"), str(out / "order.json")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (out / "rank_0.json").exists(), ended.stderr[-3000:]
    assert (out / "rank_1.json").exists(), ended.stderr[-3000:]
    seen = {rank: json.loads((out / f"rank_{rank}.json").read_text()) for rank in (0, 1)}
    names = ("whole", "stopped", "resumed")
    by_run = {name: {rank: seen[rank][index] for rank in seen} for index, name in enumerate(names)}
    return out, {**by_run, "said": ended.stdout}


def assert_same_numbers(run: Path, alone: Path) -> None:
    """Up to the order in which floats are added."""
    found, wanted = read_log(run / "log.jsonl"), read_log(alone / "log.jsonl")
    assert [(row["step"], row["kind"]) for row in found] == [(row["step"], row["kind"]) for row in wanted]
    for ours, theirs in zip(found, wanted, strict=True):
        assert set(ours) == set(theirs)
        for name in set(ours) - {"kind", "samples_per_s"}:
            # AdamW divides by the gradient's size: rounding is amplified where a gradient is nearly zero.
            assert ours[name] == pytest.approx(theirs[name], rel=2e-3, abs=1e-4), (ours["step"], name)


def test_two_processes_give_the_losses_of_one_with_the_same_batch(together, alone):
    out, seen = together
    assert [seen["whole"][rank]["code"] for rank in (0, 1)] == [0, 0]
    assert_same_numbers(out / "whole", alone)


def test_first_losses_agree_to_float_precision(together, alone):
    out, _ = together
    ours, theirs = (read_log(run / "log.jsonl", "train")[0] for run in (out / "whole", alone))
    for name in ("loss", "imitation_robot", "imitation_human", "intent", "gate", "gradient_norm"):
        assert ours[name] == pytest.approx(theirs[name], rel=2e-5), name


def test_every_process_sees_both_embodiments_at_each_step(together):
    _, seen = together
    for rank in (0, 1):
        assert seen["whole"][rank]["rows"] == [[step, 4, 4] for step in range(STEPS)]


def test_only_the_first_process_writes_and_speaks(together):
    _, seen = together
    assert any(path.endswith("log.jsonl") for path in seen["whole"][0]["changed"])
    for run in ("whole", "stopped", "resumed"):
        assert seen[run][1]["changed"] == []
    assert seen["said"].count("trained: ") == 2
    assert seen["said"].count("stopped as asked") == 1


@pytest.mark.fault
def test_signal_to_one_process_stops_both_after_the_same_step(together):
    out, seen = together
    for rank in (0, 1):
        assert seen["stopped"][rank]["code"] == SAVED_AND_STOPPED
        assert [step for step, *_ in seen["stopped"][rank]["rows"]] == list(range(STOPPED_AFTER))
    assert open_checkpoint(out / "stopped" / "checkpoints" / f"step_{STOPPED_AFTER:08d}").step == STOPPED_AFTER
    assert incomplete(out / "stopped" / "checkpoints") == []


@pytest.mark.fault
def test_stopped_run_of_two_processes_resumes_to_the_same_bits(together):
    """Also the interval of the log that the stop cut in two has its means over both processes."""
    out, seen = together
    for rank in (0, 1):
        assert seen["resumed"][rank]["code"] == 0
        assert [step for step, *_ in seen["resumed"][rank]["rows"]] == list(range(STOPPED_AFTER, STEPS))
    assert_same_numbers(out / "stopped", out / "whole")
    ours, theirs = (open_checkpoint(out / run).weights() for run in ("stopped", "whole"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
