"""Eq. 1 against a second implementation written from the paper's formula, and its properties."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from egorecovery.errors import EpisodeError, RecipeError
from egorecovery.intent import IntentSpec, dct_basis, targets
from egorecovery.intent.target import future_windows
from egorecovery.motion import PhaseGrid

seeds = st.integers(0, 2**32 - 1)
lengths = st.integers(16, 400)


def random_path(seed: int, frames: int) -> np.ndarray:
    """A smooth random walk of both effectors, centimetres a frame."""
    rng = np.random.default_rng(seed)
    return np.cumsum(rng.normal(0, 0.01, (frames, 2, 3)), axis=0)


def paper_targets(effector_m, active, scale_m, P=200, L=16, K=4, still_m=0.01):
    """The appendix by hand: loops, explicit cosines, nothing shared with the package."""
    T = len(effector_m)
    phase = []
    for j in range(P):
        at = j * (T - 1) / (P - 1)
        low = min(math.floor(at), T - 2)
        phase.append(effector_m[low] + (at - low) * (effector_m[low + 1] - effector_m[low]))
    values, valid = [], []
    for t in range(T):
        p = round(t * (P - 1) / (T - 1))
        row, moved = [], 0.0
        if p + L <= P:
            for a in active:
                window = [phase[p + step][a] for step in range(L)]
                moved = max(
                    moved,
                    math.sqrt(sum((max(w[x] for w in window) - min(w[x] for w in window)) ** 2 for x in range(3))),
                )
                for k in range(K):
                    norm = math.sqrt((1 if k == 0 else 2) / L)
                    total = 0.0
                    for x in range(3):
                        total += (
                            sum(
                                norm
                                * math.cos(math.pi * (step + 0.5) * k / L)
                                * (window[step][x] - window[0][x])
                                / scale_m
                                for step in range(L)
                            )
                            ** 2
                        )
                    row.append(math.sqrt(total))
        else:
            row = [0.0] * (K * len(active))
        values.append(row)
        valid.append(p + L <= P and moved >= still_m)
    return np.array(values), np.array(valid)


@pytest.mark.parametrize("active", [(0,), (1,), (0, 1), (1, 0)])
@pytest.mark.parametrize("frames", [16, 57, 125, 200, 333])
def test_targets_equal_the_papers_formula_written_out_in_loops(frames, active):
    effector_m = random_path(frames, frames)
    values, valid = targets(effector_m, active, 0.07, IntentSpec())
    expected_values, expected_valid = paper_targets(effector_m, active, 0.07)
    assert values.shape == (frames, 4 * len(active))
    np.testing.assert_allclose(values, expected_values, atol=1e-6)
    np.testing.assert_array_equal(valid, expected_valid)
    assert valid.any()
    assert not valid.all()


def test_the_basis_is_orthonormal_and_starts_with_the_constant_row():
    basis = dct_basis(16, 16)
    np.testing.assert_allclose(basis @ basis.T, np.eye(16), atol=1e-12)
    np.testing.assert_allclose(basis[0], 1 / 4)


@given(seeds, lengths, st.tuples(*[st.floats(-10, 10)] * 3))
def test_intent_is_invariant_to_moving_the_path_elsewhere(seed, frames, shift):
    path = random_path(seed, frames)
    values, valid = targets(path, (0,), 0.1, IntentSpec())
    moved_values, moved_valid = targets(path + np.array(shift), (0,), 0.1, IntentSpec())
    np.testing.assert_allclose(moved_values, values, atol=1e-9)
    assert np.mean(moved_valid != valid) < 0.02  # only a window within rounding of the threshold may flip


@given(seeds, lengths)
def test_intent_is_invariant_to_rotating_the_future_path(seed, frames):
    path = random_path(seed, frames)
    turned = path @ Rotation.random(rng=np.random.default_rng(seed)).as_matrix().T
    np.testing.assert_allclose(
        targets(turned, (0, 1), 0.1, IntentSpec())[0], targets(path, (0, 1), 0.1, IntentSpec())[0], atol=1e-9
    )


@given(seeds, lengths, st.floats(0.01, 100))
def test_intent_grows_with_the_path_and_shrinks_with_the_scale(seed, frames, factor):
    path = random_path(seed, frames)
    values, _ = targets(path, (0,), 0.1, IntentSpec())
    np.testing.assert_allclose(
        targets(path * factor, (0,), 0.1, IntentSpec())[0], values * factor, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        targets(path * factor, (0,), 0.1 * factor, IntentSpec())[0], values, rtol=1e-9, atol=1e-12
    )


@given(seeds, lengths)
def test_the_inactive_arm_does_not_matter(seed, frames):
    path = random_path(seed, frames)
    busy = path.copy()
    busy[:, 1] = random_path(seed + 1, frames)[:, 0] * 50
    busy[::3, 1] = np.nan
    for ours, theirs in zip(
        targets(path, (0,), 0.1, IntentSpec()), targets(busy, (0,), 0.1, IntentSpec()), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@given(lengths)
def test_no_motion_has_zero_intent_and_no_valid_frame(frames):
    values, valid = targets(np.full((frames, 2, 3), 0.4), (0, 1), 0.1, IntentSpec())
    assert not values.any()
    assert not valid.any()


@given(st.integers(16, 5000))
@settings(max_examples=40)
def test_the_window_covers_eight_percent_of_any_episode(frames):
    path = np.zeros((frames, 1, 3))
    path[:, 0, 0] = np.linspace(0, 1, frames)  # position is the share of the episode that has passed
    windows = future_windows(path, (0,), IntentSpec())
    # 16 of 200 points, first to last: 15 of 199 steps, whatever the episode's length.
    np.testing.assert_allclose(windows.peak_to_peak_m[windows.fits], 15 / 199, atol=1e-9)
    # Frames up to phase point 184 (rounded) have a window that fits.
    assert windows.fits.mean() == pytest.approx(184.5 / 199, abs=2 / frames)


@given(lengths)
def test_frames_map_onto_the_phase_grid_in_order_from_first_to_last(frames):
    anchors = PhaseGrid().phase_index(frames)
    assert anchors[0] == 0
    assert anchors[-1] == 199
    assert (np.diff(anchors) >= 0).all()


@given(seeds, st.integers(16, 300))
@settings(max_examples=50)
def test_phase_resampling_agrees_with_numpys_own_interpolation(seed, frames):
    path = random_path(seed, frames)
    expected = np.interp(np.linspace(0, frames - 1, 200), np.arange(frames), path[:, 0, 2])
    np.testing.assert_allclose(PhaseGrid().resample(path)[:, 0, 2], expected, atol=1e-12)


@pytest.mark.parametrize("frames", [1, 2, 15])
def test_an_episode_shorter_than_the_window_has_no_valid_frame(frames):
    values, valid = targets(random_path(0, frames) * 100, (0,), 0.1, IntentSpec())
    assert values.shape == (frames, 4)
    assert not valid.any()
    assert np.isfinite(values).all()


@given(seeds, st.integers(60, 300), st.data())
@settings(max_examples=50)
def test_a_nan_frame_invalidates_exactly_the_windows_that_touch_it(seed, frames, data):
    lost = data.draw(st.integers(0, frames - 1))
    path = random_path(seed, frames)
    _, valid_before = targets(path, (0,), 0.1, IntentSpec())
    path[lost] = np.nan
    values, valid = targets(path, (0,), 0.1, IntentSpec())
    assert np.isfinite(values).all()
    spacing = (frames - 1) / 199
    for frame, anchor in enumerate(PhaseGrid().phase_index(frames)):
        first, last = anchor * spacing, (anchor + 15) * spacing
        if last < lost - 1 or first > lost + 1:
            assert valid[frame] == valid_before[frame]
        elif first <= lost <= last or frame == lost:
            assert not valid[frame]


def test_motion_of_exactly_the_threshold_is_not_stationary():
    along = np.zeros((201, 2, 3))
    along[:, 0, 0] = np.arange(201)
    per_window = PhaseGrid().resample(along)[15, 0, 0]  # metres the window of 16 points covers
    path = along * 0.01 / per_window * (1 + 1e-12)
    assert targets(path, (0,), 1.0, IntentSpec())[1].any()
    assert not targets(path * 0.999, (0,), 1.0, IntentSpec())[1].any()


def test_two_effectors_are_stationary_only_when_both_are():
    path = np.zeros((100, 2, 3))
    path[:, 1, 0] = np.linspace(0, 1, 100)
    assert not targets(path, (0,), 0.1, IntentSpec())[1].any()
    assert targets(path, (0, 1), 0.1, IntentSpec())[1].any()


@pytest.mark.parametrize("scale_m", [0.0, -1.0, math.nan, math.inf])
def test_a_scale_that_is_no_length_is_refused(scale_m):
    with pytest.raises(RecipeError, match="scale"):
        targets(random_path(0, 50), (0,), scale_m, IntentSpec())


@pytest.mark.parametrize("active", [(), (2,), (0, 0), (-1,)])
def test_active_effectors_that_do_not_exist_are_refused(active):
    with pytest.raises(EpisodeError, match="active"):
        targets(random_path(0, 50), active, 0.1, IntentSpec())


@pytest.mark.parametrize("wrong", [{"coefficients": 0}, {"coefficients": 17}, {"window": 300}, {"still_m": -1.0}])
def test_a_spec_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(RecipeError):
        IntentSpec(**wrong)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, frames=lengths, active=st.sampled_from([(0,), (1,), (0, 1)]))
def test_the_magnitudes_are_those_of_the_raw_trajectorys_spectrum(seed, frames, active):
    effector_m, spec = random_path(seed, frames), IntentSpec()
    raw = future_windows(effector_m, active, spec, "raw_trajectory")
    short = future_windows(effector_m, active, spec)
    assert raw.intent_m.shape == (frames, len(active) * spec.dimensions("raw_trajectory"))
    moved_TLAX = np.pad(raw.intent_m.reshape(frames, 15, len(active), 3), ((0, 0), (1, 0), (0, 0), (0, 0)))
    spectrum_TAKX = np.einsum("kl,tlax->takx", dct_basis(4, 16), moved_TLAX)
    np.testing.assert_allclose(np.linalg.norm(spectrum_TAKX, axis=-1).reshape(frames, -1), short.intent_m, atol=1e-9)
    np.testing.assert_array_equal(raw.valid, short.valid)


def test_a_raw_trajectory_knows_direction_and_magnitudes_do_not():
    there_m = random_path(0, 80)
    back_m = 2 * there_m[:1] - there_m
    raw, mirrored = (future_windows(path, (0,), IntentSpec(), "raw_trajectory") for path in (there_m, back_m))
    np.testing.assert_allclose(raw.intent_m, -mirrored.intent_m, atol=1e-12)
    short, same = (future_windows(path, (0,), IntentSpec()) for path in (there_m, back_m))
    np.testing.assert_allclose(short.intent_m, same.intent_m, atol=1e-12)
