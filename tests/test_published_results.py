"""What README and docs say of results is what the published rollouts say."""

import fnmatch
import importlib.util
import json
import re
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from egorecovery.experiments import plan_suite, suite_named

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


def average_of_shared_trainings(regime: str, method: str) -> float:
    """As reports have it: only of the trainings that all tasks have, so that none weighs more."""
    rows = [row for row in SUMMARY if row["archive"] == OURS and (row["regime"], row["method"]) == (regime, method)]
    shared = set.intersection(*({row["seed"] for row in rows if row["task"] == task} for task in TASKS))
    rows = [row for row in rows if row["seed"] in shared]
    return 100 * sum(row["successes"] for row in rows) / sum(row["rollouts"] for row in rows)


def numbers(line: str) -> list[float]:
    return [float(text) for text in re.findall(r"-?\d+(?:\.\d+)?", line)]


def load_tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    assert spec
    assert spec.loader
    tool = importlib.util.module_from_spec(spec)
    sys.modules[name] = tool  # dataclasses look up their module
    spec.loader.exec_module(tool)
    return tool


@pytest.mark.parametrize("pattern", ["gate_intervention-*", "transfer_validation-*"])
def test_the_summary_is_what_the_archives_hold(pattern):
    made = list(load_tool("results_summary").rows(pattern))
    assert made
    assert made == [row for row in SUMMARY if fnmatch.fnmatch(row["archive"], pattern)]


def test_every_archive_is_in_the_summary_and_validation_starts_are_named_so():
    archives = {path.name for path in (ROOT / "docs/results").glob("*.tar.xz")}
    assert {row["archive"] for row in SUMMARY} == archives
    for row in SUMMARY:
        assert row["starts"] == ("validation" if "validation" in row["archive"] else "comparison")


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
    lines = [line for line in (ROOT / "docs/results_details.md").read_text().splitlines() if line.startswith(begins)]
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
    counted = [rate("recovery", task, method=README[begins]) for task in TASKS]
    assert numbers(line.removeprefix(begins))[:5] == pytest.approx([*counted, sum(counted) / 4], abs=0.06)


def cells(begins: str, heading: str) -> list[float]:
    """Of one row of docs/results.md, below a heading."""
    section = re.split(r"\n##+ ", (ROOT / "docs/results.md").read_text().split(f"# {heading}\n")[1])[0]
    (line,) = [line for line in section.splitlines() if line.startswith(f"| {begins} |")]
    return [float(cell) for cell in line.split("|")[2:] if cell.strip()]


def average(regime: str, tasks: tuple[str, ...] = TASKS, archive: str = "main-2026-11-16.tar.xz", **wanted) -> float:
    return sum(rate(regime, task, archive, **wanted) for task in tasks) / len(tasks)


MAIN_ROWS = {
    "Robot success": "robot_success",
    "Robot + human success": "robot_success_human_success",
    "Robot success + human recovery": "robot_success_human_recovery",
    "Robot recovery *": "robot_recovery",
    "Human success mix": "human_success_mix",
    "Direct human recovery mix *": "direct_human_recovery_mix",
    "**EgoRecovery** *": "egorecovery",
}


@pytest.mark.parametrize("begins", MAIN_ROWS)
def test_the_results_pages_comparison_is_the_summarys(begins):
    shown = cells(begins, "The paper's comparison")
    counted = [average(regime, method=MAIN_ROWS[begins]) for regime in ("recovery", "initial")]
    assert shown[::2] == pytest.approx(counted, abs=0.06)


ABLATION_ROWS = {
    "EgoRecovery": "full",
    "without intent loss": "without_intent_loss",
    "without segment mask": "without_segment_mask",
    "without intent modulation": "without_intent_modulation",
    "intent 0 at test time": "zero_intent_at_test",
    "always-on modulation": "always_on_modulation",
}


@pytest.mark.parametrize("begins", ABLATION_ROWS)
def test_the_results_pages_ablation_is_the_summarys(begins):
    wanted = {"archive": "ablation-2026-11-16.tar.xz", "variant": ABLATION_ROWS[begins]}
    counted = [average(regime, **wanted) for regime in ("recovery", "initial")]
    assert cells(begins, "Ablation")[::2] == pytest.approx(counted, abs=0.06)


@pytest.mark.parametrize("gate", ["learned", "0", "0.5", "1", "shuffled"])
def test_the_results_pages_gate_interventions_are_the_summarys(gate):
    tasks, archive = ("cup_brush", "round_disk"), "gate_intervention-2026-11-16.tar.xz"
    wanted = {"intervention": {"gate": gate, "zero_intent": False}}
    counted = [average(regime, tasks, archive, **wanted) for regime in ("recovery", "initial")]
    assert cells(gate, "Gate interventions")[::2] == pytest.approx(counted, abs=0.06)


