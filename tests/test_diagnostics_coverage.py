"""Failure-state coverage, on hulls whose size is known."""

import json

import numpy as np
import pytest

from egorecovery.diagnostics import DiagnosticError, coverage_figure, mode_coverage, png
from egorecovery.diagnostics.coverage import hull_size, nearest_distances

SQUARE = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])


def test_a_square_has_its_area_a_cube_its_volume_and_a_line_nothing():
    cube = np.array([[x, y, z] for x in (0.0, 2.0) for y in (0.0, 2.0) for z in (0.0, 2.0)])
    assert hull_size(SQUARE) == pytest.approx(4.0)
    assert hull_size(cube) == pytest.approx(8.0)
    assert hull_size(np.linspace([0.0, 0.0], [1.0, 1.0], 9)) == 0.0
    assert hull_size(SQUARE[:2]) == 0.0


def test_nearest_distances_are_those_to_the_nearest_start():
    assert nearest_distances(np.array([[0.0, 0.0], [3.0, 1.0]]), SQUARE) == pytest.approx([np.sqrt(2), 2.0])


def test_a_human_square_three_times_as_wide_covers_nine_times_the_robots():
    found = mode_coverage(evaluation=3 * SQUARE, robot=SQUARE, human=3 * SQUARE)
    assert found.plane_ratio == pytest.approx(9.0)
    assert found.pair_ratio == pytest.approx(9.0)
    assert found.matched_ratio == pytest.approx(9.0)
    assert found.solid_ratio is None


def test_a_cube_three_times_as_wide_has_nine_times_the_area_of_pairs_and_27_times_the_volume(rng):
    cube = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
    found = mode_coverage(evaluation=3 * cube, robot=cube, human=3 * cube)
    assert found.solid_ratio == pytest.approx(27.0)
    assert found.pair_ratio == pytest.approx(9.0)


def test_units_and_fixed_parameters_do_not_matter(rng):
    evaluation, robot, human = rng.normal(size=(200, 3)), 0.3 * rng.normal(size=(30, 3)), rng.normal(size=(90, 3))
    plain = mode_coverage(evaluation, robot, human)
    in_mm = [
        np.column_stack([points * [1000.0, 57.3, 1.0] + [5.0, 0.0, -2.0], np.full(len(points), 0.7)])
        for points in (evaluation, robot, human)
    ]
    other = mode_coverage(*in_mm)
    assert other.parameters == plain.parameters == 3
    assert other.plane_ratio == pytest.approx(plain.plane_ratio)
    np.testing.assert_allclose(other.robot.nearest, plain.robot.nearest)


def test_the_same_distribution_covers_more_with_more_starts_but_not_at_equal_count(rng):
    evaluation, robot, human = (rng.uniform(-1, 1, size=(count, 2)) for count in (400, 20, 2000))
    found = mode_coverage(evaluation, robot, human)
    assert found.plane_ratio > 1.2
    assert found.matched_ratio == pytest.approx(1.0, abs=0.15)


def test_evaluation_starts_that_are_training_starts_are_at_distance_zero_and_a_shifted_pool_is_away(rng):
    evaluation = rng.normal(size=(50, 2))
    found = mode_coverage(evaluation, robot=evaluation + 100.0, human=evaluation)
    assert found.human.mean_nearest == pytest.approx(0.0, abs=1e-12)
    assert found.human.inside > 0.8  # corners of the hull may round to outside
    assert found.robot.inside == 0.0
    assert found.robot.mean_nearest > 100


def test_a_robot_pool_on_one_point_covers_nothing_so_the_ratio_is_infinite_and_null_in_json(rng):
    found = mode_coverage(rng.normal(size=(50, 2)), robot=np.zeros((5, 2)), human=rng.normal(size=(50, 2)))
    assert found.plane_ratio == np.inf
    assert found.robot.inside == 0.0
    assert json.loads(json.dumps(found.to_json()))["plane_ratio"] is None
    assert png(coverage_figure({"held": found})).startswith(b"\x89PNG")


def test_a_mode_without_starts_or_without_two_varying_parameters_is_refused(rng):
    with pytest.raises(DiagnosticError, match="no robot start"):
        mode_coverage(SQUARE, np.zeros((0, 2)), SQUARE)
    with pytest.raises(DiagnosticError, match="1 parameters vary"):
        mode_coverage(SQUARE * [1.0, 0.0], SQUARE, SQUARE)
