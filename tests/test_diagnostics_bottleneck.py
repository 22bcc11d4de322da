"""Sliced W2 and the bottleneck, on spaces whose distances are known."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egorecovery.diagnostics import (
    DiagnosticError,
    HeadFrames,
    bottleneck_alignment,
    bottleneck_figure,
    png,
    random_frames,
    sliced_w2,
)

D = 32  # of the constructed trunk feature


@pytest.fixture(scope="module")
def pot():
    """An independent implementation, used here only: it is no dependency."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POT_BACKEND_DISABLE_PYTORCH", "1")  # importing torch takes seconds
        return pytest.importorskip("ot")


@pytest.mark.parametrize("dimensions", [1, 4, 32, 256])
def test_a_shift_reads_its_own_length_in_every_dimension(dimensions, rng):
    points, shift = rng.normal(size=(60, dimensions)), rng.normal(size=dimensions)
    found = sliced_w2(points, points + shift, random_frames(dimensions, rng, 64))
    assert found == pytest.approx(np.linalg.norm(shift), rel=1e-9)


@pytest.mark.parametrize("dimensions", [4, 64])
def test_gaussians_one_sigma_apart_along_one_axis_are_one_apart_in_every_dimension(dimensions, rng):
    first, second = rng.normal(size=(2, 20_000, dimensions))
    second[:, 0] += 1.0
    assert sliced_w2(first, second, random_frames(dimensions, rng, 64)) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("dimensions", [4, 64])
def test_the_raw_distance_that_pot_gives_for_them_is_smaller_by_root_d(pot, dimensions, rng):
    first = rng.normal(size=(500, dimensions))
    shifted = first + np.eye(dimensions)[0]
    raw = pot.sliced_wasserstein_distance(first, shifted, n_projections=2000, seed=0)
    assert raw == pytest.approx(1.0 / np.sqrt(dimensions), rel=0.05)


def test_gaussians_that_differ_in_spread_only_differ_by_the_spread_times_root_d(rng):
    # W2 of N(0, 1) and N(0, s^2) is |s - 1| along every direction, so sqrt(d) |s - 1| under the normalisation:
    # again the distance between the whole distributions, W2 of N(0, I) and N(0, s^2 I).
    first, second = rng.normal(size=(20_000, 9)), 1.5 * rng.normal(size=(20_000, 9))
    assert sliced_w2(first, second, random_frames(9, rng, 90)) == pytest.approx(0.5 * 3, rel=0.03)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 6), st.integers(0, 10_000))
def test_the_distance_is_pots_along_the_same_directions_also_for_unequal_samples(pot, first, second, dimensions, seed):
    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=(first, dimensions)), rng.normal(0.3, 2.0, size=(second, dimensions))
    frames = random_frames(dimensions, rng, 12)
    directions = frames.reshape(-1, dimensions).T
    wanted = np.sqrt(dimensions) * pot.sliced_wasserstein_distance(one, other, projections=directions, p=2)
    assert sliced_w2(one, other, frames) == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_directions_form_orthonormal_frames(rng):
    frames = random_frames(5, rng, 12)
    assert frames.shape == (3, 5, 5)
    np.testing.assert_allclose(frames @ frames.swapaxes(1, 2), np.tile(np.eye(5), (3, 1, 1)), atol=1e-12)


def test_the_distance_of_a_sample_to_itself_is_zero_and_it_is_symmetric(rng):
    one, other, frames = rng.normal(size=(30, 4)), rng.normal(size=(50, 4)), random_frames(4, rng)
    assert sliced_w2(one, one[::-1], frames) == pytest.approx(0.0, abs=1e-12)
    assert sliced_w2(one, other, frames) == pytest.approx(sliced_w2(other, one, frames), rel=1e-12)


