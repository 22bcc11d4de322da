"""Runs that were stopped, at any moment and in any way, end with the same bits as one that never was."""

import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from egorecovery.cli.main import main
from egorecovery.episodes import EpisodeStore
from egorecovery.intent import label_store
from egorecovery.policy.checkpoint import FILES, incomplete, latest, open_checkpoint
from egorecovery.training import loop, run_setup
from egorecovery.training.batch_sampler import StepPlan
from egorecovery.training.logs import cut_log, read_log
from egorecovery.training.step import TrainingStep
from egorecovery.training.stopping import SAVED_AND_STOPPED
from training_store import BOUNDARY, annotate, make_made_up_store, training_arguments

pytestmark = pytest.mark.fault

STEPS = 24
HERE = Path(__file__).parent
# Everything that a resumed run must remember: average, clipping, half an interval of logged sums, scores.
STATEFUL = {
    "optimisation.average_decay": "0.9",
    "optimisation.clip_after": "4",
    "optimisation.clip_deviations": "0.5",
    "policy.drop_path": "0.2",
    "augmentation.state_noise": "0.05",
    "augmentation.state_dropout": "0.1",
}


def arguments(store: EpisodeStore, run: Path, **options: object) -> list[str]:
    often = {"steps": STEPS, "log_every": 5, "score_every": 8, "save_every": 10}
    return training_arguments(store, run, STATEFUL, **{**often, **options})


