"""KS alignment of intent targets, on pools whose distance is known."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp, norm

from egorecovery.diagnostics import DiagnosticError, comparable_windows, ks_alignment, ks_figure, png
from egorecovery.diagnostics.episode_bootstrap import chosen_episodes, times_drawn
from egorecovery.episodes import Phase, Source
from egorecovery.intent import IntentSpec, frame_labels
from making import make_path

ONE_SIGMA = 2 * norm.cdf(0.5) - 1  # KS distance of two unit normals one apart: 0.3829


def test_pools_of_one_distribution_are_as_close_as_chance_allows(rng):
    found = ks_alignment(rng.normal(size=(2000, 4)), rng.normal(size=(3000, 4)))
    assert found.mean_ks < 0.05
    assert (found.ks <= 1.15 * found.chance).all()  # 95% each, of four
    assert found.mean_ks <= found.mean_chance


def test_pools_one_sigma_apart_have_the_distance_of_the_normal_distribution(rng):
    found = ks_alignment(rng.normal(size=(4000, 4)), rng.normal(1.0, 1.0, size=(4000, 4)))
    np.testing.assert_allclose(found.ks, ONE_SIGMA, atol=0.03)
    assert found.mean_low < ONE_SIGMA < found.mean_high
    assert (found.ks > found.chance).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 10_000), st.booleans())
def test_the_distance_is_scipys_with_and_without_equal_values(robots, humans, seed, rounded):
    rng = np.random.default_rng(seed)
    robot, human = rng.normal(size=(robots, 3)), rng.normal(0.5, 1.0, size=(humans, 3))
    if rounded:
        robot, human = robot.round(), human.round()
    wanted = [ks_2samp(one, other).statistic for one, other in zip(robot.T, human.T, strict=True)]
    np.testing.assert_allclose(ks_alignment(robot, human, resamples=2).ks, wanted, atol=1e-12)


def test_a_common_monotone_change_of_units_changes_nothing(rng):
    robot, human = rng.gamma(2.0, size=(200, 4)), rng.gamma(3.0, size=(300, 4))
    plain, cubed = ks_alignment(robot, human), ks_alignment(robot**3, human**3)
    np.testing.assert_array_equal(plain.ks, cubed.ks)
    np.testing.assert_array_equal(plain.high, cubed.high)


def test_the_interval_of_a_frame_bootstrap_is_that_of_a_plain_loop(rng):
    robot, human = rng.normal(size=(150, 1)), rng.normal(1.0, 1.0, size=(200, 1))
    loop = [
        ks_2samp(rng.choice(robot[:, 0], 150), rng.choice(human[:, 0], 200)).statistic for _ in range(1000)
    ]  # fmt: skip
    found = ks_alignment(robot, human)
    np.testing.assert_allclose([found.low[0], found.high[0]], np.percentile(loop, [2.5, 97.5]), atol=0.015)


def test_frames_that_repeat_their_episode_widen_the_interval_and_raise_chance(rng):
    robot, human = rng.normal(size=(20, 2)).repeat(30, axis=0), rng.normal(size=(40, 2)).repeat(30, axis=0)
    by_frame = ks_alignment(robot, human)
    by_episode = ks_alignment(
        robot, human, robot_episode=np.arange(20).repeat(30), human_episode=np.arange(40).repeat(30)
    )
    np.testing.assert_array_equal(by_frame.ks, by_episode.ks)
    assert by_episode.mean_high - by_episode.mean_low > 3 * (by_frame.mean_high - by_frame.mean_low)
    assert by_episode.mean_chance > 3 * by_frame.mean_chance
    assert by_episode.episodes == (20, 40)


def test_the_same_seed_gives_the_same_interval_and_results_fit_json(rng):
    robot, human = rng.normal(size=(50, 4)), rng.normal(size=(60, 4))
    first, again = ks_alignment(robot, human), ks_alignment(robot, human)
    assert json.dumps(first.to_json()) == json.dumps(again.to_json())
    assert ks_alignment(robot, human, seed=7).to_json() != first.to_json()


def test_every_bootstrap_sample_draws_as_many_as_there_are(rng):
    counts = times_drawn(17, 200, rng)
    assert (counts.sum(axis=1) == 17).all()
    assert counts.mean(axis=0) == pytest.approx(1.0, abs=0.3)


def test_empty_pools_and_missing_episode_numbers_are_refused(rng):
    with pytest.raises(DiagnosticError, match="no frames of the human"):
        ks_alignment(rng.normal(size=(5, 4)), np.zeros((0, 4)))
    with pytest.raises(DiagnosticError, match="2 are there"):
        chosen_episodes(["a", "b"], 3)


def test_episodes_are_chosen_by_name_and_not_by_the_order_they_come_in():
    names = [f"episode-{number}" for number in range(40)]
    assert chosen_episodes(names, 15) == chosen_episodes(names[::-1], 15)
    assert len(set(chosen_episodes(names, 15))) == 15


def test_a_success_episode_gives_every_moving_window_and_a_recovery_only_its_masked_ones():
    def labels(source):
        return frame_labels(
            effector_m=make_path(120), reliable=np.ones((120, 2), bool), active=(1,), source=source, boundary=60,
            spec=IntentSpec(),
        )  # fmt: skip

    success, recovery = labels(Source.ROBOT_SUCCESS), labels(Source.ROBOT_RECOVERY)
    np.testing.assert_array_equal(comparable_windows(success, Phase.SUCCESS), recovery.gt_intent_valid)
    np.testing.assert_array_equal(comparable_windows(recovery, Phase.RECOVERY), recovery.intent_mask)
    assert recovery.intent_mask.sum() > 0


def test_the_figure_is_drawn_for_two_tasks(rng):
    found = ks_alignment(rng.normal(size=(50, 4)), rng.normal(size=(60, 4)), resamples=20)
    phases = {Phase.SUCCESS: found, Phase.RECOVERY: found}
    assert png(ks_figure({"cup_brush": phases, "round_disk": phases})).startswith(b"\x89PNG")
