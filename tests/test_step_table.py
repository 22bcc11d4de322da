"""The benchmark that says what each part of acceleration is worth, on a step that a CPU does in milliseconds."""

import json
import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("egorecovery.acceleration.modules")

from rich.console import Console  # noqa: E402 - torch is an extra

from egorecovery.acceleration.kernels.dispatch import INTERPRETED, triton  # noqa: E402
from egorecovery.acceleration.modules import PARTS  # noqa: E402
from egorecovery.training import RECIPES, Batch, Recipe  # noqa: E402
from egorecovery.training.runtime import Runtime  # noqa: E402
from tiny_policy import tiny_config  # noqa: E402

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "benchmarks" / "step_table.py"
CPU = Runtime(device=torch.device("cpu"))


@pytest.fixture(scope="module")
def step_table():
    spec = spec_from_file_location("step_table", SCRIPT)
    module = module_from_spec(spec)
    sys.modules["step_table"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["step_table"]


def tiny_recipe() -> Recipe:
    return replace(RECIPES["paper"]("cube_stack"), policy=tiny_config(), batch=Batch(robot=3, human=2))


def test_every_part_is_left_out_once_beside_plain_compiled_and_whole(step_table):
    names = [way.name for way in step_table.ways()]
    assert names == [
        "plain, eager", "plain, graph", "torch.compile, graph", "all parts", *(f"without {part}" for part in PARTS)
    ]  # fmt: skip
    without = {way.name: set(PARTS) - set(way.parts) for way in step_table.ways() if way.name.startswith("without")}
    assert without == {f"without {part}": {part} for part in PARTS}


def test_a_cpu_times_what_it_can_and_says_of_the_rest_why_not(step_table):
    found = list(step_table.rows(tiny_recipe(), CPU, steps=2))
    assert found[0].step_ms > 0
    assert found[0].loss > 0
    assert all(each.reason and each.step_ms is None for each in found[1:])
    assert "CUDA" in found[1].reason


def test_a_way_that_fails_does_not_end_the_table(step_table, monkeypatch):
    monkeypatch.setattr(step_table, "why_not", lambda way, runtime: None)

    def time(way, recipe, runtime, steps):
        if way.compiled:
            raise RuntimeError("no compiler\nand much more")
        return step_table.Timed(name=way.name, step_ms=1.0)

    found = list(step_table.rows(tiny_recipe(), CPU, 2, time=time))
    assert [each.reason for each in found if each.step_ms is None] == ["no compiler"]
    assert len(found) == 4 + len(PARTS)


def test_what_costs_less_than_three_percent_is_said_to_go(step_table, capsys):
    of = step_table.Timed
    found = [
        of(name="all parts", step_ms=10.0),
        of(name="without mlp", step_ms=10.2),
        of(name="without stem", step_ms=12),
    ]
    assert step_table.costs(found) == pytest.approx({"mlp": 0.02, "stem": 0.2})
    console = Console(width=110)
    console.print(step_table.table_of(found, "made up"))
    lines = {line.split("  ")[0].strip(): line for line in capsys.readouterr().out.splitlines()}
    assert "goes" in lines["without mlp"]
    assert "goes" not in lines["without stem"]
    assert "+20.0%" in lines["without stem"]


def test_figures_are_written_as_json(step_table, tmp_path):
    found = [step_table.Timed(name="all parts", step_ms=10.0, first_s=1.0, loss=0.5)]
    written = json.loads(json.dumps(step_table.record(found, tiny_recipe(), CPU)))
    assert written["rows"][0] == {"name": "all parts", "step_ms": 10.0, "first_s": 1.0, "loss": 0.5, "reason": ""}
    assert written["device"] == "cpu"


@pytest.mark.gpu
@pytest.mark.skipif(triton is None or not INTERPRETED, reason="needs TRITON_INTERPRET=1")
def test_all_ways_of_a_step_have_the_same_loss_in_the_interpreter(step_table):
    ways = [replace(way, graph=False) for way in step_table.ways() if not way.compiled]
    losses = {way.name: step_table.timed(way, tiny_recipe(), CPU, 1).loss for way in ways}
    assert losses == pytest.approx(dict.fromkeys(losses, losses["plain, eager"]), rel=1e-4)


@pytest.mark.parametrize(("size", "column"), [(224, 3), (96, 5)])
def test_the_table_in_the_docs_is_what_was_measured(size, column):
    measured = json.loads((ROOT / f"docs/results/step_table/2026-11-19-{size}.json").read_text())
    lines = (ROOT / "docs/speed.md").read_text().splitlines()
    shown = {cells[1].strip(): cells[column:] for line in lines if len(cells := line.split("|")) == 8}
    for row in measured["rows"]:
        ms, cost = (text.strip() for text in shown[row["name"]][:2])
        part = row["name"].removeprefix("without ")
        assert ms == f"{row['step_ms']:.2f} ms"
        assert cost == (f"{measured['costs'][part]:+.1%}" if part in measured["costs"] else "")


def test_every_part_was_measured_and_is_worth_three_percent_at_one_size():
    sizes = [json.loads((ROOT / f"docs/results/step_table/2026-11-19-{size}.json").read_text()) for size in (224, 96)]
    assert [part for part in PARTS if max(size["costs"][part] for size in sizes) < 0.03] == []
