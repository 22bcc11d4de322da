"""What README and docs say of results is what the published rollouts say."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SUMMARY = json.loads((ROOT / "docs/results/summary.json").read_text())
TASKS = ("cup_brush", "table_sweep", "round_disk", "cube_stack")


def rate(regime: str, task: str, archive: str = "main-2026-11-16.tar.xz", folder: str = "", **wanted: object) -> float:
    """Percent, over all trainings."""
    rows = [
        row
        for row in SUMMARY
        if row["archive"] == archive and row["folder"] == folder and (row["regime"], row["task"]) == (regime, task)
        if all(row[name] == value for name, value in wanted.items())
    ]
    assert rows, (regime, task, wanted)
    return 100 * sum(row["successes"] for row in rows) / sum(row["rollouts"] for row in rows)


def numbers(line: str) -> list[float]:
    return [float(text) for text in re.findall(r"-?\d+(?:\.\d+)?", line)]


@pytest.mark.parametrize("pattern", ["gate_intervention-*", "transfer_validation-*"])
def test_the_summary_is_what_the_archives_hold(pattern):
    spec = importlib.util.spec_from_file_location("results_summary", ROOT / "tools/results_summary.py")
    assert spec
    assert spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    made = list(tool.rows(pattern))
    assert made
    archives = {row["archive"] for row in made}
    assert made == [row for row in SUMMARY if row["archive"] in archives]


@pytest.mark.parametrize(
    ("begins", "method"),
    [
        ("| Robot success |", "robot_success"),
        ("| Robot recovery |", "robot_recovery"),
        ("| Direct human recovery mix |", "direct_human_recovery_mix"),
        ("| **EgoRecovery** |", "egorecovery"),
    ],
)
def test_the_main_tables_of_the_results_page_are_the_summarys(begins, method):
    # The first two tables: from failures, then from nominal starts. Per task: paper, here (counts) [interval].
    lines = [line for line in (ROOT / "docs/results.md").read_text().splitlines() if line.startswith(begins)]
    for regime, line in zip(("recovery", "initial"), lines, strict=False):
        shown = [float(text) for text in re.findall(r"(\d+\.\d)\D{0,4}\(\d+/\d+\)", line)]
        assert shown[:4] == pytest.approx([rate(regime, task, method=method) for task in TASKS], abs=0.06)


README = {
    "| 50 robot successes |": "robot_success",
    "| + 50 robot recoveries |": "robot_recovery",
    "| + 300 human recoveries, mixed in |": "direct_human_recovery_mix",
    "| the same 300, through **EgoRecovery** |": "egorecovery",
}


@pytest.mark.parametrize("begins", README)
def test_the_readmes_table_is_the_summarys(begins):
    (line,) = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith(begins)]
    shown = numbers(line.removeprefix(begins))[:8:2]  # the paper's figures stand between ours
    counted = [rate("recovery", task, method=README[begins]) for task in TASKS]
    assert shown == pytest.approx(counted, abs=0.06)


OURS = {
    "| robot recovery, effector space |": {"method": "robot_recovery_effector"},
    "| **+ 300 human recoveries, shared decoder** |": {"method": "shared_decoder", "settings": {}},
}


@pytest.mark.parametrize("begins", OURS)
def test_the_readmes_table_of_our_pathway_is_the_summarys(begins):
    (line,) = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith(begins)]
    archive = "transfer_validation-2026-11-18.tar.xz"
    counted = [rate("recovery", task, archive, "four_tasks", **OURS[begins]) for task in TASKS]
    assert numbers(line.removeprefix(begins)) == pytest.approx([*counted, sum(counted) / 4], abs=0.06)


TRANSFER = {
    "| robot recovery, effector space |": ("four_tasks", {"method": "robot_recovery_effector"}),
    "| **shared decoder**": ("four_tasks", {"method": "shared_decoder", "settings": {}}),
    "| people supervise the opening axis too |": ("four_tasks", {"variant": "opening_axis_true"}),
}


@pytest.mark.parametrize("begins", TRANSFER)
def test_the_logs_table_of_four_tasks_is_the_summarys(begins):
    folder, wanted = TRANSFER[begins]
    archive = "transfer_validation-2026-11-18.tar.xz"
    (line,) = [line for line in (ROOT / "docs/log.md").read_text().splitlines() if line.startswith(begins)]
    shown = numbers(line.split("|", 2)[2])
    order = ("cube_stack", "round_disk", "table_sweep", "cup_brush")
    counted = [rate(regime, task, archive, folder, **wanted) for task in order for regime in ("recovery", "initial")]
    assert shown[:8] == pytest.approx(counted)
    assert shown[8] == pytest.approx(sum(counted[::2]) / 4, abs=0.06)
