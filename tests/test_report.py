"""Reports of suites made up here, with known counts."""

import base64
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.stats import binomtest, t

from egorecovery.episodes import PAPER_TASKS
from egorecovery.evaluation.results import ResultFile, RolloutRecord, Subject
from egorecovery.evaluation.statistics import Interval
from egorecovery.experiments import FolderError
from egorecovery.experiments.condition import METHOD_TITLES
from egorecovery.experiments.suites import SUITES
from egorecovery.report import write_report
from egorecovery.report.judged_claims import verdict_of
from egorecovery.storage.checksummed_json import with_checksum

MODES = {"cup_brush": ("beside", "on_rim"), "table_sweep": ("missed", "at_lip"), "cube_stack": ("held", "fallen")}
BUDGETS = {
    "robot_success": (50, 0, 0, 0),
    "robot_success_human_success": (50, 0, 300, 0),
    "robot_success_human_recovery": (50, 0, 0, 300),
    "robot_recovery": (50, 50, 0, 0),
    "human_success_mix": (50, 50, 300, 0),
}
CHROMIUM = shutil.which("chromium")
SOURCES = ("robot_success", "robot_recovery", "human_success", "human_recovery")


def outcomes(rate, count, seed, sway=0.0):
    """Correlated from method to method: each start has a difficulty of its own."""
    difficulty = np.random.default_rng(5).random(count)
    noise = sway * np.random.default_rng(seed).normal(size=count)
    order = np.argsort(difficulty + noise)
    solved = np.zeros(count, bool)
    solved[order[: round(rate * count)]] = True
    return solved.tolist()


def rollout(index, succeeded, *, task, regime, seed, method, acts):
    modes = MODES.get(task, ("held", "released", "fallen"))
    return RolloutRecord(
        subject=Subject(policy=method, seed=seed, intervention=acts),
        task=task,
        regime=regime,
        index=index,
        start={"mode": "nominal" if regime == "initial" else modes[index % len(modes)], "x": index},
        protocol={"starts_seed": "comparison", "replan_steps": 20},
        outcome="success" if succeeded else "failure",
        reason="",
        duration_s=1.0,
        retries=0,
        decisions=1,
    )


def add_cell(
    out,
    method,
    task="cube_stack",
    *,
    initial,
    recovery,
    seed=0,
    budget=None,
    gate="learned",
    zero=False,
    name="",
    **more,
):
    """`initial` and `recovery` are lists of outcomes."""
    budget = budget or BUDGETS.get(method, (50, 50, 0, 300))
    acts = {"zero_intent": zero, "gate": gate}
    parts = [
        task,
        method,
        "b" + ".".join(map(str, budget)),
        *(["zero"] * zero),
        f"gate_{gate}",
        *([name] * bool(name)),
        f"s{seed}",
    ]
    folder = out / "cells" / "-".join(parts)
    folder.mkdir(parents=True)
    made = {"initial": initial, "recovery": recovery}
    ResultFile(folder / "rollouts.jsonl").append_all(
        [
            rollout(index, succeeded, task=task, regime=regime, seed=seed, method=method, acts=acts)
            for regime, results in made.items()
            for index, succeeded in enumerate(results)
        ]
    )
    card = {
        "schema": 1,
        "suite": json.loads((out / "suite.json").read_text())["suite"],
        "task": task,
        "method": method,
        "seed": seed,
        "budget": dict(zip(SOURCES, budget, strict=True)),
        "variant": None,
        "intervention": acts,
        "recipe": {"name": "bench", "optimisation": {"steps": 4000}},
        "recipe_hash": "ab" * 32,
        "data_hash": "cd" * 32,
        "protocol": {"name": "bench", "rollouts": len(recovery), "starts_seed": "comparison", "time_limit_s": 30.0},
        "training": {
            "seconds": 240.0,
            "steps": 4000,
            "samples_per_s": 6000.0,
            "scores": {"action_error/robot_recovery": 0.1},
        },
        "evaluation": {"seconds": 30.0},
        "hardware": {"device": "NVIDIA H200", "cpu_count": 16},
        "revision": "abc1234",
        "finished_at": "2026-11-15T12:00:00+00:00",
        **more,
    }
    (folder / "cell.json").write_bytes(with_checksum(card))
    return folder


def make_suite(out, name="main"):
    out.mkdir(parents=True, exist_ok=True)
    (out / "suite.json").write_text(json.dumps({"suite": name, "schema": 1}))
    return out


def solved(successes, count=20):
    return [index < successes for index in range(count)]


def report_of(out):
    files = write_report(out)
    return json.loads(files.json.read_text()), files.html.read_text(), files.markdown.read_text()


def finding(report, name):
    return next(one for one in report["findings"] if one["id"] == name)


def row(report, method, gate="learned", zero=False):
    wanted = {"zero_intent": zero, "gate": gate}
    return next(one for one in report["rows"] if (one["method"], one["intervention"]) == (method, wanted))


class Tags(HTMLParser):
    """Refuses tags that do not nest; gathers ids and addresses."""

    VOID = ("meta", "col", "br", "img")

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.addresses = [], [], []

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.ids += [named["id"]] if "id" in named else []
        self.addresses += [named[name] for name in ("href", "src") if name in named]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def drawn(html, title):
    """The SVG of the chart of this name."""
    [address] = re.findall(rf'<img[^>]*alt="{title}[^>]*src="data:image/svg\+xml;base64,([^"]*)"', html)
    return base64.b64decode(address).decode()


def parsed(html):
    tags = Tags()
    tags.feed(html)
    tags.close()
    assert not tags.open
    return tags


