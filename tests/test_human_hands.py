"""The human embodiment: hands that pinch as wanted, a person who does what the scripts say, a rig that records it."""

from dataclasses import replace

import numpy as np
import pytest

from egorecovery.capture import to_episode
from egorecovery.episodes import RATE_HZ, Camera, Provenance, Side, Source, check_episode
from egorecovery.motion import KeypointOrder
from egorecovery.workcell.grip import held, held_by
from egorecovery.workcell.hand import FINGERS, PINCH_M, WIDEST_M, hand_keypoints_m
from egorecovery.workcell.human_hands import HumanHands, Manner, human_cell
from egorecovery.workcell.human_recording import CameraClock, Film, HandTracker, human_recording
from egorecovery.workcell.kinematics import ToolPose, pointing_down
from egorecovery.workcell.maneuver import Reach, Waypoint
from egorecovery.workcell.physics import mujoco
from egorecovery.workcell.render import Cameras
from egorecovery.workcell.tasks.cube_stack import ARM, CUBE_M, GREEN, HALF_M, YELLOW, CubeStack
from egorecovery.workcell.trajectory import PERSON

THUMB_TIP, INDEX_TIP = KeypointOrder.MANO.thumb_tip, KeypointOrder.MANO.index_tip
PERFECT = HandTracker(
    noise_m=0.0,
    point_noise_m=0.0,
    noise_rad=0.0,
    drift_m=0.0,
    drift_rad=0.0,
    jumps_per_s=0.0,
    dropouts_per_s=0.0,
)
STEADY = replace(PERSON, tremor_m=0.0, hesitation=0.0)


@pytest.fixture(scope="module")
def model():
    return human_cell(CubeStack())


@pytest.fixture
def person(model):
    return HumanHands(model, CubeStack(), STEADY)


def ignore(*_):
    pass


def stage_cube(person, yaw_rad=0.0, off_m=0.0):
    """The yellow cube on the table, the open right hand about it."""
    person.place(ARM, ToolPose(np.array([0.02, -0.08, HALF_M]), pointing_down(yaw_rad)), 1.0)
    across = person.tool(ARM).rotation.as_matrix()[:, 1]
    turn = np.array([np.cos(yaw_rad / 2), 0.0, 0.0, np.sin(yaw_rad / 2)])
    person.put(YELLOW, person.tool(ARM).position_m + off_m * across, turn)
    person.put(GREEN, [0.05, 0.1, HALF_M])


def move(person, rng, *, up_m=0.0, opening_01, holds_m=0.0):
    here = person.tool(ARM)
    pose = ToolPose(here.position_m + [0.0, 0.0, up_m], here.rotation)
    reach = Reach(pose=pose, opening_01=opening_01, holds_m=holds_m)
    person.demonstrate(iter([Waypoint(reaches={ARM: reach}, straight=True, wait_s=0.08)]), rng, ignore, ignore)


def pinch(person, side):
    seen = person.seen().keypoints_m[side.effector]
    return (seen[THUMB_TIP] + seen[INDEX_TIP]) / 2, seen[THUMB_TIP] - seen[INDEX_TIP]


def deepest_m(person, side, geom):
    hand = [i for i in range(person.model.ngeom) if person.model.geom(i).name.startswith(f"{side}/hand/")]
    return min(mujoco.mj_geomDistance(person.model, person.data, part, geom, 0.1, None) for part in hand)


def demonstrate(person, kind, seed, on_tick=ignore):
    rng, scene = np.random.default_rng(seed), person.scene
    start = scene.draw_initial(rng) if kind == "nominal" else scene.draw_failure(rng, kind)
    person.reset(Manner.draw(rng))
    scene.stage(person, start)
    script = scene.succeed(person, rng) if kind == "nominal" else scene.recover(person, rng)
    person.demonstrate(script, rng, on_tick, ignore)


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("width_m", [0.0, 0.015, 0.04, WIDEST_M])
def test_thumb_and_index_tip_lie_the_wanted_width_apart_about_the_pinch_point(side, width_m):
    points_m = hand_keypoints_m(side, width_m)
    np.testing.assert_allclose(np.linalg.norm(points_m[THUMB_TIP] - points_m[INDEX_TIP]), width_m, atol=1e-9)
    np.testing.assert_allclose((points_m[THUMB_TIP] + points_m[INDEX_TIP]) / 2, PINCH_M, atol=1e-9)


def test_bones_keep_their_length_however_far_the_hand_opens():
    for finger in FINGERS:
        chain = [*finger.joints, finger.tip]
        for width_m in (0.0, 0.03, WIDEST_M):
            points_m = hand_keypoints_m(Side.RIGHT, width_m)[chain]
            bones_m = np.linalg.norm(np.diff(points_m, axis=0), axis=1)
            np.testing.assert_allclose(bones_m, finger.bones_m, atol=1e-5)


