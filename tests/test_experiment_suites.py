"""Suites, cells and the paper's figures: what is to be run, before anything is."""

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from egorecovery.episodes import Source
from egorecovery.errors import RecipeError
from egorecovery.evaluation import REGIMES, Rate, bench_protocol
from egorecovery.experiments import SUITES, plan_suite, suite_named
from egorecovery.experiments.cell import Cell
from egorecovery.experiments.condition import FULL, Condition, episode_counts, episodes
from egorecovery.experiments.data import DATA_SEED
from egorecovery.experiments.paper import PaperRow, figures, paper_rows, successes
from egorecovery.experiments.plan import trainings
from egorecovery.experiments.suites import NOT_BUILT
from egorecovery.experiments.suites.suite import ALL_TASKS
from egorecovery.policy import Intervention
from egorecovery.storage.checksummed_json import digest
from egorecovery.storage.typed_json import to_json
from egorecovery.training import RECIPES
from egorecovery.training.methods import SHARED

ORIGINAL = Path(os.environ.get("PAPER_RESULTS", "results.json"))  # the table that the packaged figures were taken from
BUDGET_SUITES = ("scaling", "cost_matched", "low_robot_grounding")


@pytest.mark.parametrize("suite", ["main", *BUDGET_SUITES])
def test_every_row_of_a_budget_table_is_a_condition_of_the_suite(suite):
    papers = [row.condition for row in paper_rows(suite)]
    built = list(suite_named(suite).conditions)
    assert built[: len(papers)] == papers
    assert {condition.method for condition in built[len(papers) :]} <= SHARED.keys()  # our own come after the paper's


@pytest.mark.parametrize("suite", ["ablation", "gate_intervention"])
def test_every_variant_of_the_paper_is_a_condition_of_the_suite(suite):
    papers, conditions = paper_rows(suite), suite_named(suite).conditions
    of_paper, ours = conditions[: len(papers)], conditions[len(papers) :]
    assert [replace(condition, variant=None) for condition in of_paper] == [row.condition for row in papers]
    names = list(dict.fromkeys(row["name"] for row in figures()["rates"] if row["suite"] == suite))
    assert [condition.variant for condition in of_paper] == names
    assert {condition.budget for condition in conditions} == {FULL}
    assert {condition.method for condition in ours} <= SHARED.keys()
    assert all(str(condition.variant).startswith("shared_") for condition in ours)


@pytest.mark.parametrize("suite", ["main", *BUDGET_SUITES, "ablation", "gate_intervention"])
def test_claims_about_ours_are_about_conditions_of_their_suite(suite):
    built = set(suite_named(suite).conditions)
    ours = [each for each in suite_named(suite).claims if any(side.method in SHARED for side in each.better)]
    assert ours
    for each in ours:
        assert {*each.worse, *each.better} <= built


def printed(
    suite: str, name: str, task: str | None, regime: str, budget: tuple[int, ...] | None = None
) -> float | None:
    """A rate as it is packaged, in percent; None where the paper prints none."""
    rates = [
        row[regime]
        for row in figures()["rates"]
        if (row["suite"], row["name"], row["task"]) == (suite, name, task)
        if budget is None or row["budget"] in (None, list(budget))
    ]
    assert len(rates) < 2
    return rates[0] if rates else None


@pytest.mark.skipif(not ORIGINAL.exists(), reason="set PAPER_RESULTS to the table of the paper's figures")
def test_packaged_figures_are_the_papers():
    original = json.loads(ORIGINAL.read_text())
    for row in original["main"]:
        budget = tuple(row["budget"][source] for source in Source)
        for task in ALL_TASKS:
            for regime in REGIMES:
                method = row["method"].replace("+", "_")
                assert printed("main", method, task, regime, budget) == row[f"{regime}_sr"][task]
    for suite in (*BUDGET_SUITES, "mechanism_ablation"):
        for row in original[suite]:
            budget = tuple(row["budget"][source] for source in Source) if "budget" in row else None
            name = row.get("method") or row["variant"]
            for regime in REGIMES:
                ours = printed(suite.removeprefix("mechanism_"), name, None, regime, budget)
                assert ours == row.get(f"avg_{regime}_sr")
    for ours, theirs in (("gate_intervention", "gate_intervention_same_checkpoint"), ("clutter_ood", "clutter_ood")):
        for variant, tasks in original["extended"][theirs].items():
            for task, values in tasks.items():
                assert printed(ours, variant, task, "recovery") == values["recovery_sr"]
    assert figures()["diagnostics"] == original["diagnostics"]
    assert figures()["throughput_per_hour"] == original["throughput_per_hour"]


def test_printed_rates_are_counts_of_rollouts():
    assert successes(80.0, 80) == 64
    assert successes(66.2, 80) == 53
    assert successes(76.3, 80) == 61
    with pytest.raises(RecipeError, match="mistyped"):
        successes(81.0, 80)


def papers_row(suite: str, condition: Condition) -> PaperRow:
    [row] = [row for row in paper_rows(suite) if row.condition == condition]
    return row