@pytest.fixture
def two_methods(tmp_path):
    """EgoRecovery solves 16 of 20 failures, the direct mix 4, all of them among the 16."""
    out = make_suite(tmp_path / "main")
    add_cell(out, "direct_human_recovery_mix", initial=solved(12), recovery=solved(4))
    add_cell(out, "egorecovery", initial=solved(12), recovery=solved(16))
    return out


def test_counts_and_wilson_intervals_are_those_of_the_rollouts(two_methods):
    report, _, _ = report_of(two_methods)
    found = row(report, "egorecovery")["here"]["recovery"]["cube_stack"]
    low, high = binomtest(16, 20).proportion_ci(method="wilson")
    assert (found["successes"], found["rollouts"], found["rate"]) == (16, 20, 0.8)
    assert found["wilson"] == pytest.approx([low, high])
    assert row(report, "egorecovery")["here"]["initial"]["cube_stack"]["successes"] == 12


def test_the_papers_numbers_stand_beside_ours(two_methods):
    report, html, text = report_of(two_methods)
    paper = row(report, "egorecovery")["paper"]["recovery"]
    assert (paper["cube_stack"]["rate"], paper["average"]["rate"]) == (0.85, 0.85)
    assert (paper["average"]["successes"], paper["average"]["rollouts"]) == (68, 80)
    assert "17/20" in html
    assert "16/20" in html
    assert "| 85.0 | 80.0 (16/20) [58.4, 91.9] |" in text


def test_averages_pool_the_counts_of_the_tasks(tmp_path):
    out = make_suite(tmp_path / "main")
    for task, successes in zip(PAPER_TASKS, (1, 5, 9, 17), strict=True):
        add_cell(out, "egorecovery", task, initial=solved(10), recovery=solved(successes))
    found = row(report_of(out)[0], "egorecovery")["here"]["recovery"]["average"]
    assert (found["successes"], found["rollouts"]) == (32, 80)


def test_an_average_counts_only_seeds_that_every_task_has(tmp_path):
    out = make_suite(tmp_path / "main")
    add_cell(out, "egorecovery", "cube_stack", initial=solved(5), recovery=solved(4))
    add_cell(out, "egorecovery", "cube_stack", initial=solved(5), recovery=solved(20), seed=1)
    add_cell(out, "egorecovery", "cup_brush", initial=solved(5), recovery=solved(6))
    here = row(report_of(out)[0], "egorecovery")["here"]["recovery"]
    assert here["average"]["successes"] == 10
    assert here["cube_stack"]["successes"] == 24


def test_modes_are_counted_apart(tmp_path):
    out = make_suite(tmp_path / "main")
    add_cell(out, "egorecovery", initial=solved(0), recovery=[index % 2 == 0 for index in range(20)])
    report, html, _ = report_of(out)
    counts = {mode: (rate["successes"], rate["rollouts"]) for mode, rate in report["modes"][0]["recovery"].items()}
    assert counts == {"held": (10, 10), "fallen": (0, 10)}
    assert ">fallen</th>" in html


def test_the_gate_of_rollouts_is_averaged_while_enough_are_under_way(tmp_path):
    out = make_suite(tmp_path / "main")
    folder = add_cell(out, "egorecovery", initial=solved(20), recovery=solved(10))
    records = ResultFile(folder / "rollouts.jsonl").records()
    traces = {  # failures: open, then closed by those that succeed; one rollout takes longer than the others
        ("recovery", True): lambda index: [0.8, 0.2] + [0.1] * 5 * (index < 1),
        ("recovery", False): lambda index: [0.8, 0.6, 0.6],
        ("initial", True): lambda index: [0.9] if index == 0 else [0.1],
    }
    (folder / "rollouts.jsonl").unlink()
    ResultFile(folder / "rollouts.jsonl").append_all(
        [replace(one, gate_trace=tuple(traces[one.regime, one.succeeded](one.index))) for one in records]
    )
    report, html, text = report_of(out)
    [gate] = report["gate"]
    assert gate["first_decision_auc"] == pytest.approx(19 / 20)  # one nominal start is above all failures
    assert gate["first_decision_open"] == {"initial": pytest.approx(0.05), "recovery": 1.0}
    means = {(one["regime"], one["succeeded"]): (one["rollouts"], one["gate"]) for one in gate["mean_gate"]}
    assert means["recovery", True] == (10, pytest.approx([0.8, 0.2]))  # then one of ten is left
    assert means["recovery", False] == (10, pytest.approx([0.8, 0.6, 0.6]))
    assert "The gate in rollouts" in html
    assert "| Cube stack | 0.950 | 100% | 5% |" in text


def test_several_seeds_are_pooled_and_their_spread_is_told(tmp_path):
    out = make_suite(tmp_path / "main")
    for seed, successes in enumerate((8, 10, 15)):
        add_cell(out, "egorecovery", initial=solved(10), recovery=solved(successes), seed=seed)
    report, html, _ = report_of(out)
    found = next(one for one in report["over_seeds"] if one["regime"] == "recovery")
    assert {seed: rate["successes"] for seed, rate in found["per_seed"].items()} == {"0": 8, "1": 10, "2": 15}
    assert (found["pooled"]["successes"], found["pooled"]["rollouts"]) == (33, 60)
    assert found["seed_spread"] == pytest.approx(np.std([0.4, 0.5, 0.75], ddof=1))
    assert "Several trainings" in html


