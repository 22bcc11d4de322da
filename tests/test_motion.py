"""Cleaning hand tracks: what comes back when jumps, noise and gaps are added to a known truth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from egorecovery.errors import MotionError, RecipeError
from egorecovery.motion import (
    KeypointOrder,
    PinchTrack,
    Smoothing,
    aperture_01,
    bridge,
    clean_track,
    common_grid,
    motion_energy,
    nearest,
    resample_linear,
    resample_rotations,
    smooth,
    smooth_rotations,
    supported,
    trusted_frames,
)

IDENTITY = np.array([0.0, 0, 0, 1])


def clock(frames, rate_hz=25):
    return np.arange(frames) / rate_hz


def still_rotations(frames):
    return np.tile(IDENTITY, (frames, 1))


def angle_deg(ours, truth):
    return np.rad2deg((Rotation.from_quat(ours) * Rotation.from_quat(truth).inv()).magnitude())


def smooth_truth(times_s):
    """A hand sweeping at up to 0.5 m/s while its roll goes through +-pi and its pitch near gimbal lock."""
    wrist_m = np.stack([0.3 * np.sin(times_s), 0.2 * np.cos(1.3 * times_s), 0.1 * np.sin(0.7 * times_s + 1)], axis=1)
    angles = np.stack([np.pi + 0.8 * np.sin(times_s), 1.5 * np.sin(0.5 * times_s), 0.5 * times_s], axis=1)
    opening = 0.5 + 0.4 * np.sin(2 * times_s)
    return wrist_m, Rotation.from_euler("xyz", angles).as_quat(), opening


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_a_spoiled_hand_track_comes_back_within_8_mm_and_5_degrees(seed):
    rng = np.random.default_rng(seed)
    times_s = np.arange(240) / 30 + rng.uniform(-0.003, 0.003, 240)
    wrist_m, quaternions, opening = smooth_truth(times_s)
    seen_m = wrist_m + rng.normal(0, 0.002, wrist_m.shape)
    seen_q = (Rotation.from_rotvec(rng.normal(0, 0.015, (240, 3))) * Rotation.from_quat(quaternions)).as_quat()
    seen_opening = opening + rng.normal(0, 0.01, 240)
    for start in (20, 60, 100, 140):  # four excursions of 1-4 frames, 60-400 mm away
        length = rng.integers(1, 5)
        seen_m[start : start + length] += rng.choice([-1, 1], 3) * rng.uniform(0.06, 0.25, 3)
    for start in (80, 170):  # two orientation flips
        flip = Rotation.from_euler("z", rng.uniform(60, 170), degrees=True)
        seen_q[start : start + 2] = (flip * Rotation.from_quat(seen_q[start : start + 2])).as_quat()
    seen_m[200:205] = np.nan
    grid_s = np.arange(0.1, 7.8, 0.04)
    hand_to_pinch_m = np.array([0.1, 0.0, -0.02])
    closed = np.isin(np.arange(240), range(30, 45))
    pinch = PinchTrack(
        position_m=seen_m + hand_to_pinch_m,
        quaternions=np.where(closed[:, None], IDENTITY, seen_q),  # unknown there, and wrong
        axis_known=~closed,
    )
    track = clean_track(
        times_s=times_s,
        wrist_m=seen_m,
        quaternions=seen_q,
        aperture_01=seen_opening,
        pinch=pinch,
        usable=np.isfinite(seen_m).all(axis=1),
        grid_s=grid_s,
    )
    true_m, true_q, true_opening = smooth_truth(grid_s)
    error_mm = np.linalg.norm(track.wrist_m - true_m, axis=1) * 1000
    assert error_mm.max() < 8
    assert np.sqrt((error_mm**2).mean()) < 2.5
    assert angle_deg(track.quaternions, true_q).max() < 5
    assert np.abs(track.aperture_01 - true_opening).max() < 0.05
    assert track.reliable.mean() > 0.95
    assert np.linalg.norm(track.pinch_m - hand_to_pinch_m - true_m, axis=1).max() < 0.008
    assert angle_deg(track.pinch_quaternions, true_q).max() < 20  # half a second with closed fingers is a guess
    sure = (grid_s < 0.8) | (grid_s > 1.7)
    assert angle_deg(track.pinch_quaternions[sure], true_q[sure]).max() < 5


def test_a_long_excursion_to_a_wrong_place_is_left_out_whole():
    position_m = np.zeros((60, 3))
    position_m[:, 0] = np.linspace(0, 0.3, 60)
    position_m[20:35] += [0, 0.2, 0]  # comparing neighbours would keep frames 21..34
    trusted = trusted_frames(clock(60), position_m, still_rotations(60), np.ones(60, bool))
    np.testing.assert_array_equal(np.flatnonzero(~trusted), np.arange(20, 35))


@pytest.mark.parametrize(("step_mm", "kept"), [(29.9, True), (30.1, False)])
def test_the_position_limit_is_30_mm_from_frame_to_frame(step_mm, kept):
    position_m = np.zeros((21, 3))
    position_m[10, 1] = step_mm / 1000
    trusted = trusted_frames(clock(21), position_m, still_rotations(21), np.ones(21, bool))
    assert trusted[10] == kept
    assert np.delete(trusted, 10).all()


@pytest.mark.parametrize(("step_deg", "kept"), [(19.9, True), (20.1, False)])
def test_the_rotation_limit_is_20_degrees_from_frame_to_frame(step_deg, kept):
    quaternions = still_rotations(21)
    quaternions[10] = Rotation.from_euler("y", step_deg, degrees=True).as_quat()
    trusted = trusted_frames(clock(21), np.zeros((21, 3)), quaternions, np.ones(21, bool))
    assert trusted[10] == kept


@given(st.integers(0, 10_000), st.integers(2, 80))
@settings(max_examples=50)
def test_a_track_without_jumps_is_trusted_throughout_and_bridging_it_changes_nothing(seed, frames):
    rng = np.random.default_rng(seed)
    position_m = np.cumsum(rng.uniform(-0.015, 0.015, (frames, 3)), axis=0)
    trusted = trusted_frames(clock(frames), position_m, still_rotations(frames), np.ones(frames, bool))
    assert trusted.all()
    np.testing.assert_allclose(bridge(np.arange(frames) / 25, position_m, trusted), position_m, atol=1e-15)


def test_bridging_is_linear_inside_and_holds_the_nearest_value_at_the_ends():
    times_s = np.arange(6) / 25
    values = np.array([[99.0], [1.0], [99.0], [99.0], [4.0], [99.0]])
    bridged = bridge(times_s, values, np.array([False, True, False, False, True, False]))
    np.testing.assert_allclose(bridged[:, 0], [1, 1, 2, 3, 4, 4])


def test_a_track_with_nothing_to_trust_is_an_error_that_says_so():
    with pytest.raises(MotionError, match="no frame of the track can be trusted"):
        bridge(np.arange(3.0), np.full((3, 1), np.nan), np.zeros(3, bool))
    assert not trusted_frames(clock(3), np.full((3, 3), np.nan), still_rotations(3), np.ones(3, bool)).any()


def reach(rate_hz, distance_m, seconds):
    """At rest, a minimum-jerk reach, at rest."""
    along = np.clip((clock(int(3 * rate_hz), rate_hz) - 1) / seconds, 0, 1)
    path = np.zeros((len(along), 3))
    path[:, 0] = distance_m * along**3 * (10 - 15 * along + 6 * along**2)
    return path


@pytest.mark.parametrize(
    ("rate_hz", "distance_m", "seconds"), [(15, 0.2, 0.6), (25, 0.4, 0.7), (30, 0.4, 0.6), (60, 0.5, 0.4)]
)
def test_a_brisk_reach_is_trusted_throughout_though_it_exceeds_30_mm_a_frame(rate_hz, distance_m, seconds):
    path = reach(rate_hz, distance_m, seconds)
    assert np.linalg.norm(np.diff(path, axis=0), axis=1).max() > 0.03
    assert trusted_frames(clock(len(path), rate_hz), path, still_rotations(len(path)), np.ones(len(path), bool)).all()


def test_a_brisk_turn_is_trusted_throughout():
    angle_rad = reach(25, np.pi / 2, 0.3)[:, 0]
    quaternions = Rotation.from_euler("z", angle_rad[:, None]).as_quat()
    frames = len(angle_rad)
    assert trusted_frames(clock(frames), np.zeros((frames, 3)), quaternions, np.ones(frames, bool)).all()


def test_excursions_are_found_in_the_middle_of_a_brisk_reach_and_little_else_is_lost():
    """Of 3,000 such tracks 2 keep part of an excursion: a few wrong frames may be within reach after a gap."""
    kept_in_part = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        path = reach(25, 0.35, 0.6) + rng.normal(0, 0.001, (75, 3))
        start, length = int(rng.integers(10, 60)), int(rng.integers(1, 6))
        way = rng.normal(0, 1, 3)
        path[start : start + length] += rng.uniform(0.08, 0.15) * way / np.linalg.norm(way)
        trusted = trusted_frames(clock(75), path, still_rotations(75), np.ones(75, bool))
        kept_in_part += trusted[start : start + length].any()
        assert np.delete(trusted, range(start, start + length)).sum() >= 75 - length - 8
    assert kept_in_part <= 1


def test_rows_that_a_tracker_left_out_are_time_all_the_same():
    position_m = np.zeros((40, 3))
    position_m[20:, 0] = 0.15  # 150 mm away after ten rows that were never written: a hand's pace
    times_s = np.concatenate([clock(20), clock(20) + 1.2])
    assert trusted_frames(times_s, position_m, still_rotations(40), np.ones(40, bool)).all()


def test_long_bridges_left_out_rows_and_the_untracked_ends_rest_on_no_evidence():
    known = np.ones(60, bool)
    known[[0, 10, 11, 59]] = False  # ends, and a gap bridged over 0.12 s
    known[20:28] = False  # a gap bridged over 0.36 s
    grid_s = clock(60)
    unsupported = np.flatnonzero(~supported(grid_s[known], grid_s, 0.2))
    np.testing.assert_array_equal(unsupported, [0, *range(20, 28), 59])
    assert not supported(np.zeros(0), grid_s, 0.2).any()


def test_smoothing_keeps_parabolas_and_removes_spikes():
    times = np.arange(50.0)[:, None]
    parabola = 0.01 * times**2 - 0.3 * times
    np.testing.assert_allclose(smooth(parabola)[6:-6], parabola[6:-6], atol=0.15)
    spiked = parabola.copy()
    spiked[25] += 100
    np.testing.assert_allclose(smooth(spiked)[6:-6], parabola[6:-6], atol=0.3)


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 8])
def test_tracks_shorter_than_the_filters_are_smoothed_with_what_fits(frames):
    values = np.random.default_rng(0).normal(size=(frames, 2))
    assert smooth(values).shape == values.shape
    assert np.isfinite(smooth(values)).all()


@given(st.integers(0, 1000))
@settings(max_examples=30)
def test_rotations_smoothed_across_plus_minus_pi_stay_on_their_side(seed):
    rng = np.random.default_rng(seed)
    roll = np.pi + np.linspace(-0.5, 0.5, 60)  # wraps from +pi to -pi half way
    truth = Rotation.from_euler("xyz", np.stack([roll, np.zeros(60), np.zeros(60)], axis=1)).as_quat()
    noisy = (Rotation.from_rotvec(rng.normal(0, 0.02, (60, 3))) * Rotation.from_quat(truth)).as_quat()
    noisy *= rng.choice([-1, 1], (60, 1))  # q and -q are one orientation; trackers give either
    error = angle_deg(smooth_rotations(noisy), truth)
    assert error[6:-6].max() < 4
    assert error.max() < 6  # at the ends the filters see one side only; the noise itself reaches 5.7 in these seeds
    wrapped = Rotation.from_quat(smooth_rotations(noisy)).as_euler("xyz")[:, 0]
    assert (np.abs(wrapped) <= np.pi).all()
    assert (np.abs(wrapped) > np.pi - 0.65).all()  # a naive mean of +pi and -pi would be 0


def test_rotations_resampled_across_plus_minus_pi_take_the_short_way():
    quaternions = Rotation.from_euler("x", [[170], [-170]], degrees=True).as_quat()
    middle = resample_rotations(np.array([0.0, 1.0]), quaternions, np.array([0.5]))
    assert Rotation.from_quat(middle).magnitude()[0] == pytest.approx(np.pi)


def test_resampling_onto_the_original_times_changes_nothing(rng):
    times_s = np.sort(rng.uniform(0, 5, 40))
    values = rng.normal(size=(40, 2, 3))
    np.testing.assert_allclose(resample_linear(times_s, values, times_s), values, atol=1e-12)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30, unique=True), st.lists(st.floats(-1, 11), min_size=1))
def test_the_nearest_frame_is_the_nearest_by_brute_force(times, grid):
    times_s, grid_s = np.sort(times), np.array(grid)
    chosen = nearest(times_s, grid_s)
    np.testing.assert_allclose(np.abs(times_s[chosen] - grid_s), np.abs(times_s[None] - grid_s[:, None]).min(axis=1))


def test_the_common_grid_lies_where_all_streams_run():
    grid_s = common_grid([np.array([0.1, 5.0]), np.array([0.0, 4.5])], 25.0)
    assert grid_s[0] == 0.1
    assert 4.5 - 0.04 < grid_s[-1] <= 4.5
    np.testing.assert_allclose(np.diff(grid_s), 0.04)


def test_streams_that_do_not_overlap_are_refused():
    with pytest.raises(MotionError, match="do not overlap"):
        common_grid([np.array([0.0, 1.0]), np.array([2.0, 3.0])], 25.0)


@pytest.mark.parametrize(("distance_m", "expected"), [(0.0, 0.0), (0.03, 0.0), (0.055, 0.5), (0.08, 1.0), (0.2, 1.0)])
@pytest.mark.parametrize("order", KeypointOrder)
def test_aperture_maps_3_to_8_cm_onto_0_to_1_and_clips(order, distance_m, expected):
    keypoints_m = np.full((1, 21, 3), 7.0)
    keypoints_m[0, order.thumb_tip] = [0, 0, 0]
    keypoints_m[0, order.index_tip] = [0, distance_m, 0]
    assert aperture_01(keypoints_m, order)[0] == pytest.approx(expected)


def test_motion_energy_is_the_squared_speed():
    path = np.zeros((100, 1, 3))
    path[:, 0, 0] = np.arange(100) * 0.02  # 0.5 m/s at 25 Hz
    np.testing.assert_allclose(motion_energy(path, 25.0), 0.25, rtol=1e-9)
    assert motion_energy(path[:1], 25.0).tolist() == [0.0]


def test_smoothing_windows_must_be_odd():
    with pytest.raises(RecipeError, match="odd"):
        Smoothing(median=4)
