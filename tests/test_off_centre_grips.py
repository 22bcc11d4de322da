"""Demonstrations whose grips are as far off the handle's middle as policies' are: an option of collection."""

import numpy as np
import pytest

from egorecovery.episodes import Side, Source
from egorecovery.randomness import generator_for
from egorecovery.workcell.cell import build_cell
from egorecovery.workcell.collection import Job, Order
from egorecovery.workcell.maneuver import Reach, Waypoint
from egorecovery.workcell.robot import RobotCell
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.tasks.round_disk_objects import HANDLE_M
from egorecovery.workcell.tasks.round_disk_rules import flush
from egorecovery.workcell.teleoperator import Teleoperator


def grips_along_mm(off_centre: bool, episodes: int) -> list[float]:
    """How far from the handle's middle the fingers close, by the scripts alone."""
    scene = scene_named("round_disk", off_centre_grips=off_centre)
    robot = RobotCell(build_cell(scene.add_objects))
    found = []
    for number in range(episodes):
        rng = generator_for(seed=3, purpose="off-centre", number=number)
        robot.reset()
        teleoperator = Teleoperator(robot, scene)
        scene.stage(teleoperator, scene.draw_initial(rng))
        disk = teleoperator.facts().disk
        for waypoint in scene.succeed(teleoperator, rng):
            assert isinstance(waypoint, Waypoint)
            reach: Reach = waypoint.reaches[Side.RIGHT]
            if reach.holds_m:
                found.append(1000 * float(disk.of(reach.pose.position_m)[0]))
                break
    return found


def test_grips_are_close_to_the_middle_unless_they_are_asked_for_off_centre():
    close, off_centre = (np.array(grips_along_mm(way, 30)) for way in (False, True))
    assert np.abs(close).max() < 5
    assert np.std(off_centre) == pytest.approx(6, abs=2)
    assert np.abs(off_centre).max() < 1000 * HANDLE_M[0] / 2, "the fingers stay on the handle"


def test_a_disk_that_is_held_off_centre_is_seated_all_the_same():
    scene = scene_named("round_disk", off_centre_grips=True)
    robot = RobotCell(build_cell(scene.add_objects))
    seated = []
    for number in range(4):
        rng = generator_for(seed=3, purpose="off-centre", number=number)
        robot.reset()
        teleoperator = Teleoperator(robot, scene)
        scene.stage(teleoperator, scene.draw_initial(rng))
        teleoperator.demonstrate(scene.succeed(teleoperator, rng), rng, lambda action: None, lambda: None)
        seated.append(flush(teleoperator.facts()))
    assert sum(seated) >= 3


def test_such_episodes_have_names_of_their_own(tmp_path):
    order = Order(task="round_disk", source=Source.ROBOT_SUCCESS, episodes=1, off_centre_grips=True)
    assert Job(order, 0, tmp_path).name == "round_disk-robot_success-off_centre-s0-0000"


def test_a_task_with_nothing_to_grip_off_centre_is_the_same_scene():
    assert type(scene_named("cube_stack", off_centre_grips=True)) is type(scene_named("cube_stack"))
