"""The protocol on made-up rollouts: stability, terminal failures, resets, time."""

import numpy as np
import pytest

from egorecovery.errors import RecipeError
from egorecovery.workcell.kinematics import HOME
from egorecovery.workcell.rules import Judge, Protocol, Result

AWAY = HOME + 1.0


def judged(goals, *, terminal=(), joints=None, protocol=None):
    """The outcome of a rollout whose goal state, terminal failures and joints are given frame by frame."""
    judge = Judge(protocol or Protocol(), HOME)
    for frame, goal in enumerate(goals):
        outcome = judge.watch(
            goal=bool(goal),
            terminal=dict(terminal).get(frame),
            joints=AWAY if joints is None else joints[frame],
        )
        if outcome is not None:
            return outcome
    return None


def test_a_goal_that_holds_for_three_seconds_is_a_success():
    outcome = judged([False] * 10 + [True] * 80)
    assert outcome.succeeded
    assert outcome.frame == 10 + 75


def test_a_stack_that_falls_after_2_9_seconds_is_no_success():
    assert judged([False] * 5 + [True] * 73 + [False] * 20) is None


def test_a_second_try_counts_from_its_own_beginning():
    outcome = judged([True] * 70 + [False] + [True] * 90)
    assert outcome.succeeded
    assert outcome.frame == 71 + 75


def test_a_terminal_failure_ends_the_rollout_at_once_even_in_the_goal_state():
    outcome = judged([True] * 80, terminal={40: "the tube was knocked over"})
    assert (outcome.result, outcome.reason, outcome.frame) == (Result.FAILURE, "the tube was knocked over", 40)


def test_returning_to_the_initial_pose_is_a_reset_and_ends_the_rollout():
    joints = [HOME] * 5 + [AWAY] * 20 + [HOME] * 5
    outcome = judged([False] * 30, joints=joints)
    assert outcome.reason.startswith("reset")
    assert outcome.frame == 25


def test_waiting_at_the_initial_pose_is_no_reset():
    assert judged([False] * 100, joints=[HOME] * 100) is None


def test_only_one_arm_back_home_is_no_reset():
    half = AWAY.copy()
    half[:7] = HOME[:7]
    assert judged([False] * 60, joints=[AWAY] * 20 + [half] * 40) is None


def test_opening_the_grippers_at_work_is_no_reset():
    open_hands = AWAY.copy()
    open_hands[[6, 13]] = HOME[[6, 13]]
    assert judged([False] * 60, joints=[open_hands] * 60) is None


def test_going_home_after_the_goal_is_reached_is_not_punished():
    outcome = judged([False] * 10 + [True] * 90, joints=[AWAY] * 30 + [HOME] * 70)
    assert outcome.succeeded


def test_a_rollout_that_takes_too_long_is_a_failure():
    outcome = judged([False] * 1000, protocol=Protocol(time_limit_s=10.0))
    assert (outcome.result, outcome.reason, outcome.frame) == (Result.FAILURE, "time limit", 250)


def test_the_paper_allows_five_minutes():
    assert Protocol().time_limit_s == 300
    assert Protocol().stable_s == 3


@pytest.mark.parametrize("wrong", [{"stable_s": 0.0}, {"stable_s": 400.0}, {"home_rad": 1.0}])
def test_a_protocol_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(RecipeError):
        Protocol(**wrong)


def test_joints_are_compared_joint_by_joint():
    near = HOME + np.full(14, 0.1)
    outcome = judged([False] * 30, joints=[AWAY] * 10 + [near] * 20)
    assert outcome is not None
    assert outcome.reason.startswith("reset")