def test_a_difference_that_another_training_could_undo_is_undecided(tmp_path):
    """60 points on the same starts, where like trainings lie 40 points apart, and where they lie 5 apart."""
    for spread, verdict_then in ((8, "undecided"), (1, "holds")):
        out = make_suite(tmp_path / str(spread) / "main")
        for seed, more in enumerate((0, spread, 0)):
            add_cell(out, "robot_recovery", initial=solved(5), recovery=solved(4 + more), seed=seed)
        add_cell(out, "direct_human_recovery_mix", initial=solved(5), recovery=solved(8))
        add_cell(out, "egorecovery", initial=solved(5), recovery=solved(20))
        report, html, text = report_of(out)
        found = finding(report, "pathway")
        assert found["interval"][0] > 0
        deviation = np.std([0, spread / 20, 0], ddof=1)
        half = t.ppf(0.975, 2) * deviation * np.sqrt(2)
        assert found["interval_over_trainings"] == pytest.approx([0.6 - half, 0.6 + half])
        assert found["verdict"] == verdict_then
        assert "with other trainings [" in found["words"]
        assert f"{100 * deviation:.1f} points with 2 degrees of freedom" in html
        assert "with other trainings" in text


@pytest.mark.parametrize(("repeats", "reached"), [((20, 20), "contradicted"), ((0, 40), "undecided")])
def test_a_rate_is_above_the_ceiling_only_if_another_training_would_be_too(tmp_path, repeats, reached):
    out = make_suite(tmp_path / "main")
    for seed, successes in enumerate(repeats):
        add_cell(out, "robot_success", initial=solved(5, 100), recovery=solved(successes, 100), seed=seed)
    add_cell(out, "robot_recovery", initial=solved(5, 100), recovery=solved(50, 100))
    found = finding(report_of(out)[0], "nominal")
    assert "40 of 200 times, 20.0%" in found["words"]
    assert found["verdict"] == reached


def test_interventions_in_one_policy_share_its_training(tmp_path):
    out = make_suite(tmp_path / "gate_intervention", "gate_intervention")
    for seed, successes in enumerate((18, 10)):
        add_cell(out, "egorecovery", initial=solved(10), recovery=solved(successes), seed=seed)
        add_cell(out, "egorecovery", initial=solved(10), recovery=solved(successes - 8 + seed), seed=seed, gate="0")
    found = finding(report_of(out)[0], "gate_0_recovery")
    half = t.ppf(0.975, 1) * np.std([0.40, 0.35], ddof=1) / np.sqrt(2)  # a t interval of the two differences
    assert found["interval_over_trainings"] == pytest.approx([0.375 - half, 0.375 + half])
    assert found["verdict"] == "holds"


def test_more_successes_on_the_same_starts_hold(two_methods):
    report, html, text = report_of(two_methods)
    found = finding(report, "pathway")
    assert found["verdict"] == "holds"
    assert found["difference"] == pytest.approx(0.6)
    assert found["paper_difference"] == pytest.approx(0.15)  # on cube_stack, the task that was run
    compared = next(one for one in report["comparisons"] if one["regime"] == "recovery")
    assert (compared["only_first"], compared["only_second"], compared["starts"]) == (0, 12, 20)
    assert compared["redrawn"] == 0
    assert compared["p_value"] == pytest.approx(binomtest(0, 12).pvalue)
    assert found["interval"] == compared["interval"]
    assert "EgoRecovery 80.0% (16/20) against Direct human recovery mix 20.0% (4/20) is +60.0 points" in found["words"]
    assert found["words"].startswith("Holds: ")
    for page in (html, text):
        assert "EgoRecovery 80.0% (16/20)" in page


def test_fewer_successes_on_the_same_starts_contradict(tmp_path):
    out = make_suite(tmp_path / "main")
    add_cell(out, "direct_human_recovery_mix", initial=solved(5), recovery=solved(16))
    add_cell(out, "egorecovery", initial=solved(5), recovery=solved(4))
    found = finding(report_of(out)[0], "pathway")
    assert (found["verdict"], found["difference"]) == ("contradicted", pytest.approx(-0.6))


def test_small_differences_are_undecided_with_so_many_rollouts(tmp_path):
    out = make_suite(tmp_path / "main")
    add_cell(out, "direct_human_recovery_mix", initial=solved(5), recovery=solved(10))
    add_cell(out, "egorecovery", initial=solved(5), recovery=solved(12))
    found = finding(report_of(out)[0], "pathway")
    assert found["verdict"] == "undecided"
    assert found["words"].startswith("Undecided with 40 rollouts: ")


def test_a_handful_of_starts_decides_nothing(tmp_path):
    out = make_suite(tmp_path / "main")
    add_cell(out, "direct_human_recovery_mix", initial=solved(0, 3), recovery=solved(0, 3))
    add_cell(out, "egorecovery", initial=solved(3, 3), recovery=solved(3, 3))
    found = finding(report_of(out)[0], "pathway")
    assert found["interval"] == [1.0, 1.0]
    assert found["verdict"] == "undecided"


@pytest.mark.parametrize(
    ("interval", "p_value", "expected"),
    [
        ((0.01, 0.2), 0.01, "holds"),
        ((0.0, 0.2), 0.01, "undecided"),
        ((-0.1, 0.2), 0.01, "undecided"),
        ((-0.2, -0.01), 0.01, "contradicted"),
        ((-0.2, -0.01), 0.06, "undecided"),
        ((0.01, 0.2), 0.05, "undecided"),
        ((0.0, 0.0), 1.0, "undecided"),
    ],
)
def test_verdicts_need_interval_and_test(interval, p_value, expected):
    assert verdict_of(Interval(*interval), p_value) == expected


@pytest.mark.parametrize(
    ("successes", "count", "expected"), [(0, 200, "holds"), (60, 200, "contradicted"), (2, 20, "undecided")]
)
def test_nominal_data_does_not_recover_means_less_than_one_in_ten(tmp_path, successes, count, expected):
    out = make_suite(tmp_path / "main")
    add_cell(out, "robot_success", initial=solved(5, count), recovery=solved(successes, count))
    assert finding(report_of(out)[0], "nominal")["verdict"] == expected


