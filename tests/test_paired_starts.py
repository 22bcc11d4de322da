"""Which starts two sides are compared on."""

from dataclasses import replace

from egorecovery.evaluation import Subject
from egorecovery.evaluation.results import RolloutRecord
from egorecovery.report.paired import shared_starts

STARTS = 300


def rollouts(policy: str, *, elsewhere: tuple[int, ...] = (), count: int = STARTS) -> list[RolloutRecord]:
    """`elsewhere`: starts whose scene is another one."""
    return [
        RolloutRecord(
            subject=Subject(policy=policy, policy_hash="ab", cell=policy, seed=0),
            task="cube_stack",
            regime="recovery",
            index=index,
            start={"mode": "fallen", "parameters": {"x": index + 0.5 * (index in elsewhere)}},
            protocol={"starts_seed": "comparison"},
            outcome="success",
            reason="",
            duration_s=1.0,
            retries=0,
            decisions=1,
        )
        for index in range(count)
    ]


def test_sides_are_compared_on_the_starts_that_all_conditions_have():
    shared, redrawn = shared_starts([[rollouts("one")], [rollouts("two"), rollouts("three", count=100)]])
    assert len(shared) == 100
    assert redrawn == 0


def test_a_start_that_was_drawn_anew_is_left_out_and_counted():
    ours, theirs = rollouts("one"), rollouts("two", elsewhere=(7, 100))
    shared, redrawn = shared_starts([[ours], [theirs]])
    assert redrawn == 2
    assert {key for record in ours if (key := record.start_key) not in shared} == {
        ours[7].start_key,
        ours[100].start_key,
    }


def test_where_many_scenes_differ_all_starts_stay_so_that_the_comparison_is_refused():
    shared, redrawn = shared_starts([[rollouts("one")], [rollouts("two", elsewhere=tuple(range(10)))]])
    assert len(shared) == STARTS
    assert redrawn == 0


def test_a_rollout_that_ended_with_an_error_says_nothing_of_its_scene():
    theirs = rollouts("two")
    theirs[5] = replace(theirs[5], outcome="error", start={})
    shared, redrawn = shared_starts([[rollouts("one")], [theirs]])
    assert len(shared) == STARTS
    assert redrawn == 0