LOW_ROWS = {"direct mix": "direct_human_recovery_mix", "EgoRecovery": "egorecovery"}


@pytest.mark.parametrize("begins", LOW_ROWS)
def test_the_results_pages_curve_of_human_clips_is_the_summarys(begins):
    wanted = {"archive": "low_robot_grounding-2026-11-16.tar.xz", "method": LOW_ROWS[begins]}
    counted = [rate("recovery", "cup_brush", budget=[50, 20, 0, human], **wanted) for human in range(100, 700, 100)]
    assert cells(begins, "How much data") == pytest.approx(counted)


COVERAGE_ROWS = {
    "50 from twelve staged failures": ("staged", 50),
    "20 over the whole family": ("anywhere", 20),
    "50 over the whole family": ("anywhere", 50),
    "250 over the whole family": ("anywhere", 250),
}


@pytest.mark.parametrize("begins", COVERAGE_ROWS)
def test_the_results_pages_coverage_is_the_summarys(begins):
    failures, robot = COVERAGE_ROWS[begins]
    methods = {"robot_recovery": 0, "direct_human_recovery_mix": 300, "egorecovery": 300}
    shown = cells(begins, "Coverage")
    counted = [
        rate(
            "recovery",
            "cube_stack",
            "coverage-2026-11-16.tar.xz",
            method=method,
            robot_failures=failures,
            budget=budget,
        )
        for method, human in list(methods.items())[: len(shown)]
        if (budget := [50, robot, 0, human])
    ]
    assert shown == pytest.approx(counted, abs=0.06)


OURS = "main-2026-11-19.tar.xz"
OUR_TASKS = ("cube_stack", "table_sweep")  # of suites other than main
OUR_SUITES = ("low_robot_grounding", "scaling", "cost_matched")


def our_rate(regime: str, task: str, robot: int, human: int) -> float:
    """Of our method by amount, which is robot recovery alone where there are no clips."""
    wanted = {"budget": [50, robot, 0, human], "method": "shared_decoder" if human else "robot_recovery_effector"}
    archives = {row["archive"] for row in SUMMARY if all(row[name] == value for name, value in wanted.items())}
    archive = next(name for suite in OUR_SUITES if (name := f"{suite}-2026-11-19.tar.xz") in archives)
    return rate(regime, task, archive, **wanted)


def our_average(regime: str, robot: int, human: int) -> float:
    return sum(our_rate(regime, task, robot, human) for task in OUR_TASKS) / len(OUR_TASKS)


def test_the_results_pages_curves_of_our_method_are_the_summarys():
    for robot, amounts in ((20, (0, 100, 300, 600)), (50, (0, 100, 300, 800))):
        counted = [our_average("recovery", robot, human) for human in amounts]
        assert cells(f"with {robot} robot recoveries", "How much data") == pytest.approx(counted, abs=0.06)


def test_the_results_pages_mixtures_of_the_same_cost_are_the_summarys():
    mixtures = [(robot, 800 - 10 * robot) for robot in range(80, 10, -10)]
    for regime in ("recovery", "initial"):
        counted = [our_average(regime, robot, human) for robot, human in mixtures]
        assert cells(f"our method, {regime}", "How much data") == pytest.approx(counted, abs=0.06)


def test_the_detailed_table_of_our_method_by_amount_is_the_summarys():
    page = (ROOT / "docs/results_details.md").read_text()
    section = page.split("### Our method by amount\n")[1].split("\n## ")[0]
    rows = [numbers(line) for line in section.splitlines() if re.match(r"\| \d+ \| \d+ \|", line)]
    assert len(rows) == 13
    for amounts, shown in ((row[:2], row[2:]) for row in rows):
        robot, human = map(int, amounts)
        counted = [our_rate(regime, task, robot, human) for task in OUR_TASKS for regime in ("recovery", "initial")]
        assert shown == pytest.approx([*counted, our_average("recovery", robot, human)], abs=0.06)


def test_what_readme_says_of_a_hundred_clips_is_the_summarys():
    (line,) = re.findall(r"20 robot recoveries and 100 clips reach [^(]*", (ROOT / "README.md").read_text())
    counted = [our_average("recovery", 20, 100), our_average("recovery", 80, 0)]
    assert numbers(line) == pytest.approx([20, 100, counted[0], 80, counted[1]], abs=0.06)