def test_findings_without_cells_are_not_run_and_say_what_is_missing(two_methods):
    report, html, _ = report_of(two_methods)
    found = finding(report, "over_robot")
    assert found["verdict"] == "not run"
    assert "no cell of Robot recovery" in found["words"]
    assert found["paper_difference"] == pytest.approx(0.325)
    assert "no cell of Robot recovery" in html


def test_paper_rows_without_a_cell_are_listed(two_methods):
    report, html, text = report_of(two_methods)
    for words in ("Cup brush: no method", "Robot recovery (Rsuc 50 + Rrec 50): on no task"):
        assert words in report["not_run"]
        assert words in html
        assert words in text
    assert not row(report, "robot_recovery")["run"]
    assert row(report, "robot_recovery")["here"] is None


def test_a_method_that_lacks_a_task_is_named_and_compared_on_the_rest(tmp_path):
    out = make_suite(tmp_path / "main")
    for task in ("cup_brush", "cube_stack"):
        add_cell(out, "egorecovery", task, initial=solved(10), recovery=solved(16))
    add_cell(out, "direct_human_recovery_mix", "cube_stack", initial=solved(10), recovery=solved(4))
    report, _, _ = report_of(out)
    assert "Direct human recovery mix (Rsuc 50 + Rrec 50 + Hrec 300): not on Cup brush" in report["not_run"]
    assert "20 starts of Cube stack" in finding(report, "pathway")["words"]


def test_methods_of_unlike_tasks_are_shown_side_by_side_on_the_tasks_they_share(tmp_path):
    out = make_suite(tmp_path / "main")
    add_cell(out, "robot_recovery", "cube_stack", initial=solved(9), recovery=solved(7))
    add_cell(out, "robot_recovery", "cup_brush", initial=solved(9), recovery=solved(20))
    add_cell(out, "egorecovery", "cube_stack", initial=solved(9), recovery=solved(12))
    report, html, text = report_of(out)
    assert re.findall(r"<small>recovers (.*?)</small>", html) == ["7 of 20 on Cube stack", "12 of 20 on Cube stack"]
    assert html.count("<small>1 of 2 tasks</small>") == 2  # EgoRecovery's averages of both rates
    assert "60.0 (12/20) [38.7, 78.1], 1 of 2 tasks |" in text
    assert [one["tasks"] for one in report["comparisons"]] == [["cube_stack"], ["cube_stack"]]  # pooled is per task


def test_cells_without_a_result_are_told(two_methods):
    (two_methods / "cells" / "begun").mkdir()
    broken = two_methods / "cells" / "broken"
    broken.mkdir()
    (broken / "error.json").write_text(json.dumps({"stage": "training", "error": "no <memory>\ntraceback"}))
    (two_methods / "cells" / ".copied.merging").mkdir()
    report, html, _ = report_of(two_methods)
    assert report["not_run"][-2:] == ["cell begun: begun, not finished", "cell broken: failed in training: no <memory>"]
    assert "no &lt;memory&gt;" in html


def test_interventions_are_rows_of_their_own(tmp_path):
    out = make_suite(tmp_path / "gate_intervention", "gate_intervention")
    for gate, successes in {"learned": 18, "0": 6, "1": 17}.items():
        add_cell(out, "egorecovery", "cup_brush", initial=solved(15), recovery=solved(successes), gate=gate)
    report, html, _ = report_of(out)
    assert row(report, "egorecovery", gate="0")["paper"]["recovery"]["cup_brush"]["rate"] == 0.5
    assert finding(report, "gate_0_recovery")["verdict"] == "holds"
    assert finding(report, "gate_1_recovery")["verdict"] == "not seen"  # the paper lost 40 points
    assert finding(report, "gate_shuffled_recovery")["verdict"] == "not run"
    assert "Round disk: no method" in report["not_run"]
    assert "Table sweep: no method" not in report["not_run"]  # nor did the paper
    parsed(html)


def test_ablations_are_compared_with_the_full_method(tmp_path):
    out = make_suite(tmp_path / "ablation", "ablation")
    add_cell(out, "egorecovery", initial=solved(15), recovery=solved(18), variant="full")
    add_cell(out, "egorecovery", initial=solved(15), recovery=solved(5), zero=True, variant="zero_intent_at_test")
    add_cell(out, "without_intent_loss", initial=solved(15), recovery=solved(4), variant="without_intent_loss")
    report, html, _ = report_of(out)
    assert row(report, "egorecovery", zero=True)["paper"]["recovery"]["average"]["rate"] == 0.65
    assert finding(report, "ablation_zero_intent")["verdict"] == "holds"
    assert finding(report, "ablation_intent_loss")["paper_difference"] == pytest.approx(0.2)
    assert "Here minus the full method" in html
    parsed(html)


def test_budgets_of_scaling_are_matched_with_the_papers(tmp_path):
    out = make_suite(tmp_path / "scaling", "scaling")
    for human, successes in {200: 4, 800: 18}.items():
        add_cell(out, "egorecovery", initial=solved(10), recovery=solved(successes), budget=(50, 50, 0, human))
    add_cell(out, "human_success_mix", initial=solved(10), recovery=solved(3), budget=(50, 50, 200, 0))
    report, html, _ = report_of(out)
    rows = {(one["method"], one["budget"]["human_recovery"]): one for one in report["rows"] if one["run"]}
    assert rows["egorecovery", 800]["paper"]["recovery"]["average"]["rate"] == 0.9
    assert finding(report, "scaling_recovery")["verdict"] == "holds"
    assert finding(report, "scaling_200")["verdict"] == "undecided"
    assert finding(report, "scaling_300")["verdict"] == "not run"
    assert "stroke-dasharray" in drawn(html, "Recovery SR")  # the paper's curve
    parsed(html)


