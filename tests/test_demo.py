"""The demo, smaller still: every station of the way is real, only the numbers are too small to mean anything."""

import json

import pytest

from egorecovery.cli.experiment import Watcher
from egorecovery.cli.main import main
from egorecovery.demo import EGORECOVERY, SUCCESS_ONLY
from egorecovery.experiments import Event

TINY = ["--task", "cube_stack", "--steps", "4", "--rollouts", "1"]
FEW = ["--robot-success", "1", "--robot-recovery", "1", "--human-recovery", "1"]


@pytest.mark.slow
def test_the_demo_collects_trains_evaluates_reports_and_always_says_how_far_it_is(tmp_path, capsys, monkeypatch):
    told: list[Event] = []
    monkeypatch.setattr(Watcher, "__call__", lambda self, event: told.append(event))
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out), *TINY, *FEW]) == 0
    shown = capsys.readouterr().out
    assert "from a failure" in shown
    assert str(out / "report.html") in shown.replace("\n", "")
    rates = json.loads((out / "summary.json").read_text())["rates"]
    assert set(rates) == {SUCCESS_ONLY, EGORECOVERY}
    assert all(regime["rollouts"] == 1 for by_regime in rates.values() for regime in by_regime.values())
    html = (out / "report.html").read_text()
    assert "<html" in html[:500]
    assert html.count("<video") == 4
    asked = json.loads((out / "report.json").read_text())["commands"][-1]
    assert all(f"{name} {value}" in asked for name, value in zip((*TINY, *FEW)[::2], (*TINY, *FEW)[1::2], strict=True))
    assert {event.stage for event in told} == {"data", "training", "evaluation", "videos", None}
    assert {(event.number, event.of) for event in told if event.stage == "training"} == {(1, 2), (2, 2)}
    assert all(event.total for event in told if event.kind == "progress")
    before = {path: path.read_bytes() for path in [out / "summary.json", *out.glob("cells/*/films/*")]}
    assert main(["demo", "--out", str(out), *TINY, *FEW]) == 0  # done already: nothing is made again
    assert {path: path.read_bytes() for path in before} == before
