"""Cube stacking's rules on constructed states."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from egorecovery.workcell.objects import Pose
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.tasks.cube_stack import CUBE_M, DISPLACED_M, HALF_M, CubeFacts

SCENE = scene_named("cube_stack")


def cube(x=0.05, y=-0.02, z=HALF_M, rotation=None, speed_mps=0.0):
    axes = (rotation or Rotation.identity()).as_matrix()
    return Pose(np.array([x, y, z]), axes, np.array([speed_mps, 0.0, 0.0]))


GREEN = cube()
STACKED = CubeFacts(yellow=cube(z=HALF_M + CUBE_M), green=GREEN, held=False, stacked_contact=True)


def test_a_yellow_cube_resting_on_the_green_one_is_the_goal():
    assert SCENE.goal(STACKED)


@pytest.mark.parametrize(
    "near_miss",
    [
        replace(STACKED, held=True),
        replace(STACKED, stacked_contact=False),
        replace(STACKED, yellow=cube(z=HALF_M + CUBE_M, x=0.05 + HALF_M + 0.001)),
        replace(STACKED, yellow=cube(z=HALF_M + CUBE_M + 0.01)),
        replace(STACKED, yellow=cube(z=HALF_M + CUBE_M, rotation=Rotation.from_euler("x", 12, degrees=True))),
        replace(STACKED, yellow=cube(z=HALF_M + CUBE_M, rotation=Rotation.from_euler("y", -12, degrees=True))),
        replace(STACKED, yellow=cube(z=HALF_M + CUBE_M, speed_mps=0.05)),
        replace(STACKED, yellow=cube(x=0.11)),
    ],
    ids=["still held", "hovering", "half off", "too high", "tilted", "tilted back", "sliding", "beside"],
)
def test_a_near_miss_is_not_the_goal(near_miss):
    assert not SCENE.goal(near_miss)


@pytest.mark.parametrize("turn", ["x", "y", "z"])
@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_cube_has_no_right_way_up(turn, quarters):
    rolled = Rotation.from_euler(turn, 90 * quarters, degrees=True)
    assert SCENE.goal(replace(STACKED, yellow=cube(z=HALF_M + CUBE_M, rotation=rolled)))


def test_moving_the_green_cube_is_terminal_and_touching_it_is_not():
    moved = replace(STACKED, green=cube(x=0.05 + DISPLACED_M + 0.001))
    assert "displaced" in SCENE.terminal(moved, STACKED)
    nudged = replace(STACKED, green=cube(x=0.05 + DISPLACED_M - 0.001))
    assert SCENE.terminal(nudged, STACKED) is None


@pytest.mark.parametrize("gone", [cube(x=0.3), cube(y=-0.4), cube(x=-0.3), cube(z=-0.5)])
def test_a_cube_out_of_reach_is_terminal(gone):
    assert "yellow cube left" in SCENE.terminal(replace(STACKED, yellow=gone), STACKED)


def test_a_fallen_cube_may_be_tried_again():
    fallen = replace(STACKED, yellow=cube(x=0.13), stacked_contact=False)
    assert SCENE.terminal(fallen, STACKED) is None


def test_a_failure_start_that_is_stacked_or_not_held_is_spoiled():
    held = SCENE.draw_failure(np.random.default_rng(0), "held")
    fallen = SCENE.draw_failure(np.random.default_rng(0), "fallen")
    assert SCENE.invalid_reason(STACKED, fallen) == "the cubes are stacked"
    beside = replace(STACKED, yellow=cube(x=0.13), stacked_contact=False)
    assert SCENE.invalid_reason(beside, held) == "the yellow cube is not held"
    assert SCENE.invalid_reason(beside, fallen) is None
