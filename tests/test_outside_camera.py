"""The view from outside is for films; nothing that a policy sees may change because of it."""

import numpy as np
import pytest

from egorecovery.demo import demo_protocol
from egorecovery.evaluation.protocol import draw_start
from egorecovery.workcell.outside_camera import OutsideCamera
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.workcell import Workcell

TASK = "cube_stack"


@pytest.fixture
def cell():
    with Workcell(scene_named(TASK), image_size=64) as cell:
        cell.reset(draw_start(demo_protocol(TASK), cell.scene, "recovery", 0))
        yield cell


def test_pictures_for_policies_are_the_same_with_and_without_a_camera_outside(cell):
    before = cell.cameras.render_all(cell.robot.data)
    with OutsideCamera(cell.robot.model, 128) as outside:
        seen = outside.render(cell.robot.data)
        beside = cell.cameras.render_all(cell.robot.data)
    assert seen.shape == (128, 128, 3)
    assert seen.std() > 20
    for camera, picture in before.items():
        assert np.array_equal(picture, beside[camera])


def test_cameras_that_are_made_later_have_the_plain_quality(cell):
    with OutsideCamera(cell.robot.model, 64) as outside:
        outside.render(cell.robot.data)
        later = cell.cameras.render_all(cell.robot.data)
    cell.close()
    for camera, picture in cell.cameras.render_all(cell.robot.data).items():
        assert np.array_equal(picture, later[camera])
