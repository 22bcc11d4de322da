"""Experiments in slices: plans, deadlines, and archives from which a fresh machine goes on."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLAN = """
[lane.one]
[[lane.one.command]]
name = "first"
run = "python {script} {{out}} done"
[[lane.one.command]]
name = "second"
run = "python {script} {{out}} done"
[lane.two]
[[lane.two.command]]
name = "slow"
run = "python {script} {{out}} never"
"""
SCRIPT = """
import sys, time
from pathlib import Path
cell = Path(sys.argv[1]) / "cells" / "one"
cell.mkdir(parents=True, exist_ok=True)
(cell / "rollouts.jsonl").write_text('{"regime": "initial", "outcome": "success"}\\n')
(cell / "policy.safetensors").write_text("large")
time.sleep(600 if sys.argv[2] == "never" else 0)
(cell / "cell.json").write_text('{"finished_at": "2026-11-19T10:00:00", "training": {"seconds": 1.0}}')
"""


@pytest.fixture
def tool(monkeypatch):
    spec = importlib.util.spec_from_file_location("sliced_run", ROOT / "tools/sliced_run.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "sliced_run", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def plan(tmp_path) -> Path:
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    path = tmp_path / "plan.toml"
    path.write_text(PLAN.format(script=script))
    return path


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_slice_packs_finished_and_unfinished_cells_and_stops_what_does_not_end(tool, plan, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "SAVING_S", 0.0)
    monkeypatch.setattr(tool, "ASKED_S", 0.5)
    monkeypatch.setattr(tool, "LEAST_MINUTES", 0.0)
    slept = tool.Options(plan=plan, work=tmp_path / "work", minutes=0.05, packed=tmp_path / "packed")
    assert tool.main(slept) == 1, "one command had to be stopped"
    fresh = tmp_path / "fresh"
    tool.unpack((tmp_path / "packed" / tool.ARCHIVE,), fresh)
    assert names(fresh / "results") == {
        "first/cells/one/cell.json",
        "first/cells/one/rollouts.jsonl",
        "second/cells/one/cell.json",
        "second/cells/one/rollouts.jsonl",
        "slow/cells/one/rollouts.jsonl",
    }


def test_what_is_there_is_kept_when_an_earlier_slice_is_unpacked(tool, tmp_path):
    early, late = (tmp_path / name / "results" / "first" / "cell.json" for name in ("early", "late"))
    for path in (early, late):
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(str(path)))
    archive = tool.pack(tmp_path / "early", tmp_path / "packed")
    tool.unpack((archive,), tmp_path / "late")
    assert json.loads(late.read_text()) == str(late)


def test_lanes_take_turns_on_one_gpu(tool, plan, tmp_path):
    lanes = tool.read_plan(plan)
    for _ in range(2):  # and again when a slice follows
        tool.share_turns(lanes, tmp_path)
    first, second = (tmp_path / lane.name / "turn.lock" for lane in lanes)
    assert first.samefile(second)


def test_two_commands_of_one_name_are_refused(tool, tmp_path):
    path = tmp_path / "plan.toml"
    command = '[[lane.one.command]]\nname = "same"\nrun = "true"\n'
    path.write_text(f"[lane.one]\n{command}{command}")
    with pytest.raises(SystemExit, match="one name"):
        tool.read_plan(path)


@pytest.mark.parametrize("path", sorted((ROOT / "tools/slices").glob("*.toml")), ids=lambda path: path.stem)
def test_the_plans_in_the_repository_leave_no_place_unfilled(tool, path):
    commands = [command for lane in tool.read_plan(path) for command in lane.commands]
    assert commands
    for command in commands:
        filled = [word.format(out="OUT", work="WORK", minutes="1") for word in command.words]
        assert {"OUT", "WORK"} <= {*filled}
        assert filled[0] == "python"