FULL, MIX = "egorecovery", "direct_human_recovery_mix"


def grounding(out, curves, robot=(), task="cube_stack", count=20):
    """Successes by amount of human recoveries, a list of one per training; and of robot recovery alone."""
    if not out.exists():
        make_suite(out, "low_robot_grounding")
    trained = [(method, human, each) for method, curve in curves.items() for human, each in curve.items()]
    for method, human, each in [*trained, ("robot_recovery", 0, robot)]:
        for seed, successes in enumerate(each):
            made = solved(successes, count)
            add_cell(out, method, task, initial=made, recovery=made, seed=seed, budget=(50, 20, 0, human))
    return out


def test_a_curve_of_one_amount_is_judged_as_that_amount_is(tmp_path):
    out = grounding(tmp_path / "low", {FULL: {600: [14, 18]}, MIX: {600: [9]}}, robot=[8, 3, 7])
    report, _, _ = report_of(out)
    for curve, alone in (("low_curve_pathway", "low_pathway_600"), ("low_curve_full", "low_any")):
        ours, theirs = finding(report, curve), finding(report, alone)
        assert ours["interval_over_trainings"] is not None
        assert ours.pop("words").replace("over 1 of 6 amounts, ", "") == theirs.pop("words")
        told_apart = ("id", "says")
        assert {**ours, **dict.fromkeys(told_apart)} == {**theirs, **dict.fromkeys(told_apart)}


def test_equal_curves_differ_by_nothing(tmp_path):
    curve = {100: [8], 200: [11, 13], 300: [9]}
    found = finding(report_of(grounding(tmp_path / "low", {FULL: curve, MIX: curve}))[0], "low_curve_pathway")
    assert (found["difference"], found["interval"], found["verdict"]) == (0, [0, 0], "undecided")
    low, high = found["interval_over_trainings"]
    assert low == -high < 0


def test_a_trend_along_both_curves_counts_as_noise_and_moves_no_difference(tmp_path):
    found = []
    for trend in (0, 1, 3):
        ours = {100: [12], 200: [13 + trend], 300: [12 + 2 * trend]}
        theirs = {100: [6], 200: [6 + trend], 300: [7 + 2 * trend]}
        report, _, _ = report_of(grounding(tmp_path / str(trend), {FULL: ours, MIX: theirs}))
        found.append(finding(report, "low_curve_pathway"))
    assert [one["difference"] for one in found] == pytest.approx([0.3] * 3)
    widths = [high - low for low, high in (one["interval_over_trainings"] for one in found)]
    assert widths[0] < widths[1] < widths[2]
    assert [one["verdict"] for one in found] == ["holds", "holds", "undecided"]


def test_an_amount_that_only_one_curve_has_is_left_out_of_both(tmp_path):
    out = grounding(tmp_path / "low", {FULL: {100: [12], 200: [14], 400: [0]}, MIX: {100: [8], 200: [8], 300: [20]}})
    found = finding(report_of(out)[0], "low_curve_pathway")
    assert found["difference"] == pytest.approx(0.25)
    assert found["paper_difference"] == pytest.approx((52.5 + 60.0 - 45.0 - 52.5) / 200)  # of the same two
    assert found["rollouts"] == 80
    assert "EgoRecovery 65.0% on average against Direct human recovery mix 40.0% on average" in found["words"]
    assert "over 2 of 6 amounts, on the same 20 starts of Cube stack, 2 and 2 trainings" in found["words"]


def test_against_one_arm_all_amounts_count_and_weigh_alike(tmp_path):
    out = grounding(tmp_path / "low", {FULL: {100: [10, 12, 14], 300: [16]}}, robot=[8, 6])
    found = finding(report_of(out)[0], "low_curve_full")
    assert found["difference"] == pytest.approx((0.6 + 0.8) / 2 - 0.35)
    squares = 4 * np.var([0.5, 0.6, 0.7, 0.8]) + 2 * np.var([0.4, 0.3])  # about the mean of each side
    half = t.ppf(0.975, 4) * np.sqrt(squares / 4 * ((1 / 3 + 1) / 4 + 1 / 2))
    assert found["interval_over_trainings"] == pytest.approx([0.35 - half, 0.35 + half])
    assert "70.0% on average against Robot recovery 35.0% (14/40)" in found["words"]
    assert "over 2 of 6 amounts, on the same 20 starts of Cube stack, 4 and 2 trainings" in found["words"]


def test_curves_are_compared_on_the_tasks_that_all_their_arms_have(tmp_path):
    out = tmp_path / "low"
    grounding(out, {FULL: {100: [10], 200: [12]}}, robot=[8], task="cube_stack")
    grounding(out, {FULL: {100: [15], 200: [19]}}, robot=[9], task="cup_brush")
    grounding(out, {FULL: {100: [20]}}, robot=[0], task="round_disk")
    found = finding(report_of(out)[0], "low_curve_full")
    assert found["difference"] == pytest.approx((0.55 + 0.85) / 2 - (0.4 + 0.45) / 2)
    spread = np.sqrt((2 * np.var([0.5, 0.6]) + 2 * np.var([0.75, 0.95])) / 2)  # within each task
    half = t.ppf(0.975, 2) * spread * np.sqrt(1 / 4 + 1 / 2)
    low, high = found["interval_over_trainings"]
    assert (high - low) / 2 == pytest.approx(half)
    assert "on the same 40 starts of Cup brush, Cube stack, 2 and 1 trainings" in found["words"]