def test_what_is_said_of_the_amounts_to_collect_is_the_summarys():
    page = (ROOT / "docs/collect.md").read_text().split("## What to collect\n")[1].split("\n## ")[0]
    said = re.search(r"robot recoveries (\S+)% instead of (\S+)% from failures; 80 robot .* clips give (\S+)%", page)
    assert said
    amounts = ((20, 100), (20, 0), (80, 0))
    assert [float(text) for text in said.groups()] == pytest.approx(
        [our_average("recovery", robot, human) for robot, human in amounts], abs=0.06
    )
    said = re.search(r"\((\S+)% with 100 and (\S+)% with 800, beside 50", page)
    assert said
    assert [float(text) for text in said.groups()] == pytest.approx(
        [our_average("recovery", 50, human) for human in (100, 800)], abs=0.06
    )
    said = re.search(r"\((\S+) and (\S+)% on cube stack, in joint space\)", page)
    assert said
    archive, wanted = "coverage-2026-11-16.tar.xz", {"method": "robot_recovery"}
    assert [float(text) for text in said.groups()] == pytest.approx(
        [
            rate("recovery", "cube_stack", archive, robot_failures=failures, budget=[50, robot, 0, 0], **wanted)
            for failures, robot in (("anywhere", 20), ("staged", 50))
        ],
        abs=0.06,
    )


@pytest.mark.parametrize("gate", ["learned", "0", "0.5", "1", "shuffled"])
def test_the_pages_gate_interventions_with_a_shared_decoder_are_the_summarys(gate):
    archive = "gate_intervention-2026-11-19.tar.xz"
    by_task = [
        rate(regime, task, archive, intervention={"gate": gate, "zero_intent": False})
        for task in OUR_TASKS
        for regime in ("recovery", "initial")
    ]
    averages = [sum(by_task[first::2]) / 2 for first in (0, 1)]
    assert cells(gate, "Gates of a shared decoder") == pytest.approx(averages, abs=0.06)
    details = (ROOT / "docs/results_details.md").read_text()
    name = "gate and intent" if gate == "learned" else f"the same, gate {gate}"
    (shown,) = [line for line in details.splitlines() if line.startswith(f"| {name} |")]
    assert numbers(shown.split("|", 2)[2]) == pytest.approx([*by_task, *averages], abs=0.06)


DEMO = {
    "| with robot recoveries |": ("demo_worth", "robot_recovery_effector", (1, 2)),
    "| with human clips |": ("demo_worth", "shared_decoder", (1, 2)),
    "| with robot recoveries, dropout 0.7 |": ("demo_worth_dropout", "robot_recovery_effector", (0, 1, 2)),
    "| with human clips, dropout 0.7 |": ("demo_worth_dropout", "shared_decoder", (0, 1, 2)),
}


@pytest.mark.parametrize("begins", DEMO)
def test_the_logs_table_of_the_demos_amounts_is_the_summarys(begins):
    folder, method, seeds = DEMO[begins]
    (line,) = [line for line in (ROOT / "docs/log.md").read_text().splitlines() if line.startswith(begins)]
    archive = "transfer_validation-2026-11-19-night.tar.xz"
    counted = [
        rate(regime, "cube_stack", archive, folder, method=method, seed=seed) / 2  # of 50
        for seed in seeds
        for regime in ("recovery", "initial")
    ]
    assert numbers(line.removeprefix(begins))[-len(counted) :] == pytest.approx(counted)


OUR_ROWS = {
    "Robot recovery, effector space": "robot_recovery_effector",
    "**Shared decoder, + 300 human recoveries**": "shared_decoder",
    "Shared decoder, gate and intent": "shared_egorecovery",
}