@pytest.fixture(scope="module")
def unbroken(made_up: EpisodeStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    run = tmp_path_factory.mktemp("unbroken") / "run"
    assert main(arguments(made_up, run)) == 0
    return run


@pytest.fixture(scope="module")
def die() -> Iterator[Callable[..., int]]:
    """Trains in a process that dies as told; returns how it ended."""
    command = [sys.executable, str(HERE / "killed_trainer.py")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as starter:

        def train(run_arguments: list[str], **when: object) -> int:
            starter.stdin.write(json.dumps({"arguments": run_arguments, **when}) + "\n")
            starter.stdin.flush()
            return int(starter.stdout.readline())

        yield train
        starter.stdin.close()


@contextmanager
def signalled_in_step(index: int, monkeypatch: pytest.MonkeyPatch, number: int = signal.SIGTERM) -> Iterator[None]:
    class Signalled(TrainingStep):
        def run(self, plan: StepPlan) -> None:
            super().run(plan)
            if plan.step == index:
                os.kill(os.getpid(), number)

    with monkeypatch.context() as patch:
        patch.setattr(run_setup, "TrainingStep", Signalled)
        yield


def steps_saved(run: Path) -> list[int]:
    return [int(path.name.removeprefix("step_")) for path in sorted((run / "checkpoints").glob("step_*"))]


def rows(run: Path) -> list[dict]:
    """The log without the clock."""
    return [
        {name: value for name, value in row.items() if name != "samples_per_s"} for row in read_log(run / "log.jsonl")
    ]


def tensorboard_steps(run: Path) -> list[int]:
    """As TensorBoard itself reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(run / "tensorboard"))
    board.Reload()
    return [event.step for event in board.Scalars("train/loss")]


def assert_same_bits(run: Path, unbroken: Path) -> None:
    found, wanted = open_checkpoint(run), open_checkpoint(unbroken)
    assert found.step == wanted.step == STEPS
    for name in FILES:
        assert (found.path / name).read_bytes() == (wanted.path / name).read_bytes(), name
    assert found.gate_sample == wanted.gate_sample
    assert rows(run) == rows(unbroken)


@pytest.mark.parametrize("step", [13, 20])
def test_run_killed_before_a_step_resumes_to_the_same_bits_as_an_unbroken_run(step, made_up, unbroken, die, tmp_path):
    run = tmp_path / "run"
    assert die(arguments(made_up, run), before_step=step) == -signal.SIGKILL
    assert steps_saved(run) == [each for each in (10, 20) if each <= step]
    time.sleep(1.0)  # TensorBoard reads files in the order of the seconds in which they began
    assert main(arguments(made_up, run, resume=True)) == 0
    assert_same_bits(run, unbroken)
    assert tensorboard_steps(run) == [row["step"] for row in read_log(run / "log.jsonl", "train")]


def test_run_killed_before_its_first_checkpoint_starts_again(made_up, unbroken, die, tmp_path):
    run = tmp_path / "run"
    assert die(arguments(made_up, run), before_step=7) == -signal.SIGKILL
    assert rows(run)
    assert main(arguments(made_up, run, resume=True)) == 0
    assert_same_bits(run, unbroken)


def test_run_asked_to_stop_saves_that_very_step_and_resumes_to_the_same_bits(made_up, unbroken, tmp_path, monkeypatch):
    run = tmp_path / "run"
    for index in (6, 17):  # one by one, neither at a multiple of the log's interval
        with signalled_in_step(index, monkeypatch):
            assert main(arguments(made_up, run, resume=index > 6)) == SAVED_AND_STOPPED
        assert steps_saved(run)[-1] == index + 1
    assert main(arguments(made_up, run, resume=True)) == 0
    assert_same_bits(run, unbroken)


def test_control_c_is_a_request_to_stop_too_and_handlers_are_put_back(made_up, tmp_path, monkeypatch, capsys):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with signalled_in_step(2, monkeypatch, signal.SIGINT):
        assert main(arguments(made_up, tmp_path / "run")) == SAVED_AND_STOPPED
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    said = capsys.readouterr().out
    assert "at step 3" in said
    following = said.split("next: egorecovery ")[1]
    assert "--resume --log-every 5" in following
    assert main(shlex.split(following)) == 0  # as it is written


def test_control_c_while_a_run_gets_ready_says_what_goes_on(made_up, tmp_path, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    run = tmp_path / "run"
    monkeypatch.setattr(loop, "train", interrupted)
    assert main(arguments(made_up, run)) == 130
    assert "before the first checkpoint; run the same command again" in capsys.readouterr().err
    (run / "checkpoints" / "step_00000003").mkdir(parents=True)
    (run / "checkpoints" / "step_00000003" / "checkpoint.json").touch()
    assert main(arguments(made_up, run)) == 130
    assert f"next: egorecovery train {made_up.root} --run {run} --resume --log-every 5" in capsys.readouterr().err


def test_run_resumes_with_streamed_pictures_to_the_same_bits(made_up, unbroken, tmp_path, monkeypatch):
    run = tmp_path / "run"
    with signalled_in_step(11, monkeypatch):
        assert main(arguments(made_up, run)) == SAVED_AND_STOPPED
    assert main(arguments(made_up, run, resume=True, stream=True)) == 0
    assert_same_bits(run, unbroken)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_run_on_a_gpu_in_deterministic_mode_resumes_to_the_same_bits(made_up, tmp_path):
    """In processes of their own: the mode is for good."""

    def train(run: Path, **options: object) -> None:
        chosen = arguments(made_up, run, device="cuda", deterministic=True, **options)
        subprocess.run([sys.executable, "-m", "egorecovery", *chosen], check=True, timeout=300)

    train(tmp_path / "unbroken")
    train(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints" / f"step_{STEPS:08d}")  # as if killed before it
    assert steps_saved(tmp_path / "run") == [10, 20]
    train(tmp_path / "run", resume=True)
    assert_same_bits(tmp_path / "run", tmp_path / "unbroken")


def test_a_finished_run_resumed_is_left_as_it_is(made_up, unbroken, capsys):
    before = {
        path: path.read_bytes() for path in unbroken.rglob("*") if path.is_file() and "tensorboard" not in str(path)
    }
    assert main(arguments(made_up, unbroken, resume=True)) == 0
    assert f"step_{STEPS:08d}" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.slow
def test_the_command_itself_killed_then_terminated_from_outside_ends_with_the_same_bits(made_up, unbroken, tmp_path):
    run = tmp_path / "run"
    start = [sys.executable, "-m", "egorecovery"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # Any moment will do, and a run that was faster than this test has ended with the same bits all the same.
    for number, wanted, resume in ((signal.SIGKILL, -signal.SIGKILL, False), (signal.SIGTERM, SAVED_AND_STOPPED, True)):
        command = [*start, *arguments(made_up, run, log_every=1, resume=resume)]
        cut_log(run / "log.jsonl", max(steps_saved(run), default=0))  # as the run will: any row more is its own
        known = len(read_log(run / "log.jsonl"))
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            deadline_s = time.monotonic() + 200
            while len(read_log(run / "log.jsonl")) <= known and process.poll() is None:
                assert time.monotonic() < deadline_s
                time.sleep(0.005)
            process.send_signal(number)
            said = process.communicate()[0]
        assert process.returncode in (wanted, 0)
        if process.returncode == SAVED_AND_STOPPED:
            assert "go on with --resume" in said
    assert main(arguments(made_up, run, log_every=1, resume=True)) == 0
    assert (open_checkpoint(run).path / FILES[0]).read_bytes() == (
        open_checkpoint(unbroken).path / FILES[0]
    ).read_bytes()


@pytest.mark.parametrize(
    "path",
    [
        [".draft_step_00000020", "policy.safetensors"],
        [".draft_step_00000020", "training.safetensors"],
        [".draft_step_00000020", "checkpoint.json"],
        ["checkpoints/step_00000020"],
    ],
    ids=" ".join,
)
def test_kill_during_a_save_leaves_the_previous_checkpoint_and_the_incomplete_one_is_reported(
    path, made_up, unbroken, die, tmp_path, monkeypatch, capsys
):
    run = tmp_path / "run"
    with signalled_in_step(9, monkeypatch):
        assert main(arguments(made_up, run)) == SAVED_AND_STOPPED
    assert die(arguments(made_up, run, resume=True), before_path=path) == -signal.SIGKILL
    assert steps_saved(run) == [10]
    assert open_checkpoint(run).step == 10
    (left,) = incomplete(run / "checkpoints")
    capsys.readouterr()
    assert main(arguments(made_up, run, resume=True)) == 0
    assert f"{left}: an incomplete checkpoint" in capsys.readouterr().out
    assert_same_bits(run, unbroken)


def test_resuming_with_another_recipe_is_refused_field_by_field_and_changes_nothing(
    made_up, tmp_path, monkeypatch, capsys
):
    run = tmp_path / "run"
    with signalled_in_step(3, monkeypatch):
        main(arguments(made_up, run))
    kept = (run / "recipe.json").read_bytes(), (run / "log.jsonl").read_bytes()
    other = {**STATEFUL, "losses.gate": "0.5"}
    assert main(training_arguments(made_up, run, other, steps=STEPS, resume=True, seed=3)) == 2
    said = capsys.readouterr().err
    assert "another recipe" in said
    assert "losses.gate: 0.05 against 0.5" in said
    assert "seed: 0 against 3" in said
    assert "policy.width" not in said
    assert ((run / "recipe.json").read_bytes(), (run / "log.jsonl").read_bytes()) == kept


def test_resuming_after_a_boundary_moved_is_refused(tmp_path, monkeypatch, capsys):
    store, run = make_made_up_store(tmp_path / "store"), tmp_path / "run"
    with signalled_in_step(3, monkeypatch):
        main(arguments(store, run))
    annotate(store, BOUNDARY - 3, seen_revision=1)
    label_store(store)
    assert main(arguments(store, run, resume=True)) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "trained on other data" in said
    assert "train anew with another --run" in said


def test_starting_over_an_existing_run_is_refused_and_changes_nothing(made_up, unbroken, capsys):
    before = {path: path.read_bytes() for path in unbroken.rglob("*") if path.is_file()}
    assert main(arguments(made_up, unbroken)) == 2
    said = capsys.readouterr().err
    assert f"step_{STEPS:08d}" in said
    assert "--resume" in said
    assert {path: path.read_bytes() for path in unbroken.rglob("*") if path.is_file()} == before


def test_full_disk_during_a_save_is_said_and_the_run_goes_on_from_the_previous_checkpoint(
    made_up, unbroken, tmp_path, monkeypatch, capsys
):
    run = tmp_path / "run"
    with signalled_in_step(9, monkeypatch):
        main(arguments(made_up, run))
    room = (latest(run / "checkpoints") / "training.safetensors").stat().st_size - 1000
    with file_size_limit(room):
        assert main(arguments(made_up, run, resume=True)) == 2
    said = capsys.readouterr().err
    assert "step_00000020" in said
    assert "File too large" in said
    assert "earlier checkpoints are intact" in said
    assert open_checkpoint(run).step == 10
    assert incomplete(run / "checkpoints") == [], "what does not fit must not take the last of the room"
    assert main(arguments(made_up, run, resume=True)) == 0
    assert_same_bits(run, unbroken)


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """For this process; the hard limit stays, so that the soft one can be raised again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