def test_a_curve_far_below_the_papers_is_not_seen(tmp_path):
    out = tmp_path / "low"
    for task in PAPER_TASKS:
        grounding(out, {FULL: {100: [50], 200: [51], 300: [49]}}, robot=[50, 51], task=task, count=100)
    found = finding(report_of(out)[0], "low_curve_full")
    assert found["paper_difference"] == pytest.approx((42 + 48 + 53) / 240 - 28 / 80)
    assert (found["differs_from_paper"], found["verdict"]) == (True, "not seen")


def test_curves_that_share_no_amount_are_not_run(tmp_path):
    report, _, _ = report_of(grounding(tmp_path / "low", {FULL: {100: [12]}, MIX: {200: [8]}}))
    found = {one["id"]: one for one in report["findings"]}
    assert found["low_curve_pathway"]["verdict"] == found["low_curve_full"]["verdict"] == "not run"
    assert "the two share no amount. In the paper 66.0% against 56.7%." in found["low_curve_pathway"]["words"]
    assert "no cell of Robot recovery (Rsuc 50 + Rrec 20)." in found["low_curve_full"]["words"]
    report, _, _ = report_of(make_suite(tmp_path / "scaling", "scaling"))
    assert "no cell of Human success mix or EgoRecovery." in finding(report, "scaling_curve_initial")["words"]


@pytest.mark.parametrize("suite", ["scaling", "cost_matched", "low_robot_grounding"])
def test_whole_curves_are_asked_for_before_single_amounts(suite):
    amounts = [claim.amounts for claim in SUITES[suite].claims]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[1] > 1


def test_curves_are_told_as_other_findings_are(tmp_path):
    out = grounding(tmp_path / "low", {FULL: {100: [15], 200: [16]}}, robot=[4, 5])
    report, html, text = report_of(out)
    found = finding(report, "low_curve_full")
    assert found["verdict"] == "holds"
    [shown] = [part for part in html.split('<div class="finding">') if f"<h3>{found['says']}</h3>" in part]
    assert '<span class="glyph holds"' in shown
    assert "judged by the average" in html
    assert f"- **holds**: {found['says']} EgoRecovery 77.5% on average" in text
    parsed(html)


@pytest.mark.parametrize("name", ["cost_matched", "low_robot_grounding"])
def test_budget_suites_make_pages_of_one_cell(tmp_path, name):
    out = make_suite(tmp_path / name, name)
    add_cell(out, "robot_recovery", initial=solved(10), recovery=solved(8), budget=(50, 80, 0, 0))
    parsed(report_of(out)[1])


def test_a_suite_of_our_own_shows_only_what_was_run(tmp_path):
    out = make_suite(tmp_path / "demo", "demo")
    add_cell(out, "robot_success", initial=solved(10), recovery=solved(0), budget=(12, 0, 0, 0))
    add_cell(out, "egorecovery", initial=solved(10), recovery=solved(12), budget=(12, 12, 0, 40))
    report, html, _ = report_of(out)
    assert [one["method"] for one in report["rows"]] == ["robot_success", "egorecovery"]
    assert finding(report, "over_nominal")["verdict"] == "holds"
    assert "not run</td>" not in html


def test_targets_that_are_not_built_stand_beside_those_that_are(tmp_path):
    out = make_suite(tmp_path, "intent_target")
    for method, rate in (("egorecovery", 0.5), ("raw_future_trajectory", 0.8)):
        add_cell(out, method, "cup_brush", initial=outcomes(0.8, 200, 1), recovery=outcomes(rate, 200, 2))
    report, page, _ = report_of(out)
    found = {finding["id"]: finding for finding in report["findings"]}
    assert found["target_raw_future_trajectory"]["verdict"] == "contradicted"
    assert found["target_raw_future_trajectory"]["paper_difference"] == pytest.approx(0.15)
    assert found["target_observation_latent"]["verdict"] == "not run"
    assert "observation latent as intent" in page


def test_what_coverage_gives_is_told_apart_from_what_human_data_gives(tmp_path):
    out = make_suite(tmp_path, "coverage")
    rates = {"robot_recovery": 0.5, "direct_human_recovery_mix": 0.5, "egorecovery": 0.5}
    for method, rate in rates.items():
        add_cell(out, method, initial=outcomes(0.8, 200, 1), recovery=outcomes(rate, 200, 2))
        wide = {"robot_failures": "anywhere"}
        add_cell(out, method, initial=outcomes(0.8, 200, 1), recovery=outcomes(0.9, 200, 3), name="anywhere", **wide)
    report, page, _ = report_of(out)
    found = {finding["id"]: finding for finding in report["findings"]}
    assert found["coverage_room"]["verdict"] == "holds"
    assert found["coverage_room"]["difference"] == pytest.approx(0.4)
    assert found["coverage_full_staged_50"]["verdict"] == "undecided"
    assert found["coverage_full_anywhere_50"]["verdict"] == "undecided"
    assert "Robot recovery, robot failures anywhere 90.0%" in found["coverage_room"]["words"]
    assert found["coverage_most"]["verdict"] == "not run"
    assert "no cell of Robot recovery, robot failures anywhere (Rsuc 50 + Rrec 250)." in found["coverage_most"]["words"]
    assert not {name for name in found if not name.startswith("coverage_")}
    assert "Where robot recoveries begin" in page