@pytest.mark.parametrize("begins", OUR_ROWS)
def test_the_results_pages_tables_of_our_method_are_the_summarys(begins):
    section = (ROOT / "docs/results.md").read_text().split("## Our method\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith(f"| {begins} |")]
    for regime, line in zip(("recovery", "initial"), lines, strict=True):
        counted = [rate(regime, task, OURS, method=OUR_ROWS[begins]) for task in TASKS]
        counted.append(average_of_shared_trainings(regime, OUR_ROWS[begins]))
        assert [float(cell) for cell in line.split("|")[2:] if cell.strip()] == pytest.approx(counted, abs=0.06)


OUR_README_ROWS = {
    "| robot recovery, effector space |": "robot_recovery_effector",
    "| **+ 300 human recoveries, shared decoder** |": "shared_decoder",
}


@pytest.mark.parametrize("begins", OUR_README_ROWS)
def test_the_readmes_table_of_our_pathway_is_the_summarys(begins):
    (line,) = [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith(begins)]
    counted = [rate("recovery", task, OURS, method=OUR_README_ROWS[begins]) for task in TASKS]
    assert numbers(line.removeprefix(begins)) == pytest.approx([*counted, sum(counted) / 4], abs=0.06)


COMPARED = {
    "| compared, robot recovery |": "robot_recovery_effector",
    "| compared, shared decoder |": "shared_decoder",
    "| compared, with gate and intent (average: trainings 0 and 1) |": "shared_egorecovery",
}


@pytest.mark.parametrize("begins", COMPARED)
def test_the_logs_tables_of_the_comparison_are_the_summarys(begins):
    lines = [
        line.strip() for line in (ROOT / "docs/log.md").read_text().splitlines() if line.strip().startswith(begins)
    ]
    for regime, line in zip(("recovery", "initial"), lines, strict=True):
        counted = [rate(regime, task, OURS, method=COMPARED[begins]) for task in TASKS]
        counted.append(average_of_shared_trainings(regime, COMPARED[begins]))
        assert numbers(line.removeprefix(begins)) == pytest.approx(counted, abs=0.06)


BLENDED_ON_FOUR_TASKS = {
    "| blended, robot recovery alone |": "robot_recovery_effector",
    "| blended, shared decoder |": "shared_decoder",
}


@pytest.mark.parametrize("begins", BLENDED_ON_FOUR_TASKS)
def test_the_logs_validation_of_blended_positions_on_four_tasks_is_the_summarys(begins):
    lines = (ROOT / "docs/log.md").read_text().splitlines()
    (line,) = [line.strip() for line in lines if line.strip().startswith(begins)]
    archive, method = "transfer_validation-2026-11-19-evening.tar.xz", BLENDED_ON_FOUR_TASKS[begins]
    counted = [
        rate(regime, task, archive, "near_one" if task in ("cube_stack", "table_sweep") else "near_two", method=method)
        for task in ("cube_stack", "round_disk", "table_sweep", "cup_brush")
        for regime in ("recovery", "initial")
    ]
    averages = [sum(counted[first::2]) / 4 for first in (0, 1)]
    assert numbers(line.removeprefix(begins)) == pytest.approx([*counted, *averages], abs=0.06)


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


BLENDED = {
    "| **both, blended**, `policy.near_m=0.03` |": "near_m_0.03",
    "| both, blended, `policy.near_m=0.08` |": "near_m_0.08",
    "| the same without noise of the state |": "near_m_0.08-state_noise_0.0",
}


@pytest.mark.parametrize("begins", BLENDED)
def test_the_logs_table_of_blended_positions_is_the_summarys(begins):
    (line,) = [line for line in (ROOT / "docs/log.md").read_text().splitlines() if line.startswith(begins)]
    shown = numbers(line.removeprefix(begins))
    archive = "transfer_validation-2026-11-19.tar.xz"
    counted = [
        rate(regime, "round_disk", archive, "near_m", variant=BLENDED[begins]) for regime in ("recovery", "initial")
    ]
    assert shown[:2] == pytest.approx(counted)
    assert sum(shown[2:]) == shown[0], "by where the disk is, they are all of the failures"


PUBLISHED = sorted((ROOT / "docs/results").glob("*-2026-11-16.tar.xz"))


@pytest.mark.parametrize("archive", PUBLISHED, ids=lambda path: path.stem)
def test_published_cells_are_still_cells_of_their_suites(archive):
    """So a suite that has grown rows or settings resumes from what is published, and runs only what is new."""
    with tarfile.open(archive) as packed:
        files = [packed.extractfile(each) for each in packed if each.name.endswith("cell.json")]
        cards = [json.loads(file.read()) for file in files if file]
    assert cards
    for suite in {card["suite"] for card in cards}:
        published = {card["cell_hash"] for card in cards if card["suite"] == suite}
        plan = plan_suite(suite_named(suite), seeds=sorted({card["seed"] for card in cards}), rollouts=200)
        assert published <= {cell.hash for cell in plan.cells}


def test_what_a_forced_gate_changes_is_what_the_page_says(tmp_path, capsys):
    tool = load_tool("results_details")
    for suite in ("gate_intervention", "main"):
        with tarfile.open(ROOT / f"docs/results/{suite}-2026-11-16.tar.xz") as archive:
            archive.extractall(tmp_path / suite, filter="data")
    tool.gates(tool.Published(root=tmp_path))
    lines = capsys.readouterr().out.splitlines()
    page = (ROOT / "docs/results_details.md").read_text()
    for task, shown in (
        ("cup_brush", "cup brushing {} worse and {} better"),
        ("round_disk", "round disk {} worse and {} better"),
    ):
        counts = [numbers(line.split(":")[1]) for line in lines if line.startswith(f"{task}, gate")]
        assert shown.format(*(int(sum(column)) for column in zip(*counts, strict=True))) in page
    seeds = [int(numbers(line.split(":")[1])[0]) for line in lines if line.startswith("table_sweep")]
    assert "reach {}, {} and {} on the same 100 starts".format(*seeds) in page
