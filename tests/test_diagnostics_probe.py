"""The transfer probe, on features that do and do not hold the object's position."""

import json

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from egorecovery.diagnostics import DiagnosticError, png, probe_figure, probe_gain, transfer_probe
from egorecovery.diagnostics.transfer_probe import RIDGES, ridge_path

EPISODES, EACH, D = 24, 20, 16
EPISODE = np.arange(EPISODES).repeat(EACH)
POOL = ["robot_success" if number < EPISODES // 2 else "robot_recovery" for number in EPISODE]


def positions(rng):
    """One place per episode, with a little motion in it: 50 mm and 5 mm along two axes, a fixed height."""
    place = rng.normal(0, 0.05, (EPISODES, 2)).repeat(EACH, axis=0) + rng.normal(0, 0.005, (EPISODES * EACH, 2))
    return np.column_stack([place, np.full(len(place), 0.02)])


def holding(position_m, rng, noise_m=0.0):
    """Features that are a linear image of the position, blurred."""
    blurred = position_m + rng.normal(0, noise_m, position_m.shape)
    return (blurred @ rng.normal(size=(3, D))) + rng.normal(size=D)


def test_features_that_hold_the_position_linearly_give_it_back(rng):
    position_m = positions(rng)
    for found in transfer_probe(holding(position_m, rng), position_m, EPISODE, POOL).values():
        assert found.r2 > 0.999
        assert found.error_mm < 1.0 < found.unseen_mm


def test_features_without_the_position_are_no_better_than_not_looking(rng):
    position_m = positions(rng)
    for found in transfer_probe(rng.normal(size=(len(position_m), D)), position_m, EPISODE, POOL).values():
        assert found.r2 < 0.05
        assert found.error_mm == pytest.approx(found.unseen_mm, rel=0.1)


def test_features_that_only_name_the_episode_do_not_pass_as_knowledge(rng):
    # With frames of one episode in both folds these features would score near 1.
    position_m = positions(rng)
    names = rng.normal(size=(EPISODES, 64)).repeat(EACH, axis=0)
    for found in transfer_probe(names, position_m, EPISODE, POOL).values():
        assert found.r2 < 0.1


def test_the_error_of_a_blurred_feature_is_the_blur(rng):
    position_m = positions(rng)
    blur_m = 0.004
    feature = np.column_stack([position_m[:, :2] + rng.normal(0, blur_m, (len(position_m), 2)), rng.normal(size=480)])
    for found in transfer_probe(feature, position_m, EPISODE, POOL).values():
        assert found.error_mm == pytest.approx(1000 * blur_m * np.sqrt(np.pi / 2), rel=0.08)  # mean of a 2-D normal
        assert found.low_mm < found.error_mm < found.high_mm


def test_a_sharper_trunk_gains_what_it_is_sharper_by_and_an_equal_one_gains_nothing(rng):
    position_m = positions(rng)
    blurred = transfer_probe(holding(position_m, rng, 0.02), position_m, EPISODE, POOL)["robot_recovery"]
    sharp = transfer_probe(holding(position_m, rng, 0.002), position_m, EPISODE, POOL)["robot_recovery"]
    gain = probe_gain(blurred, sharp)
    assert gain.gain_mm == pytest.approx(blurred.error_mm - sharp.error_mm)
    assert gain.low_mm > 0
    assert gain.better_episodes == 1.0
    assert probe_gain(sharp, sharp).gain_mm == 0.0


def test_every_ridge_predicts_as_scikit_learns_on_standardised_features(rng):
    feature, position_m, asked = rng.gamma(2.0, size=(80, 6)), rng.normal(size=(80, 3)), rng.gamma(2.0, size=(9, 6))
    scaler = StandardScaler().fit(feature)
    for ridge, found in zip(RIDGES, ridge_path(feature, position_m, asked), strict=True):
        reference = Ridge(alpha=ridge).fit(scaler.transform(feature), position_m)
        np.testing.assert_allclose(found, reference.predict(scaler.transform(asked)), atol=1e-9)


def test_units_of_the_features_do_not_matter(rng):
    position_m = positions(rng)
    feature = holding(position_m, rng, 0.01)
    plain = transfer_probe(feature, position_m, EPISODE, POOL)["robot_success"]
    scaled = transfer_probe(feature * np.logspace(-3, 3, D), position_m, EPISODE, POOL)["robot_success"]
    assert scaled.error_mm == pytest.approx(plain.error_mm)


def test_results_fit_json_and_a_figure_and_take_float32(rng):
    position_m = positions(rng).astype(np.float32)
    found = transfer_probe(holding(position_m, rng).astype(np.float32), position_m, EPISODE, POOL)
    assert json.loads(json.dumps(found["robot_success"].to_json()))["frames"] == 240
    assert png(probe_figure({"robot only": found, "with human": found})).startswith(b"\x89PNG")


def test_too_few_episodes_unequal_lengths_and_different_episodes_are_refused(rng):
    position_m = positions(rng)
    feature = holding(position_m, rng)
    with pytest.raises(DiagnosticError, match="at least two per fold"):
        transfer_probe(feature, position_m, EPISODE // 4, POOL)
    with pytest.raises(DiagnosticError, match="not equal"):
        transfer_probe(feature, position_m, EPISODE, POOL[:-1])
    found = transfer_probe(feature, position_m, EPISODE, POOL)
    with pytest.raises(DiagnosticError, match="different episodes"):
        probe_gain(found["robot_success"], found["robot_recovery"])