@pytest.mark.parametrize(
    ("rate", "farther", "verdict_then"),
    [(0.3, True, "contradicted"), (0.5, True, "not seen"), (0.7, False, "holds"), (0.86, False, "holds")],
)
def test_a_difference_unlike_the_papers_is_one_that_the_errors_of_both_do_not_allow(
    tmp_path, rate, farther, verdict_then
):
    out = make_suite(tmp_path)
    for method, recovery in (("robot_recovery", 0.5), ("egorecovery", rate)):
        add_cell(out, method, initial=outcomes(0.8, 200, 1), recovery=outcomes(recovery, 200, 2))
    report, _, _ = report_of(out)
    [found] = [finding for finding in report["findings"] if finding["id"] == "over_robot"]
    assert found["paper_difference"] == pytest.approx(0.35)  # 17 of 20 against 10 of 20
    assert found["differs_from_paper"] == farther
    assert ("farther apart than the errors of both allow" in found["words"]) == farther
    assert found["verdict"] == verdict_then


def test_differences_of_other_tasks_than_the_papers_are_not_compared(tmp_path):
    out = make_suite(tmp_path, "scaling")  # which the paper tells only for all tasks together
    for human in (200, 800):
        data = (50, 50, 0, human)
        add_cell(out, "egorecovery", initial=solved(10), recovery=solved(10), budget=data, name=str(human))
    report, _, _ = report_of(out)
    assert {finding["differs_from_paper"] for finding in report["findings"]} == {None}


def test_what_robots_in_peoples_place_give_is_told_apart_from_what_people_give(tmp_path):
    out = make_suite(tmp_path, "stand_ins")
    add_cell(out, "robot_recovery", initial=outcomes(0.8, 200, 1), recovery=outcomes(0.5, 200, 2))
    for people, name, rate in (("people", "", 0.5), ("stand_ins", "robots", 0.9)):
        recovery = outcomes(rate, 200, 3)
        add_cell(out, "egorecovery", initial=outcomes(0.8, 200, 1), recovery=recovery, name=name, humans=people)
    report, page, _ = report_of(out)
    found = {finding["id"]: finding for finding in report["findings"]}
    assert found["stand_ins_help_egorecovery"]["verdict"] == "holds"
    assert found["stand_ins_help_egorecovery"]["difference"] == pytest.approx(0.4)
    assert found["stand_ins_more_egorecovery"]["difference"] == pytest.approx(0.4)
    assert found["stand_ins_help_direct_human_recovery_mix"]["verdict"] == "not run"
    assert "EgoRecovery, robots in people's place 90.0%" in found["stand_ins_more_egorecovery"]["words"]
    assert "Robots in people" in page


def test_people_and_stand_ins_are_different_trainings_of_one_method(tmp_path):
    out = make_suite(tmp_path, "stand_ins")
    for seed in (0, 1):
        for humans in ("people", "stand_ins"):
            recovery = outcomes(0.5 + 0.1 * seed, 200, seed)
            add_cell(out, "egorecovery", recovery=recovery, seed=seed, name=humans, humans=humans, initial=recovery)
    report, _, _ = report_of(out)
    [found] = [finding for finding in report["findings"] if finding["id"] == "stand_ins_more_egorecovery"]
    low, high = found["interval_over_trainings"]
    assert found["difference"] == 0
    assert low < -0.1 < 0.1 < high  # what the seeds differ by counts on both sides


def test_an_empty_suite_has_a_page(tmp_path):
    report, html, _ = report_of(make_suite(tmp_path / "main"))
    assert report["not_run"] == ["every row: there is no finished cell yet"]
    assert {one["verdict"] for one in report["findings"]} == {"not run"}
    parsed(html)


def test_the_first_twenty_starts_are_counted_as_the_paper_does(tmp_path):
    out = make_suite(tmp_path / "main")
    add_cell(out, "egorecovery", initial=solved(100, 200), recovery=[index >= 5 for index in range(200)])
    _, html, _ = report_of(out)
    folded = html[html.index("As the paper counts") :]
    assert "<small>15/20</small>" in folded[: folded.index("</details>")]


def test_the_page_is_whole_and_asks_no_other_host(two_methods):
    cell = next((two_methods / "cells").glob("*egorecovery*"))
    (cell / "log.jsonl").write_text(
        "".join(
            json.dumps({"step": step, "kind": "train", "imitation_robot": 1 / step, "gate_accuracy": 0.9}) + "\n"
            for step in range(1, 300)
        )
    )
    (cell / "films").mkdir()
    (cell / "films" / "recovery_0.mp4").write_bytes(b"film")
    (cell / "films" / "recovery_1.mp4").write_bytes(bytes(3_000_001))
    _, html, _ = report_of(two_methods)
    tags = parsed(html)
    assert not re.search(r"(https?:)?//[a-z0-9]", re.sub(r"data:[^\"]*", "", html), re.IGNORECASE)
    outside = [one for one in tags.addresses if not one.startswith(("data:", "#"))]
    assert set(outside) == {f"cells/{cell.name}/films/recovery_1.mp4", "report.json", "report.md"}
    assert {one[1:] for one in tags.addresses if one.startswith("#")} <= set(tags.ids)
    assert "data:video/mp4;base64,ZmlsbQ==" in html
    assert "imitation loss, robot" in drawn(html, "Cube stack")


def test_names_from_files_cannot_become_markup(tmp_path):
    out = make_suite(tmp_path / "odd", "<b>odd")
    add_cell(out, "<i>method", task="<u>task", initial=solved(3), recovery=solved(3), revision="<s>")
    _, html, _ = report_of(out)
    assert not re.search(r"<b>odd|<i>method|<u>task|<s>", html, re.IGNORECASE)
    parsed(html)


