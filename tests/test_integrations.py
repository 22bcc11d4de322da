"""Weights & Biases and Rerun, played by modules that note what they are given: neither is installed for tests."""

import json
import sys
import types

import numpy as np
import pytest

from egorecovery.cli.main import main
from filmed_runs import evaluated_run, rollout
from training_store import training_arguments


class FakeWandb(types.ModuleType):
    class Error(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("wandb")
        self.begun: list[dict] = []
        self.logged: list[tuple[int, dict]] = []
        self.finished = 0
        self.refuses = False

    def Settings(self, **settings):  # noqa: N802 - its name there
        return settings

    def init(self, **settings):
        if self.refuses:
            raise self.Error("api_key not configured")
        self.begun.append(settings)
        return types.SimpleNamespace(
            dir=settings["dir"] + "/wandb/offline-1/files",
            offline=True,
            log=lambda values, step: self.logged.append((step, values)),
            finish=self.finish,
        )

    def finish(self):
        self.finished += 1


@pytest.fixture
def wandb(monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delitem(sys.modules, "egorecovery.training.wandb_log", raising=False)
    return fake


def test_a_training_shows_in_weights_and_biases_what_its_log_has_and_a_resumed_one_goes_on_there(
    wandb, made_up, tmp_path, capsys
):
    run = tmp_path / "run"
    assert main([*training_arguments(made_up, run, steps=2, log_every=1), "--wandb"]) == 0
    assert "wandb sync" in capsys.readouterr().out
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    assert [step for step, _ in wandb.logged] == [row["step"] for row in rows]
    assert wandb.logged[0][1]["train/imitation_robot"] == rows[0]["imitation_robot"]
    [begun] = wandb.begun
    assert (begun["name"], begun["config"]["task"], wandb.finished) == ("run", "cube_stack", 1)
    assert begun["dir"] == str(tmp_path)  # beside the run, which `verify` would otherwise find links in
    assert main(["train", str(made_up.root), "--run", str(run), "--device", "cpu", "--resume", "--wandb"]) == 0
    assert wandb.begun[1]["id"] == begun["id"]
    assert main(["verify", str(run)]) == 0


def test_what_weights_and_biases_refuses_is_one_message_and_leaves_no_run(wandb, made_up, tmp_path, capsys):
    wandb.refuses = True
    assert main([*training_arguments(made_up, tmp_path / "run", steps=2), "--wandb"]) == 2
    assert "WANDB_MODE=offline" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_run_that_weights_and_biases_refuses_stays_as_it_was(wandb, made_up, tmp_path, capsys):
    run = tmp_path / "run"
    assert main([*training_arguments(made_up, run, steps=2, log_every=1)]) == 0
    log = (run / "log.jsonl").read_bytes()
    wandb.refuses = True
    assert main(["train", str(made_up.root), "--run", str(run), "--device", "cpu", "--resume", "--wandb"]) == 2
    assert (run / "log.jsonl").read_bytes() == log
    assert main(["verify", str(run)]) == 0
    assert f"next: egorecovery serve {run} --client-hz 25" in capsys.readouterr().out


class FakeRerun(types.ModuleType):
    """Every archetype is what it was made of; a stream notes path and time."""

    def __init__(self) -> None:
        super().__init__("rerun")
        self.logged: dict[str, list] = {}
        self.saved: list[str] = []

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "AssetVideo":
            return lambda **named: types.SimpleNamespace(read_frame_timestamps_nanos=lambda: np.arange(20) * 40_000_000)
        if name == "VideoFrameReference":
            return types.SimpleNamespace(columns_nanos=list)
        return lambda *values, **named: (name, values, named)

    def RecordingStream(self, *_, **__):  # noqa: N802 - its name there
        self.now = None
        return types.SimpleNamespace(
            save=lambda path: self.saved.append(str(path)),
            spawn=lambda: self.saved.append("viewer"),
            set_time=lambda clock, duration: setattr(self, "now", duration),
            log=lambda path, what, static=False: self.logged.setdefault(path, []).append(
                (None if static else self.now, what)
            ),
            send_columns=lambda path, indexes, columns: self.logged.setdefault(f"{path} frames", columns),
            flush=lambda: None,
            disconnect=lambda: None,
        )


@pytest.fixture
def rerun(monkeypatch):
    fake = FakeRerun()
    monkeypatch.setitem(sys.modules, "rerun", fake)
    monkeypatch.delitem(sys.modules, "egorecovery.cli.rerun_log", raising=False)
    return fake


def test_an_episode_goes_to_rerun_with_pictures_gate_and_intent(rerun, made_up, tmp_path, capsys):
    name = next(name for name in made_up.ids() if "robot_recovery" in name)
    out = tmp_path / "e.rrd"
    assert main(["inspect", str(made_up.root), "--episode", name, "--rerun", str(out)]) == 0
    assert f"wrote: {out}" in capsys.readouterr().out
    frames = len(made_up.read(name))
    assert len(rerun.logged["cameras/head"]) == len(rerun.logged["labels/gate"]) == frames
    assert 0 < len(rerun.logged["labels/intent_m"]) < frames
    assert rerun.logged["labels/gate"][0][1][1] == (1.0,)
    assert rerun.logged["labels/gate"][-1] == (pytest.approx((frames - 1) / 25), ("Scalars", (0.0,), {}))
    assert rerun.saved == [str(out)]


def test_a_rollout_goes_to_rerun_with_its_film_gate_and_intent(rerun, tmp_path, capsys):
    record = rollout(1, True, policy="ours")
    results = evaluated_run(tmp_path / "run", [rollout(0, False, policy="ours"), record]) / "results.jsonl"
    assert main(["inspect", str(results), "--rollout", "1", "--rerun", str(tmp_path / "r.rrd")]) == 0
    gates = [(at_s, what[1][0]) for at_s, what in rerun.logged["policy/gate"]]
    assert gates == [(pytest.approx(0.2 * number), gate) for number, gate in enumerate(record.gate_trace)]
    assert len(rerun.logged["policy/intent"]) == record.decisions
    assert len(rerun.logged["film frames"]) == 20
    assert "next: rerun" in capsys.readouterr().out


def test_results_are_shown_as_rates_and_one_rollout_in_words(tmp_path, capsys):
    results = evaluated_run(tmp_path / "run", [rollout(0, False, policy="ours"), rollout(1, True, policy="ours")])
    for named in (results / "results.jsonl", results):  # the run is enough
        assert main(["inspect", str(named)]) == 0
        assert "1/2" in capsys.readouterr().out
    assert main(["inspect", str(results / "results.jsonl"), "--rollout", "1"]) == 0
    assert "success after 0.8 s: goal held" in capsys.readouterr().out
    assert main(["inspect", str(results / "results.jsonl"), "--rollout", "2"]) == 2
    assert "has rollouts 0 to 1" in capsys.readouterr().err


def test_a_file_of_another_kind_is_refused(rerun, made_up, tmp_path, capsys):
    name = made_up.ids()[0]
    assert main(["inspect", str(made_up.root), "--episode", name, "--rerun", str(tmp_path / "e.mp4")]) == 2
    assert "ends in .rrd" in capsys.readouterr().err
