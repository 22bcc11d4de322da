"""How long an experiment still takes, told from what it took so far."""

from dataclasses import replace

import pytest

from egorecovery.experiments import plan_suite, suite_named
from egorecovery.experiments.forecast import Forecast
from egorecovery.experiments.plan import trainings
from egorecovery.experiments.resources import Resources
from egorecovery.experiments.timing import Timing, samples

PLAN = plan_suite(suite_named("main"), only=["*-egorecovery-*"], rollouts=100)
CUBES, CUPS = (next(cell for cell in PLAN.cells if cell.cell.task == task) for task in ("cube_stack", "cup_brush"))


@pytest.fixture
def timing():
    known = Timing()
    known.took("training", "cube_stack", samples(CUBES.recipe), 40.0)
    known.took("evaluation", "cube_stack", 200, 10.0)
    return known


def test_nobody_knows_before_anything_was_done():
    assert Timing().training_s(CUBES.recipe) is None
    assert Timing().evaluations_s([CUBES]) is None


def test_rollouts_take_what_their_task_took_and_of_a_new_task_what_others_did(timing):
    assert timing.evaluation_s(CUPS) == pytest.approx(10.0)
    timing.took("evaluation", "cup_brush", 100, 20.0)
    assert timing.evaluation_s(CUPS) == pytest.approx(40.0)
    assert timing.evaluation_s(CUBES) == pytest.approx(10.0)


def test_half_the_steps_take_half_the_time(timing):
    half = replace(CUBES.recipe, optimisation=replace(CUBES.recipe.optimisation, steps=1000))
    assert timing.training_s(half) == pytest.approx(40.0 / 2)


@pytest.mark.parametrize(("at_once", "wanted_s"), [(1, 40 + 20 + 10), (2, 40 + 10)])
def test_a_training_waits_for_what_is_left_of_those_it_takes_turns_with(timing, at_once, wanted_s):
    resources = Resources(executor="local", workers=1, device="cpu", trainings_at_once=at_once, schedule={})
    [training] = trainings([CUBES])
    half_done = (CUBES.recipe, CUBES.recipe.optimisation.steps // 2)
    found_s = Forecast(timing, resources, None).until_done_s(training, [half_done], [], 0.0)
    assert found_s == pytest.approx(wanted_s)