def test_the_left_hand_is_the_right_one_in_a_mirror():
    left_m, right_m = (hand_keypoints_m(side, 0.04) for side in Side)
    np.testing.assert_array_equal(left_m, right_m * [1.0, -1.0, 1.0])


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("angles", [{}, {"yaw_rad": 0.7}, {"tilt_rad": 1.5}, {"tilt_rad": -0.4, "roll_rad": 0.5}])
def test_the_pinch_is_where_the_tool_should_be_and_opens_along_its_y_axis(person, side, angles):
    tool = ToolPose(np.array([0.03, 0.02, 0.15]), pointing_down(**angles))
    person.place(side, tool, 0.5)
    middle_m, across_m = pinch(person, side)
    np.testing.assert_allclose(middle_m, tool.position_m, atol=1e-9)
    np.testing.assert_allclose(np.abs(across_m @ tool.rotation.as_matrix()), [0.0, 0.04, 0.0], atol=1e-9)


def test_the_wrist_is_nearer_to_the_person_and_higher_than_the_pinch(person):
    person.place(ARM, ToolPose(np.array([0.03, 0.02, 0.05]), pointing_down()), 0.5)
    wrist_m = person.seen().keypoints_m[ARM.effector, 0]
    assert wrist_m[0] < -0.04
    assert wrist_m[2] > 0.07


def test_hands_touch_nothing(model):
    hand = [i for i in range(model.ngeom) if model.geom(i).name.split("/")[0] in set(Side)]
    assert len(hand) > 40
    assert not model.geom_contype[hand].any()
    assert not model.geom_conaffinity[hand].any()


def test_closing_on_a_cube_holds_it_lifting_carries_it_and_opening_lets_go(person, rng):
    stage_cube(person)
    move(person, rng, opening_01=0.0, holds_m=CUBE_M)
    assert held(person.model, person.data, YELLOW)
    assert not held_by(person.model, person.data, YELLOW, ARM.LEFT)
    assert not held(person.model, person.data, GREEN)
    move(person, rng, up_m=0.1, opening_01=0.0, holds_m=CUBE_M)
    np.testing.assert_allclose(person.facts().yellow.position_m, person.tool(ARM).position_m, atol=1e-3)
    move(person, rng, opening_01=0.9)
    person.settle(0.3)
    assert not held(person.model, person.data, YELLOW)
    assert person.facts().yellow.position_m[2] < HALF_M + 0.002


def test_closing_beside_a_cube_holds_nothing(person, rng):
    stage_cube(person, off_m=0.06)
    move(person, rng, opening_01=0.0, holds_m=CUBE_M)
    assert not held(person.model, person.data, YELLOW)


@pytest.mark.parametrize("off_m", [-0.004, 0.0, 0.004])
def test_fingers_close_to_the_width_of_what_they_hold_and_not_into_it(person, rng, off_m):
    stage_cube(person, yaw_rad=0.3, off_m=off_m)
    move(person, rng, opening_01=0.0, holds_m=CUBE_M)
    move(person, rng, up_m=0.02, opening_01=0.0, holds_m=CUBE_M)
    np.testing.assert_allclose(np.linalg.norm(pinch(person, ARM)[1]), CUBE_M, atol=1e-9)
    assert deepest_m(person, ARM, int(person.model.body(YELLOW).geomadr[0])) > -0.001
    assert deepest_m(person, ARM, person.model.geom("table").id) > 0.002


def test_fingers_never_narrow_below_the_object_while_they_let_go(person, rng):
    stage_cube(person)
    move(person, rng, opening_01=0.0, holds_m=CUBE_M)
    widths_m = []
    reach = Reach(pose=person.tool(ARM), opening_01=1.0)
    person.demonstrate(
        iter([Waypoint(reaches={ARM: reach})]),
        rng,
        lambda seen: widths_m.append(np.linalg.norm(np.subtract(*seen.keypoints_m[1, [THUMB_TIP, INDEX_TIP]]))),
        ignore,
    )
    assert min(widths_m) >= CUBE_M - 1e-9


def test_a_staged_hold_is_a_hold(person, rng):
    scene = person.scene
    start = scene.draw_failure(rng, "held")
    scene.stage(person, start)
    assert scene.invalid_reason(person.facts(), start) is None


@pytest.mark.parametrize("kind", ["nominal", "held", "fallen"])
def test_a_person_stacks_the_cubes_and_they_stay_stacked(model, kind):
    person = HumanHands(model, CubeStack())
    for seed in range(3):
        demonstrate(person, kind, seed)
        assert person.scene.goal(person.facts())
        person.settle(3.0)
        assert person.scene.goal(person.facts())


