"""Near misses as starts of recoveries: small misses that policies make themselves, an option of collection."""

import numpy as np
import pytest

from egorecovery.episodes import Source
from egorecovery.errors import RecipeError
from egorecovery.workcell.collection import Order
from egorecovery.workcell.demonstration import RobotDemonstrator
from egorecovery.workcell.staging import draw_start
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.workcell import StagingFailed, Workcell

TASKS = ("cube_stack", "cup_brush", "round_disk")
RECOVERIES = (Source.ROBOT_RECOVERY, Source.HUMAN_RECOVERY)


@pytest.mark.parametrize("source", RECOVERIES)
@pytest.mark.parametrize("task", TASKS)
def test_half_of_the_recoveries_begin_at_near_misses_where_they_are_asked_for(task, source):
    scene = scene_named(task)
    modes = [draw_start(scene, source, np.random.default_rng(n), near_misses=True).mode for n in range(200)]
    assert np.mean([mode in scene.near_misses for mode in modes]) == pytest.approx(0.5, abs=0.12)
    assert {*scene.near_misses, *scene.modes} == set(modes)


@pytest.mark.parametrize("source", list(Source))
def test_without_the_option_nobody_meets_one(source):
    for task in TASKS:
        scene = scene_named(task)
        modes = {draw_start(scene, source, np.random.default_rng(n)).mode for n in range(60)}
        assert not modes & set(scene.near_misses)


def test_a_task_without_near_misses_is_collected_as_ever():
    scene = scene_named("table_sweep")
    drawn = [draw_start(scene, RECOVERIES[1], np.random.default_rng(5), near_misses=near) for near in (False, True)]
    assert drawn[0] == drawn[1]


def test_only_recoveries_can_begin_at_one():
    with pytest.raises(RecipeError, match="near misses are for recoveries"):
        Order(task="cube_stack", source=Source.ROBOT_SUCCESS, episodes=1, near_misses=True)


@pytest.mark.parametrize("task", TASKS)
def test_a_near_miss_is_no_success_and_the_demonstrator_mends_it(task):
    """Some draws cannot be staged, such as a disk that slips in; most can, and are mended."""
    scene = scene_named(task)
    cell, demonstrator = Workcell(scene, image_size=32), RobotDemonstrator(scene, image_size=32)
    staged = mended = 0
    for number in range(4):
        rng = np.random.default_rng(number)
        mode = list(scene.near_misses)[number % len(scene.near_misses)]
        start = scene.draw_failure(rng, mode)
        try:
            cell.reset(start)
        except StagingFailed:
            continue
        staged += 1
        assert not scene.goal(cell.facts())
        mended += demonstrator.attempt(start, rng).failure is None
    assert staged >= 2
    assert mended >= 1
