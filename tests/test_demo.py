"""The demo, smaller still: every station of the way is real, only the numbers are too small to mean anything."""

import json

import pytest

from egorecovery.cli.demo import Demo
from egorecovery.cli.main import main
from egorecovery.demo import METHODS, DemoPlan
from egorecovery.demo.shipped import export
from egorecovery.policy.checkpoint_damage import checkpoint_damages

TINY = ["--task", "cube_stack", "--steps", "4", "--rollouts", "1", "--films", "0"]
FEW = ["--robot-success", "1", "--robot-recovery", "1", "--human-recovery", "1"]


@pytest.mark.slow
def test_the_demo_collects_trains_tries_out_and_names_every_file_it_writes(tmp_path, capsys):
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out), *TINY, *FEW]) == 0
    output = capsys.readouterr()
    for path in (out / "index.html", out / "summary.json", out / "report.html"):
        assert f"wrote: {path}" in output.out
        assert path.stat().st_size
    assert f"next: open {out / 'index.html'}" in output.out
    assert "Traceback" not in output.err
    summary = json.loads((out / "summary.json").read_text())
    assert [policy["method"] for policy in summary["policies"]] == list(METHODS)
    assert [policy["episodes"]["human_recovery"] for policy in summary["policies"]] == [0, 0, 1]
    assert all(rate["rollouts"] == 1 for policy in summary["policies"] for rate in policy["rates"].values())
    assert summary["sentence"] in (out / "index.html").read_text()
    asked = json.loads((out / "report.json").read_text())["commands"][-1]
    options = [*TINY[:-2], *FEW]
    assert all(f"{name} {value}" in asked for name, value in zip(options[::2], options[1::2], strict=True))
    before = {path: path.read_bytes() for path in out.glob("cells/*/*") if path.is_file()}
    assert main(["demo", "--out", str(out), *TINY, *FEW]) == 0  # done already: nothing is made again
    assert {path: path.read_bytes() for path in before} == before

    plan = DemoPlan(steps=4, rollouts=1, films=0, robot_success=1, robot_recovery=1, human_recovery=1)
    export(out, plan, tmp_path / "shipped", "a revision")
    assert all(not checkpoint_damages(tmp_path / "shipped" / method) for method in METHODS)


def test_the_command_has_the_defaults_of_the_plan():
    plan, command = DemoPlan(), Demo()
    for name in ("task", "steps", "robot_success", "robot_recovery", "human_recovery", "films", "seed"):
        assert getattr(command, name) == getattr(plan, name)


def test_an_interrupt_says_how_to_go_on_and_spills_nothing(monkeypatch, capsys):
    def interrupted(self, out):
        raise KeyboardInterrupt

    monkeypatch.setattr(Demo, "_run", interrupted)
    assert Demo().run() == 130
    assert "run the same command again to go on" in capsys.readouterr().err