def head_frames(rng, *, shift_recovery, shift_nominal, intent_shift=0.0, intent_unit=1.0, episodes=12, each=40):
    """Half of every episode is recovery. Frames of an episode are independent here."""
    count = episodes * each
    recovery = np.arange(count) % each < each // 2
    feature = rng.normal(size=(count, D))
    feature[:, 0] += np.where(recovery, shift_recovery, shift_nominal)
    intent = rng.normal(size=(count, 4))
    intent[:, 0] += intent_shift
    return HeadFrames(feature=feature, intent=intent_unit * intent, recovery=recovery, episode=np.arange(count) // each)


def test_identical_embodiments_are_no_further_apart_than_halves_of_one_of_them(rng):
    found = bottleneck_alignment(
        head_frames(rng, shift_recovery=0.0, shift_nominal=0.0), head_frames(rng, shift_recovery=0.0, shift_nominal=0.0)
    )
    for space in (found.feature, found.intent):
        assert space.recovery_w2 < space.within_w2
        assert space.relative_w2 < 0.2
        assert space.rho == pytest.approx(1.0, abs=0.25)


def test_rho_is_the_recovery_distance_over_the_nominal_one(rng):
    robot = head_frames(rng, shift_recovery=0.0, shift_nominal=0.0)
    human = head_frames(rng, shift_recovery=10.0, shift_nominal=20.0)
    found = bottleneck_alignment(robot, human).feature
    assert found.recovery_w2 == pytest.approx(10.0, rel=0.03)
    assert found.nominal_w2 == pytest.approx(20.0, rel=0.03)
    assert found.rho == pytest.approx(0.5, rel=0.03)


def test_a_bottleneck_that_drops_the_embodiment_shrinks_while_blind_projections_do_not(rng):
    robot = head_frames(rng, shift_recovery=0.0, shift_nominal=0.0)
    human = head_frames(rng, shift_recovery=10.0, shift_nominal=10.0)
    found = bottleneck_alignment(robot, human)
    assert found.intent.shrink > 15
    assert found.intent.relative_shrink > 5
    assert found.random_jl.shrink == pytest.approx(
        1.15, abs=0.4
    )  # E log of a chi-square with 4 degrees: 0.87 in length
    assert found.pca.shrink == pytest.approx(1.0, abs=0.05)  # the shift is the strongest component, and is kept whole
    assert found.feature.shrink == found.feature.relative_shrink == 1.0


def test_embodiments_that_are_two_points_lie_twice_their_spread_apart(rng):
    robot, human = (
        HeadFrames(
            feature=np.full((40, D), level) + 1e-6 * rng.normal(size=(40, D)),
            intent=rng.normal(size=(40, 4)),
            recovery=np.arange(40) % 2 == 0,
            episode=np.arange(40) // 10,
        )
        for level in (0.0, 1.0)
    )
    assert bottleneck_alignment(robot, human).feature.relative_w2 == pytest.approx(2.0, rel=1e-4)


def test_smaller_units_of_the_intent_shrink_the_distance_but_not_its_share_of_the_spread(rng):
    robots = [head_frames(np.random.default_rng(0), shift_recovery=0.0, shift_nominal=0.0, intent_unit=unit)
              for unit in (1.0, 0.01)]  # fmt: skip
    humans = [head_frames(np.random.default_rng(1), shift_recovery=3.0, shift_nominal=3.0, intent_shift=3.0,
                          intent_unit=unit) for unit in (1.0, 0.01)]  # fmt: skip
    plain, small = (bottleneck_alignment(robot, human) for robot, human in zip(robots, humans, strict=True))
    assert small.intent.shrink == pytest.approx(100 * plain.intent.shrink)
    assert small.intent.relative_shrink == pytest.approx(plain.intent.relative_shrink)
    assert small.intent.rho == pytest.approx(plain.intent.rho)


def test_float32_features_are_accepted_and_the_result_fits_json_and_a_figure(rng):
    frames = head_frames(rng, shift_recovery=1.0, shift_nominal=1.0, episodes=4)
    half = HeadFrames(
        feature=frames.feature.astype(np.float32),
        intent=frames.intent.astype(np.float32),
        recovery=frames.recovery,
        episode=frames.episode,
    )
    found = bottleneck_alignment(half, frames)
    assert json.loads(json.dumps(found.to_json()))["intent"]["dimensions"] == 4
    assert found.frames == {"robot recovery": 80, "robot nominal": 80, "human recovery": 80, "human nominal": 80}
    assert png(bottleneck_figure({"cup_brush": found})).startswith(b"\x89PNG")


def test_a_pool_without_nominal_frames_is_refused(rng):
    frames = head_frames(rng, shift_recovery=0.0, shift_nominal=0.0)
    only = HeadFrames(feature=frames.feature, intent=frames.intent, recovery=np.ones(480, bool), episode=frames.episode)
    with pytest.raises(DiagnosticError, match="no nominal frame of the human"):
        bottleneck_alignment(frames, only)