def test_pooled_rates_agree_from_table_to_table():
    full = Condition(method="egorecovery")
    assert papers_row("main", full).rate("initial") == Rate(64, 80)
    for suite in ("main", "scaling", "cost_matched", "ablation"):
        assert papers_row(suite, full).rate("recovery") == Rate(68, 80)
    direct = papers_row("main", Condition(method="direct_human_recovery_mix"))
    assert direct.rate("recovery") == Rate(successes(71.2, 80), 80)


def test_a_figure_the_paper_does_not_print_is_none():
    fewer = papers_row("scaling", Condition(method="egorecovery", budget=episodes(50, 50, human_recovery=200)))
    assert fewer.rate("recovery", "cube_stack") is None
    anchored = papers_row("cost_matched", Condition(method="egorecovery", budget=episodes(50, 70, human_recovery=100)))
    assert anchored.rate("initial") is None
    assert papers_row("gate_intervention", Condition(method="egorecovery")).rate("recovery", "cube_stack") is None


def test_cell_names_are_readable_and_stable():
    cell = Cell(suite="main", task="cube_stack", method="egorecovery", seed=0, budget=FULL)
    assert cell.id == "cube_stack-egorecovery-b50.50.0.300-s0"
    forced = replace(cell, intervention=Intervention(zero_intent=True, gate="0.5"), seed=2)
    assert forced.id == "cube_stack-egorecovery-b50.50.0.300-zero_intent-gate_0.5-s2"


@pytest.mark.parametrize("suite", SUITES)
def test_cells_of_a_suite_have_names_and_hashes_of_their_own(suite):
    plan = plan_suite(suite_named(suite), seeds=(0, 1))
    for values in ([cell.id for cell in plan.cells], [cell.hash for cell in plan.cells]):
        assert max(Counter(values).values()) == 1
    again = plan_suite(suite_named(suite), seeds=(0, 1))
    assert [cell.hash for cell in plan.cells] == [cell.hash for cell in again.cells]


def test_the_main_suite_has_the_papers_seven_methods_and_three_of_ours_on_four_tasks():
    cells = plan_suite(suite_named("main"), seeds=(0, 1)).cells
    assert len(cells) == 80
    assert {cell.cell.seed for cell in cells[:40]} == {0}


def test_cells_that_differ_only_at_test_time_share_a_training():
    gates = plan_suite(suite_named("gate_intervention")).cells
    assert [len(training.cells) for training in trainings(gates)] == [5, 5, 5, 5]
    parts = plan_suite(suite_named("ablation"), tasks=["cube_stack"]).cells
    assert sorted(len(training.cells) for training in trainings(parts)) == [1, 1, 1, 1, 1, 1, 2, 2]


def test_suites_with_the_same_data_share_trainings():
    def ids(suite: str, tasks: list[str]) -> set[str]:
        return {cell.training_id for cell in plan_suite(suite_named(suite), tasks=tasks).cells}

    tasks = ["cup_brush", "round_disk"]
    assert len(ids("main", tasks) & ids("ablation", tasks)) == 8
    assert ids("gate_intervention", tasks) < ids("ablation", tasks)


def test_what_decides_a_result_changes_the_hash_and_the_number_of_rollouts_does_not():
    def hash_of(**changes) -> str:
        return plan_suite(suite_named("main"), only=["cube_stack-egorecovery-*"], **changes).cells[0].hash

    longer = {"protocol": lambda task: replace(bench_protocol(task), time_limit_s=99.0)}
    others = [{"recipe": RECIPES["demo"]}, {"starts_seed": "validation"}, {"seeds": (1,)}, longer]
    assert len({hash_of(), *(hash_of(**change) for change in others)}) == 5
    assert hash_of() == hash_of(rollouts=200)


def test_results_from_before_a_setting_existed_keep_their_hashes_until_it_is_used():
    def plan_of(**changes):
        def recipe(task):
            return replace(RECIPES["bench"](task), **changes)

        return plan_suite(suite_named("main"), only=["cube_stack-egorecovery-*"], recipe=recipe).cells[0]

    plan = plan_of()
    before = to_json(plan.recipe)
    for name in ("relative_actions", "action_space", "decoders", "hidden_embodiment", "near_m", "picture_fit"):
        del before["policy"][name]
    del before["losses"]["human_beta"], before["human_supervision"], before["intent_target"]
    assert plan.recipe_hash == digest(before)
    younger = ("stand_in", "hidden_embodiment", "near_misses", "off_centre_grips", "turned_hands")
    orders = [{name: value for name, value in order.items() if name not in younger} for order in to_json(plan.orders)]
    assert plan.training_id == digest({"recipe": before, "orders": orders})[:16]
    relative = plan_of(policy=replace(RECIPES["bench"]("cube_stack").policy, relative_actions=True))
    raw = plan_of(intent_target="raw_trajectory")
    assert len({one.hash for one in (plan, relative, raw)}) == 3
    assert len({one.training_id for one in (plan, relative, raw)}) == 3