def test_commands_cover_uneven_seeds_and_changed_settings(tmp_path):
    from egorecovery.experiments import suite_named
    from egorecovery.policy.config_json import changed
    from egorecovery.storage.typed_json import to_json
    from egorecovery.training import RECIPES

    out = make_suite(tmp_path / "runs")
    for method, seeds in (("robot_success", (0,)), ("egorecovery", (0, 1))):
        for seed in seeds:
            planned = suite_named("main").cells(["cube_stack"], [seed])
            cell = next(one for one in planned if one.method == method)
            recipe = to_json(cell.recipe(lambda task: changed(RECIPES["bench"](task), {"optimisation.steps": "7"})))
            protocol = {"name": "bench", "rollouts": 20, "starts_seed": "comparison", "replan_steps": 50}
            add_cell(out, method, initial=solved(3), recovery=solved(3), seed=seed, recipe=recipe, protocol=protocol)
    wanted = "--recipe bench --protocol bench --rollouts 20 --starts-seed comparison --replan 50 "
    wanted += "--set optimisation.steps 7 --only"
    report, html, _ = report_of(out)
    assert "50 steps of a chunk executed" in html
    assert report["commands"] == [
        "git checkout abc1234",
        "make setup",
        f".venv/bin/egorecovery experiment main --out runs --tasks cube_stack --seeds 0 {wanted} "
        "'*-robot_success-b50.0.0.0-gate_learned-s[0-9]*'",
        f".venv/bin/egorecovery experiment main --out runs --tasks cube_stack --seeds 0 1 {wanted} "
        "'*-egorecovery-b50.50.0.300-gate_learned-s[0-9]*'",
    ]


def test_a_command_repeats_no_more_than_was_run(tmp_path):
    """Some of a suite's rows, all of them, and rows that have not every seed on every task."""
    from egorecovery.experiments import suite_named

    def run(name, cells):
        out = make_suite(tmp_path / name)
        for cell in cells:
            budget = (cell.budget.robot_success, cell.budget.robot_recovery, cell.budget.human_success)
            budget = (*budget, cell.budget.human_recovery)
            made = {"initial": solved(3), "recovery": solved(3), "seed": cell.seed, "budget": budget}
            add_cell(out, cell.method, cell.task, **made)
        (command,) = report_of(out)[0]["commands"][2:]
        return command

    planned = suite_named("main").cells(["cup_brush", "cube_stack"], [0, 1])
    assert run("whole", planned).endswith("--set optimisation.steps 4000")
    some = [cell for cell in planned if cell.method == "egorecovery"]
    assert run("some", some).endswith(" 4000 --only '*-egorecovery-b50.50.0.300-gate_learned-s[0-9]*'")
    names = "cup_brush-egorecovery-b50.50.0.300-gate_learned-s0 cube_stack-egorecovery-b50.50.0.300-gate_learned-s1"
    assert run("uneven", [some[0], some[-1]]).endswith(f" 4000 --only {names}")


def test_the_youngest_revision_is_checked_out_and_the_others_and_what_was_not_committed_are_told(tmp_path):
    out = make_suite(tmp_path / "runs")
    for seed, revision in enumerate(("ccc3333", "aaa1111-dirty", None)):
        made = {"revision": revision, "finished_at": f"2026-11-16T1{seed}:00:00+00:00"}
        add_cell(out, "egorecovery", initial=solved(3), recovery=solved(3), seed=seed, **made)
    checkout = "git checkout aaa1111  # some cells were made at ccc3333; with changes that were not committed"
    assert report_of(out)[0]["commands"][0] == checkout


def test_the_same_folder_gives_the_same_report(two_methods):
    first = [path.read_bytes() for path in vars(write_report(two_methods)).values()]
    assert [path.read_bytes() for path in vars(write_report(two_methods)).values()] == first


def test_folders_that_are_no_suite_are_refused(tmp_path):
    with pytest.raises(FolderError, match=r"has no suite\.json"):
        write_report(tmp_path)
    (tmp_path / "suite.json").write_text('{"suite": "main", "schema": 7}')
    with pytest.raises(FolderError, match="schema 7"):
        write_report(tmp_path)
    (tmp_path / "suite.json").write_text('{"suite": "main", "schema": 1, "commands": 7}')
    with pytest.raises(FolderError, match="commands must be a list, got 7"):
        write_report(tmp_path)


def test_rollouts_of_another_cell_are_refused(two_methods):
    cells = sorted((two_methods / "cells").iterdir())
    foreign = rollout(0, True, task="cup_brush", regime="initial", seed=0, method="x", acts={})
    ResultFile(cells[0] / "rollouts.jsonl").append(foreign)
    with pytest.raises(FolderError, match="belongs to another cell"):
        write_report(two_methods)


def test_every_suite_has_claims_that_name_known_methods():
    for suite in SUITES.values():
        assert suite.claims
        assert suite.title
        assert len({claim.id for claim in suite.claims}) == len(suite.claims)
        sides = [condition for claim in suite.claims for condition in (*claim.worse, *claim.better)]
        assert {condition.method for condition in sides} <= set(METHOD_TITLES)


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Debian's chromium is not installed")
def test_chromium_draws_the_page(two_methods, tmp_path):
    page = write_report(two_methods).html
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update"]
    shot, profile = tmp_path / "page.png", tmp_path / "profile"
    subprocess.run(
        [
            CHROMIUM,
            *flags,
            f"--user-data-dir={profile}",
            f"--screenshot={shot}",
            "--window-size=1400,1600",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    from PIL import Image

    colours = np.unique(np.asarray(Image.open(shot).convert("RGB")).reshape(-1, 3), axis=0)
    assert len(colours) > 200  # text, tiles and a heat map, not a blank page
