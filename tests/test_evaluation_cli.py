"""`egorecovery evaluate` from the command line."""

import json

import numpy as np
import pytest

from egorecovery.cli.evaluate import Evaluate
from egorecovery.cli.main import main
from egorecovery.demo import demo_protocol
from egorecovery.evaluation import ResultFile, video
from egorecovery.evaluation.protocol import BENCH_TIME_LIMIT_S, REPLAN_STEPS

COMMAND = [
    "evaluate",
    "hold_still",
    "--task",
    "cube_stack",
    "--rollouts",
    "1",
    "--workers",
    "1",
    "--starts-seed",
    "tests",
]


@pytest.fixture(autouse=True)
def short_rollouts(monkeypatch):
    monkeypatch.setitem(BENCH_TIME_LIMIT_S, "cube_stack", 4.0)


def test_a_policy_is_evaluated_from_the_command_line_once(tmp_path, capsys):
    out = ["--out", str(tmp_path / "results.jsonl")]
    assert main([*COMMAND, *out]) == 0
    printed = capsys.readouterr().out
    assert "0/1" in printed
    assert "0.0 [0.0, 79.3]" in printed
    assert "2 x time limit" in printed
    assert "2 rollouts in" in printed
    again = printed.partition("next: ")[2].split()
    assert again[:3] == ["egorecovery", "evaluate", "hold_still"]
    assert sorted(again) == sorted(["egorecovery", *COMMAND, *out, "--film", "1"])
    assert main([*COMMAND, *out, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["regimes"]["recovery"] == {
        "successes": 0,
        "rollouts": 1,
        "rate": 0.0,
        "low": 0.0,
        "high": pytest.approx(0.793, abs=1e-3),
    }
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 2


def test_films_are_made_beside_the_results(tmp_path, capsys):
    regime = ["--regime", "recovery", "--film", "1", "--out", str(tmp_path / "results.jsonl")]
    assert main([*COMMAND, *regime]) == 0
    [path] = tmp_path.glob("results-cube_stack-recovery-000-*.mp4")
    assert path.stat().st_size > 10_000
    assert f"next: egorecovery watch {tmp_path / 'results.jsonl'}" in capsys.readouterr().out


def test_any_start_can_be_filmed_and_goes_as_it_is_on_record(tmp_path, capsys, monkeypatch):
    filmed = []
    real = video.render_video
    monkeypatch.setattr(video, "render_video", lambda job, *how: filmed.append((job, real(job, *how))))
    out = tmp_path / "results.jsonl"
    command = [*COMMAND, "--rollouts", "3", "--regime", "recovery", "--film-starts", "2", "--out", str(out)]
    assert main(command) == 0
    [path] = tmp_path.glob("results-cube_stack-recovery-002-*.mp4")
    assert f"film: {path}" in capsys.readouterr().out
    assert list(tmp_path.glob("*.mp4")) == [path]
    [(job, ending)] = filmed
    record = ResultFile(out).records()[2]
    assert (job.index, ending.start.record()) == (2, record.start)
    assert (ending.result, ending.reason, ending.duration_s) == (record.outcome, record.reason, record.duration_s)


@pytest.mark.parametrize(
    ("asked", "filmed"),
    [
        (["--film", "2"], [0, 1]),
        (["--film", "9"], [0, 1, 2]),
        (["--film-starts", "37", "112"], [37, 112]),
        (["--film", "1", "--film-starts", "37", "0"], [0, 37]),
        ([], []),
    ],
)
def test_the_first_rollouts_and_named_ones_are_filmed_once_each(asked, filmed, tmp_path, monkeypatch):
    jobs = []
    monkeypatch.setattr(video, "render_video", lambda job, *_: jobs.append((job.regime, job.index)))
    monkeypatch.setattr("egorecovery.evaluation.evaluate", lambda *_, **__: [])
    assert main([*COMMAND, "--rollouts", "3", *asked, "--json", "--out", str(tmp_path / "results.jsonl")]) == 0
    assert jobs == [(regime, index) for regime in ("initial", "recovery") for index in filmed]


def test_other_rollouts_of_the_same_starts_do_not_overwrite_the_films(tmp_path, monkeypatch):
    paths = []
    monkeypatch.setattr(video, "render_video", lambda job, inquiry, path: paths.append(path))
    monkeypatch.setattr("egorecovery.evaluation.evaluate", lambda *_, **__: [])
    for replan in ("30", "30", "15"):
        command = [*COMMAND, "--regime", "recovery", "--film", "1", "--replan", replan]
        assert main([*command, "--json", "--out", str(tmp_path / "results.jsonl")]) == 0
    first, again, other = paths
    assert first == again != other


def test_a_start_before_the_first_is_refused_before_anything_is_run(tmp_path, capsys):
    assert main([*COMMAND, "--film-starts", "-1", "--out", str(tmp_path / "results.jsonl")]) == 2
    assert "counted from 0, got --film-starts -1" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_missing_checkpoint_is_named(tmp_path, capsys):
    command = ["evaluate", str(tmp_path / "nowhere"), "--task", "cube_stack", "--device", "cpu"]
    assert main(command) == 2
    assert "nowhere does not exist; name a run or a checkpoint" in capsys.readouterr().err


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A small policy that has learned nothing."""
    import torch

    from egorecovery.episodes import Embodiment
    from egorecovery.policy import PolicyConfig, VisionConfig
    from egorecovery.policy.checkpoint import save
    from egorecovery.policy.normaliser import Normaliser, Statistics
    from egorecovery.policy.policy import Policy
    from egorecovery.storage.typed_json import to_json
    from egorecovery.workcell.kinematics import HOME

    torch.manual_seed(0)
    vision = VisionConfig(stem_width=16, widths=(16, 32), depths=(1, 1))
    sizes = {"width": 32, "heads": 4, "stem_tokens": 4, "action_tokens": 8, "blocks": 2, "decoder_layers": 1}
    config = PolicyConfig(image_size=32, vision=vision, horizon=20, **sizes)
    joints = dict.fromkeys(Embodiment, Normaliser(HOME.astype(np.float32), np.full(14, 0.2, np.float32)))
    return save(
        tmp_path_factory.mktemp("run") / "checkpoints",
        step=7,
        recipe={"name": "untrained", "task": "cube_stack", "seed": 3, "policy": to_json(config)},
        statistics=Statistics(state=joints, action=joints, intent=None),
        data="",
        revision=None,
        gate_sample=[0.1, 0.9],
        computed={},
        weights=Policy(config).state_dict(),
        training_state={},
    )


def test_a_trained_policy_does_the_same_on_one_worker_and_on_two(tmp_path, checkpoint):
    found = []
    for workers in ("1", "2"):
        out = tmp_path / f"{workers}.jsonl"
        command = ["evaluate", str(checkpoint.parent.parent), *COMMAND[2:], "--rollouts", "2", "--batch", "4"]
        assert main([*command, "--workers", workers, "--device", "cpu", "--out", str(out)]) == 0
        found.append(sorted(ResultFile(out).records(), key=lambda record: record.start_key))
    assert found[0] == found[1]
    assert len(found[0]) == 4
    assert (found[0][0].subject.policy, found[0][0].subject.seed) == ("untrained; cube stack; step 7", 3)


def test_interventions_on_the_gate_are_results_of_their_own(tmp_path, checkpoint):
    out = tmp_path / "results.jsonl"
    for gate in ("learned", "1", "shuffled"):
        command = ["evaluate", str(checkpoint), *COMMAND[2:], "--regime", "recovery", "--gate", gate]
        assert main([*command, "--device", "cpu", "--out", str(out)]) == 0
    learned, always_on, shuffled = ResultFile(out).records()
    assert set(always_on.gate_trace) == {1.0}
    assert set(shuffled.gate_trace) <= {0.1, 0.9}
    assert learned.gate_trace != always_on.gate_trace
    assert always_on.subject.intervention == {"gate": "1", "zero_intent": False}


def test_a_policy_of_another_task_is_refused(checkpoint, capsys):
    assert main(["evaluate", str(checkpoint), "--task", "cup_brush", "--device", "cpu"]) == 2
    assert "was trained for cube_stack, not for cup_brush" in capsys.readouterr().err


def test_ensembling_asks_at_every_step_unless_told_otherwise(tmp_path):
    how = {"checkpoint": tmp_path, "task": "cube_stack"}
    assert Evaluate(**how)._protocol().replan_steps == REPLAN_STEPS
    assert Evaluate(**how, ensemble=True)._protocol().replan_steps == 1
    assert Evaluate(**how, ensemble=True, replan=5)._protocol().replan_steps == 5


def test_of_a_short_chunk_half_is_executed_unless_told_otherwise(tmp_path):
    how = {"checkpoint": tmp_path, "task": "cube_stack"}
    assert [Evaluate(**how)._protocol(horizon).replan_steps for horizon in (100, 40, 1)] == [REPLAN_STEPS, 20, 1]
    assert Evaluate(**how, replan=40)._protocol(40).replan_steps == 40
    assert demo_protocol("cube_stack").replan_steps == 20