def test_data_is_ordered_for_the_largest_budgets_whatever_is_chosen():
    plan = plan_suite(suite_named("cost_matched"), tasks=["cube_stack"], only=["*robot_recovery-*"])
    assert {str(order.source): order.episodes for order in plan.orders["cube_stack"]} == {
        "robot_success": 60,
        "robot_recovery": 90,
        "human_recovery": 810,
    }
    assert {order.seed for order in plan.orders["cube_stack"]} == {DATA_SEED}
    assert {order.image_size for order in plan.orders["cube_stack"]} == {
        RECIPES["bench"]("cube_stack").policy.image_size
    }
    [cell] = plan.cells
    assert [str(order.source) for order in cell.orders] == ["robot_success", "robot_recovery"]


def test_the_three_budget_suites_draw_from_one_store_and_share_their_trainings():
    suites = [plan_suite(suite_named(name), tasks=["cup_brush"]) for name in BUDGET_SUITES]
    assert len({order for plan in suites for order in plan.orders["cup_brush"]}) == len(Source)
    assert [len(plan.orders["cup_brush"]) for plan in suites] == [4, 3, 3]  # no human successes without need
    scaling, cost_matched, low_grounding = ({cell.training_id for cell in plan.cells} for plan in suites)
    assert [len(scaling), len(cost_matched), len(low_grounding)] == [12, 20, 17]
    assert len(scaling & cost_matched) == 2  # EgoRecovery and a shared decoder with 50 + 50 and 300
    assert len(cost_matched & low_grounding) == 3  # both methods and a shared decoder with 50 + 20 and 600


def test_few_robot_recoveries_are_drawn_from_the_store_of_the_main_comparison():
    main, scarce = (plan_suite(suite_named(name), tasks=["cup_brush"]) for name in ("main", "scarce_robot"))
    assert scarce.orders == main.orders
    assert len(scarce.cells) == 4


def test_robot_recoveries_from_anywhere_are_other_data_and_people_show_the_same():
    plan = plan_suite(suite_named("coverage"), tasks=["cube_stack"])
    assert set(plan.orders) == {"cube_stack", "cube_stack-anywhere"}
    staged, anywhere = ({order.source: order for order in orders} for orders in plan.orders.values())
    assert [order.source for order in anywhere.values() if order.across_family] == [Source.ROBOT_RECOVERY]
    assert not any(order.across_family for order in staged.values())
    assert (staged[Source.ROBOT_RECOVERY].episodes, anywhere[Source.ROBOT_RECOVERY].episodes) == (60, 260)
    assert staged[Source.HUMAN_RECOVERY] == anywhere[Source.HUMAN_RECOVERY]
    names = [cell.id for cell in plan.cells if cell.cell.store == "cube_stack-anywhere"]
    assert len(names) == 7
    assert all("-anywhere-s0" in name for name in names)


def test_what_is_staged_is_trained_once_for_the_main_comparison_and_for_coverage():
    main, wide = (plan_suite(suite_named(name), tasks=["cube_stack"]).cells for name in ("main", "coverage"))
    assert len({cell.training_id for cell in main} & {cell.training_id for cell in wide}) == 3


def test_stand_ins_take_the_place_of_people_and_change_nothing_else():
    plan = plan_suite(suite_named("stand_ins"), tasks=["cube_stack"])
    people, robots = ({order.source: order for order in orders} for orders in plan.orders.values())
    assert robots[Source.HUMAN_RECOVERY] == replace(people[Source.HUMAN_RECOVERY], stand_in=True)
    assert all(robots[source] == people[source] for source in people if not source.is_human)
    assert [cell.id for cell in plan.cells if cell.cell.store == "cube_stack-stand_ins"] == [
        "cube_stack-direct_human_recovery_mix-b50.50.0.300-stand_ins-s0",
        "cube_stack-egorecovery-b50.50.0.300-stand_ins-s0",
    ]


def test_with_people_stand_ins_is_trained_as_the_main_comparison_is():
    main, ours = (plan_suite(suite_named(name), tasks=["cube_stack"]).cells for name in ("main", "stand_ins"))
    assert len({cell.training_id for cell in main} & {cell.training_id for cell in ours}) == 3


def test_a_recipe_is_its_method_on_the_cells_budget():
    plan = plan_suite(suite_named("scaling"), only=["cube_stack-human_success_mix-b50.50.800.0-s3"], seeds=(3,))
    [cell] = plan.cells
    assert episode_counts(cell.recipe.budget) == (50, 50, 800, 0)
    assert cell.recipe.seed == 3
    assert cell.recipe.policy.correction is None


@pytest.mark.parametrize("suite", NOT_BUILT)
def test_suites_that_are_not_built_say_so(suite):
    with pytest.raises(RecipeError, match="known but not built"):
        suite_named(suite)


def test_patterns_that_choose_nothing_are_refused():
    with pytest.raises(RecipeError, match="no cell of main"):
        plan_suite(suite_named("main"), only=["nothing*"])
