"""A robot in a person's place: the same motion, told as hands."""

import numpy as np
import pytest

from egorecovery.capture import HandTracks, RobotLog
from egorecovery.episodes import Camera
from egorecovery.motion import KeypointOrder
from egorecovery.workcell.arm import OPENING_M
from egorecovery.workcell.demonstration import RobotDemonstrator
from egorecovery.workcell.hand import WIDEST_M
from egorecovery.workcell.robot_as_human import RobotAsHuman
from egorecovery.workcell.tasks.cube_stack import CubeStack

ORDER = KeypointOrder.MANO


@pytest.fixture(scope="module")
def attempts():
    """The same demonstration, by the robot as itself and in a person's place."""
    start = CubeStack().draw_failure(np.random.default_rng(3), "fallen")
    made = []
    for kind in (RobotDemonstrator, RobotAsHuman):
        demonstrator = kind(CubeStack(), image_size=16)
        made.append(demonstrator.attempt(start, np.random.default_rng(4)))
        demonstrator.close()
    return made


@pytest.fixture(scope="module")
def motions(attempts) -> tuple[RobotLog, HandTracks]:
    robot, hands = (attempt.motion for attempt in attempts)
    assert isinstance(robot, RobotLog)
    assert isinstance(hands, HandTracks)
    return robot, hands


def test_cameras_show_the_robot(attempts):
    robot, stand_in = attempts
    for camera in Camera:
        np.testing.assert_array_equal(robot.cameras[camera].frames[0], stand_in.cameras[camera].frames[0])
    assert robot.correction_done_s == stand_in.correction_done_s


def test_thumb_and_index_meet_where_the_tool_is(motions):
    robot, hands = motions
    pinch_m = hands.keypoints_m[:, :, [ORDER.thumb_tip, ORDER.index_tip]].mean(axis=2)
    np.testing.assert_allclose(pinch_m, robot.effector_m, atol=1e-3)


def test_fingers_open_as_far_as_the_gripper_does(motions):
    robot, hands = motions
    tips_m = hands.keypoints_m[:, :, ORDER.thumb_tip] - hands.keypoints_m[:, :, ORDER.index_tip]
    openings = robot.state.reshape(-1, 2, 7)[:, :, 6]
    np.testing.assert_allclose(np.linalg.norm(tips_m, axis=-1), np.minimum(openings * OPENING_M, WIDEST_M), atol=1e-6)


def test_every_sample_is_sure_and_a_proper_rotation(motions):
    _, hands = motions
    assert hands.seen(min_confidence=1.0).all()
