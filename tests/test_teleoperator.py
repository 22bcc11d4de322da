"""A teleoperator who misses a little, looks, and aligns: what is recorded is where the hand should have been."""

import numpy as np
import pytest

from egorecovery.episodes import Side
from egorecovery.workcell.kinematics import HOME, ToolPose, effector_poses, pointing_down
from egorecovery.workcell.maneuver import Reach, Waypoint
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.teleoperator import Aim, Teleoperator
from egorecovery.workcell.workcell import Workcell

RIGHT = Side.RIGHT.effector
OVER_M, DOWN_M = np.array([0.02, -0.05, 0.12]), np.array([0.02, -0.05, 0.05])


def to(position_m: np.ndarray, holds_m: float = 0.0, **how: bool) -> Waypoint:
    reach = Reach(pose=ToolPose(position_m, pointing_down()), opening_01=1.0, holds_m=holds_m)
    return Waypoint(reaches={Side.RIGHT: reach}, **how)


@pytest.fixture(scope="module")
def cell():
    workcell = Workcell(scene_named("cube_stack"), image_size=32)
    yield workcell
    workcell.close()


def demonstrated(cell: Workcell, aim: Aim, script: list[Waypoint], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Recorded and executed actions."""
    recorded, executed = [], []
    cell.robot.place(HOME, HOME)
    teleoperator = Teleoperator(cell.robot, cell.scene, step=executed.append)
    teleoperator.aim = aim
    teleoperator.demonstrate(iter(script), np.random.default_rng(seed), recorded.append, lambda: None)
    return np.array(recorded), np.array(executed)


def apart_m(recorded: np.ndarray, executed: np.ndarray) -> np.ndarray:
    """Of the right tool, told and true, tick by tick."""
    return effector_poses(executed)[0][:, RIGHT] - effector_poses(recorded)[0][:, RIGHT]


def test_a_free_leg_ends_off_by_the_stated_amount_and_never_below(cell):
    ends = []
    for seed in range(40):
        off_m = apart_m(*demonstrated(cell, Aim(miss_m=0.02, align_s=0.0), [to(OVER_M)], seed))
        ends.append(off_m[-1])
    assert np.std([end[:2] for end in ends]) == pytest.approx(0.02, rel=0.3)
    assert min(end[2] for end in ends) > -1e-4


def test_the_hand_has_aligned_before_it_goes_straight_down(cell):
    for seed in range(10):
        free, _ = demonstrated(cell, Aim(miss_m=0.02), [to(OVER_M)], seed)
        off_m = np.linalg.norm(
            apart_m(*demonstrated(cell, Aim(miss_m=0.02), [to(OVER_M), to(DOWN_M, straight=True)], seed)), axis=1
        )
        assert off_m[: len(free)].max() > 0.004
        assert off_m[len(free) - 1 :].max() < 1e-4


def test_what_is_recorded_is_the_same_path_however_far_the_hand_is_off(cell):
    exact, _ = demonstrated(cell, Aim(), [to(OVER_M)], seed=3)
    missing, _ = demonstrated(cell, Aim(miss_m=0.03), [to(OVER_M)], seed=3)
    np.testing.assert_array_equal(missing[: len(exact)], exact)
    np.testing.assert_array_equal(missing[len(exact) :], np.broadcast_to(exact[-1], missing[len(exact) :].shape))


def test_something_in_the_hand_is_carried_with_half_the_error(cell):
    empty, holding = (
        apart_m(*demonstrated(cell, Aim(miss_m=0.02, align_s=0.0), [to(OVER_M, holds_m=width)], seed=5))[-1]
        for width in (0.0, 0.04)
    )
    np.testing.assert_allclose(holding, empty / 2, atol=1e-3)


def test_the_other_arm_and_the_grippers_do_as_they_are_told(cell):
    recorded, executed = demonstrated(cell, Aim(miss_m=0.02, tremble_rad=0.002), [to(OVER_M)], seed=1)
    off = (executed - recorded).reshape(-1, 2, 7)
    assert not off[:, Side.LEFT.effector].any()
    assert not off[:, :, 6].any()
    assert off[:, RIGHT, :6].any()