def test_the_wrist_never_moves_fast_enough_to_look_like_a_jump(model):
    wrists_m = []
    demonstrate(HumanHands(model, CubeStack()), "nominal", 5, lambda seen: wrists_m.append(seen.keypoints_m[:, 0]))
    assert np.linalg.norm(np.diff(wrists_m, axis=0), axis=-1).max() * RATE_HZ < 0.85


def test_the_same_seed_moves_the_hands_alike_whatever_was_done_before(model):
    person, paths_m = HumanHands(model, CubeStack()), []
    for _ in range(2):
        path_m = []
        demonstrate(person, "fallen", 3, lambda seen, path_m=path_m: path_m.append(seen.keypoints_m))
        paths_m.append(np.array(path_m))
        demonstrate(person, "held", 1)
    np.testing.assert_array_equal(*paths_m)


@pytest.fixture(scope="module")
def film(model):
    person, rng = HumanHands(model, CubeStack()), np.random.default_rng(2)
    person.reset(Manner.draw(rng))
    person.scene.stage(person, person.scene.draw_failure(rng, "fallen"))
    with Cameras(model, 32) as cameras:
        film = Film(person, cameras, depth=True)
        film.shoot(person.scene.recover(person, rng), rng)
    return film


def record(film, seed, **how):
    return human_recording(
        film,
        "human-0",
        task=CubeStack.task,
        source=Source.HUMAN_RECOVERY,
        provenance=Provenance(operator="test", started_at="2026-01-01T09:00:00Z", stopped_at="2026-01-01T09:00:05Z"),
        rng=np.random.default_rng(seed),
        **how,
    )


def test_a_recording_passes_the_pipeline_and_the_checks_of_a_real_one(film):
    episode = to_episode(record(film, 0))
    assert check_episode(episode) == ()
    assert 0 < film.boundary_s < film.duration_s < 6.0
    for stream in episode.cameras.values():
        assert stream.depth_mm is not None
        assert stream.depth_mm.max() > 0


def test_the_same_seed_gives_the_same_recording(film):
    once, again = record(film, 4), record(film, 4)
    np.testing.assert_array_equal(once.motion.keypoints_m, again.motion.keypoints_m)
    for camera in Camera:
        np.testing.assert_array_equal(once.cameras[camera].timestamps_s, again.cameras[camera].timestamps_s)


def test_every_stream_has_a_clock_of_its_own(film):
    recording = record(film, 0)
    clocks_s = [raw.timestamps_s for raw in recording.cameras.values()]
    for clock_s in clocks_s:
        np.testing.assert_allclose(clock_s, film.ticks_s, atol=CameraClock().delay_s + CameraClock().jitter_s)
        assert np.ptp(np.diff(clock_s)) > 1e-4
    assert not np.array_equal(clocks_s[0], clocks_s[1])
    np.testing.assert_allclose(np.diff(recording.motion.timestamps_s).mean(), 1 / 30, rtol=0.01)


def test_a_perfect_tracker_sees_the_hands_as_they_are(film):
    hands = record(film, 0, tracker=PERFECT).motion
    widths_m = np.linalg.norm(hands.keypoints_m[:, :, THUMB_TIP] - hands.keypoints_m[:, :, INDEX_TIP], axis=-1)
    assert widths_m[:, 1].min() == pytest.approx(CUBE_M, abs=2e-4)  # interpolated between ticks
    from_wrist_m = hands.keypoints_m[:, 1] - hands.keypoints_m[:, 1, :1]
    knuckle_m = np.einsum("nji,nj->ni", hands.wrist_rotation[:, 1], from_wrist_m[:, 1])
    np.testing.assert_allclose(knuckle_m, np.broadcast_to(knuckle_m[0], knuckle_m.shape), atol=1e-3)


def test_a_lost_hand_is_nan_and_not_believed(film):
    hands = record(film, 0, tracker=replace(PERFECT, dropouts_per_s=3.0)).motion
    lost = np.isnan(hands.keypoints_m).any(axis=(2, 3))
    assert lost.any()
    assert np.isnan(hands.wrist_rotation[lost]).all()
    assert hands.confidence[lost].max() < 0.5 < hands.confidence[~lost].min()


def test_jumps_are_excursions_of_40_to_150_mm(film):
    hands = record(film, 0, tracker=replace(PERFECT, jumps_per_s=1.0, jump_samples=(1, 1))).motion
    truth = record(film, 0, tracker=PERFECT).motion
    # Both recordings draw the same clocks, so their samples belong together.
    np.testing.assert_array_equal(hands.timestamps_s, truth.timestamps_s)
    off_m = np.linalg.norm(hands.keypoints_m - truth.keypoints_m, axis=-1)[:, :, 0]
    jumped = off_m > 1e-6
    assert 0 < jumped.mean() < 0.2
    assert off_m[jumped].min() >= 0.04 - 1e-9
    assert off_m[jumped].max() <= 0.15 + 1e-9
