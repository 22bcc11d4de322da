"""Demonstrations whose hands come to handles as policies' do, off their middle or turned: options of collection."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from egorecovery.episodes import RATE_HZ, Side, Source
from egorecovery.errors import RecipeError
from egorecovery.randomness import generator_for
from egorecovery.workcell.arena import build_arena
from egorecovery.workcell.collection import Job, Order
from egorecovery.workcell.kinematics import workcell_arms
from egorecovery.workcell.maneuver import Reach, Waypoint
from egorecovery.workcell.robot import RobotCell
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.tasks.round_disk_objects import HANDLE_M
from egorecovery.workcell.tasks.round_disk_rules import flush
from egorecovery.workcell.teleoperator import Aim, Teleoperator


def grips_along_mm(off_centre: bool, episodes: int) -> list[float]:
    """How far from the handle's middle the fingers close, by the scripts alone."""
    scene = scene_named("round_disk", off_centre_grips=off_centre)
    robot = RobotCell(build_arena(scene.add_objects))
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
    robot = RobotCell(build_arena(scene.add_objects))
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


def turns_rad(miss_rad: float, episodes: int) -> list[float]:
    """How far the executed hand is from the wanted turn, at the end of the first free leg."""
    scene = scene_named("round_disk")
    robot = RobotCell(build_arena(scene.add_objects))
    found = []
    for number in range(episodes):
        rng = generator_for(seed=4, purpose="turned", number=number)
        robot.reset()
        teleoperator = Teleoperator(robot, scene)
        teleoperator.aim = Aim(miss_m=0.02, miss_rad=miss_rad)
        scene.stage(teleoperator, scene.draw_initial(rng))
        (over, *_) = scene.succeed(teleoperator, rng)
        wanted = workcell_arms().effector_poses  # of commands and of what was executed
        executed: list[np.ndarray] = []
        teleoperator._step = lambda action, kept=executed: kept.append(np.array(action))
        commanded: list[np.ndarray] = []
        teleoperator.demonstrate(iter([over]), rng, lambda action, kept=commanded: kept.append(np.array(action)), print)
        arrived = len(executed) - round(teleoperator.aim.align_s * RATE_HZ) - 1
        hand, right = wanted(executed[arrived])[1][1], wanted(commanded[arrived])[1][1]
        found.append(float(Rotation.from_matrix(hand @ right.T).magnitude()))
        last = wanted(executed[-1])[1][1]
        assert Rotation.from_matrix(last @ right.T).magnitude() < 0.03, "in the end it is aligned"
    return found


def test_a_hand_arrives_turned_only_where_that_is_asked_for():
    assert max(turns_rad(0.0, 3)) < 0.03
    turned = turns_rad(0.3, 6)
    assert 0.1 < np.mean(turned) < 0.45


def test_people_have_no_turn_that_a_policy_could_copy():
    with pytest.raises(RecipeError, match="turned_hands is for robot sources"):
        Order(task="round_disk", source=Source.HUMAN_RECOVERY, episodes=1, turned_hands=True)
