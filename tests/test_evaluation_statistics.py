"""Statistics of rollouts against formulas written down independently."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind

from egorecovery.evaluation.results import RolloutRecord, Subject
from egorecovery.evaluation.statistics import (
    NotComparable,
    Rate,
    bootstrap_mean,
    compare,
    compare_groups,
    mcnemar,
    newcombe,
    over_seeds,
    over_trainings,
    rates,
    sign_flip,
    training_spread,
    wilson,
)


def record(index, succeeded, *, seed=0, policy="a", regime="recovery", mode="held", task="cube_stack", outcome=None):
    return RolloutRecord(
        subject=Subject(policy=policy, seed=seed),
        task=task,
        regime=regime,
        index=index,
        start={"mode": mode, "x": index},
        protocol={"starts_seed": "test"},
        outcome=outcome or ("success" if succeeded else "failure"),
        reason="",
        duration_s=1.0,
        retries=0,
        decisions=1,
    )


def records(outcomes, **how):
    return [record(index, bool(succeeded), **how) for index, succeeded in enumerate(outcomes)]


def rng():
    return np.random.default_rng(0)


def test_the_papers_64_of_80_has_its_interval():
    interval = Rate(64, 80).wilson
    assert (round(100 * interval.low, 1), round(100 * interval.high, 1)) == (70.0, 87.3)
    assert str(Rate(64, 80)) == "64/80  80.0 [70.0, 87.3]"


def test_the_interval_of_a_difference_is_newcombes():
    """His example of 1998, method 10."""
    found = newcombe(Rate(56, 70), Rate(48, 80))
    assert (found.low, found.high) == (pytest.approx(0.0524, abs=1e-4), pytest.approx(0.3339, abs=1e-4))


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_solves_its_defining_equation(counts):
    successes, rollouts = counts
    z, p = 1.959963984540054, successes / rollouts
    centre = (p + z * z / (2 * rollouts)) / (1 + z * z / rollouts)
    half = z / (1 + z * z / rollouts) * math.sqrt(p * (1 - p) / rollouts + z * z / (4 * rollouts**2))
    found = wilson(successes, rollouts)
    assert found.low == pytest.approx(max(0.0, centre - half), abs=1e-9)
    assert found.high == pytest.approx(min(1.0, centre + half), abs=1e-9)


def test_rates_are_given_per_group_and_an_error_is_no_success():
    held = records([1, 1, 0], mode="held")
    fallen = [record(3, False, mode="fallen"), record(4, False, mode="fallen", outcome="error")]
    assert rates([*held, *fallen], by=lambda r: r.mode) == {"fallen": Rate(0, 2), "held": Rate(2, 3)}


@pytest.mark.parametrize(("first", "second"), [(0, 0), (3, 9), (1, 1), (0, 6), (12, 2)])
def test_mcnemar_is_the_two_sided_tail_of_fair_coin_flips(first, second):
    n, smaller = first + second, min(first, second)
    tail = sum(math.comb(n, k) for k in range(smaller + 1)) / 2**n
    assert mcnemar(first, second) == pytest.approx(min(1.0, 2 * tail) if first != second else 1.0)


def test_a_comparison_counts_the_starts_that_only_one_method_solves():
    ours, theirs = records([1, 1, 0, 0, 1, 0]), records([1, 1, 1, 1, 0, 0], policy="b")
    found = compare(ours, theirs, rng())
    assert (found.only_first, found.only_second, found.starts) == (1, 2, 6)
    assert found.difference == pytest.approx(1 / 6)
    assert found.p_value == pytest.approx(1.0)
    assert found.interval.low < found.difference < found.interval.high


@given(st.lists(st.tuples(*[st.booleans()] * 4), min_size=2, max_size=12))
def test_groups_of_one_method_are_compared_as_methods_are(outcomes):
    columns = list(zip(*outcomes, strict=True))
    ours, theirs = ([*records(side[0]), *records(side[1], seed=1)] for side in (columns[:2], columns[2:]))
    found = compare_groups([ours], [theirs], rng())
    change = np.mean(columns[2:], axis=0) - np.mean(columns[:2], axis=0)
    assert found.difference == pytest.approx(change.mean())
    assert found.interval == bootstrap_mean(change, rng())
    assert (found.first, found.second) == tuple(
        Rate(sum(map(sum, side)), 2 * len(change)) for side in (columns[:2], columns[2:])
    )


def test_methods_of_a_group_weigh_alike_however_often_they_were_trained():
    often = [one for seed in range(3) for one in records([1, 1, 0, 0], seed=seed)]
    once = records([1, 1, 1, 1], policy="b")
    found = compare_groups([records([0, 0, 0, 0], policy="c")], [often, once], rng())
    assert found.means == (0, pytest.approx(0.75))
    assert found.difference == pytest.approx(0.75)
    assert (found.starts, found.second) == (4, Rate(10, 16))


def test_a_group_resamples_starts_and_not_the_methods_that_play_them():
    """Methods that agree at every start say no more than one of them."""
    ours, theirs = records([1, 0, 0, 0, 1, 0] * 5), records([1, 1, 0, 1, 0, 0] * 5, policy="b")
    alone, together = (compare_groups([ours] * n, [theirs] * n, rng()) for n in (1, 4))
    assert together.interval == alone.interval
    assert together.p_value > 0.5 * alone.p_value


def test_a_group_one_of_whose_methods_has_other_starts_is_refused():
    with pytest.raises(NotComparable, match="share 2 starts"):
        compare_groups([records([1, 0, 1])], [records([1, 1, 1]), records([1, 0])], rng())


def test_pairing_makes_the_interval_narrower_where_starts_decide_the_outcome():
    solved = np.arange(100) < 50
    better = solved | (np.arange(100) >= 90)
    found = compare(records(solved), records(better, policy="b"), rng())
    unpaired = math.sqrt(0.25 / 100 + 0.24 / 100)
    assert found.interval.high - found.interval.low < 2 * 1.96 * unpaired * 0.6
    assert found.interval.low > 0
    assert found.p_value == pytest.approx(2 / 2**10)


def test_the_bootstrap_interval_agrees_with_the_normal_one_on_many_values():
    values = np.random.default_rng(1).integers(0, 2, 400).astype(float)
    half = 1.96 * values.std() / 20
    found = bootstrap_mean(values, rng())
    assert found.low == pytest.approx(values.mean() - half, abs=0.006)
    assert found.high == pytest.approx(values.mean() + half, abs=0.006)


def test_sign_flips_agree_with_mcnemar_when_each_start_has_one_outcome():
    change = np.array([1.0] * 9 + [-1.0] * 2 + [0.0] * 20)
    assert sign_flip(change, rng()) == pytest.approx(mcnemar(2, 9), abs=0.01)


def test_seeds_are_pooled_told_apart_and_clustered_by_start():
    easy_half = [1] * 20 + [0] * 20
    found = over_seeds([r for seed in range(3) for r in records(easy_half, seed=seed)], rng())
    assert found.pooled == Rate(60, 120)
    assert found.per_seed == {seed: Rate(20, 40) for seed in range(3)}
    assert found.seed_spread == 0.0
    # Three trainings that agree everywhere are no more evidence about starts than one.
    wide, naive = found.interval.high - found.interval.low, found.pooled.wilson.high - found.pooled.wilson.low
    assert wide > 1.5 * naive


def test_over_trainings_is_students_interval_of_two_groups():
    first, second = [0.40, 0.52, 0.47], [0.61, 0.55, 0.70]
    spread = training_spread([first, second])
    found = over_trainings(np.mean(second) - np.mean(first), spread, [[3], [3]])
    wanted = ttest_ind(second, first).confidence_interval()
    assert (found.low, found.high) == (pytest.approx(wanted.low), pytest.approx(wanted.high))


@given(st.integers(1, 4), st.integers(1, 4))
def test_averages_over_tasks_and_trainings_are_as_sure_as_their_number_allows(tasks, seeds):
    spread = training_spread([[0.4, 0.5], [0.7, 0.5]])
    one, many = (over_trainings(0.1, spread, [counts, counts]) for counts in ([1], [seeds] * tasks))
    assert one.high - one.low == pytest.approx((many.high - many.low) * math.sqrt(tasks * seeds))


def test_over_trainings_covers_the_truth_as_often_as_it_says():
    """Four tasks, three trainings of one method on each and one of the other, a true difference of five points."""
    random, hits = rng(), 0
    for _ in range(400):
        often, once = random.normal(0.5, 0.06, (4, 3)), random.normal(0.55, 0.06, 4)
        spread = training_spread([*often.tolist(), *([value] for value in once)])
        found = over_trainings(once.mean() - often.mean(), spread, [[3] * 4, [1] * 4])
        hits += found.low < 0.05 < found.high
    assert 0.92 < hits / 400 < 0.98


def test_without_a_repeated_training_nobody_knows_how_far_trainings_spread():
    assert training_spread([[0.5], [0.7], []]) is None
    assert training_spread([[0.5, 0.5], [0.7]]) is None


def test_several_seeds_are_compared_over_starts():
    weak = [r for seed in range(2) for r in records([0] * 12 + [1] * 8, seed=seed)]
    strong = [r for seed in range(2) for r in records([1] * 20, seed=seed, policy="b")]
    found = compare(weak, strong, rng())
    assert found.starts == 20
    assert found.difference == pytest.approx(0.6)
    assert found.p_value < 0.002


def test_methods_with_different_starts_are_not_compared():
    with pytest.raises(NotComparable, match="share 2 starts"):
        compare(records([1, 0, 1]), records([1, 0], policy="b"), rng())
    other = [record(index, True, mode="fallen") for index in range(3)]
    with pytest.raises(NotComparable, match="not the same scene"):
        compare(records([1, 0, 1]), other, rng())


def test_results_of_two_methods_are_not_pooled_by_mistake():
    with pytest.raises(NotComparable, match="more than one method"):
        over_seeds([*records([1, 0]), *records([1, 0], policy="b")], rng())
