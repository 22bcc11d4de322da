"""The workcell's cell: arms that reach, grip and are stopped by what is there; cameras that see it."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from egorecovery.episodes import Camera, Side
from egorecovery.errors import EgoRecoveryError, KinematicsError, RecipeError
from egorecovery.workcell.arena import add_nothing, build_arena
from egorecovery.workcell.arm import WRIST_CAMERA, add_wrist_camera
from egorecovery.workcell.kinematics import HOME, ArmKinematics, ToolPose, effector_poses, home_rad, pointing_down
from egorecovery.workcell.physics import PhysicsDiverged, mujoco
from egorecovery.workcell.render import Cameras
from egorecovery.workcell.robot import HIGHEST_TARGET, LOWEST_TARGET, SUBSTEPS, ActionRefused, RobotCell, clip_target

HALF_CUBE_M = 0.02
YELLOW = (0.95, 0.8, 0.1, 1.0)


def add_cube(spec):
    cube = spec.worldbody.add_body(name="cube", pos=(0, 0, HALF_CUBE_M))
    cube.add_freejoint(name="cube")
    cube.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=(HALF_CUBE_M,) * 3, rgba=YELLOW, mass=0.05)


@pytest.fixture(scope="module")
def model():
    return build_arena(add_cube)


@pytest.fixture
def robot(model):
    return RobotCell(model)


@pytest.fixture(scope="module")
def arms():
    return {side: ArmKinematics(side) for side in Side}


def down_at(x_m, y_m, z_m, **angles_rad):
    return ToolPose(np.array([x_m, y_m, z_m]), pointing_down(**angles_rad))


def place_cube(robot, x_m, y_m, yaw_rad):
    address = robot.model.joint("cube").qposadr[0]
    robot.data.qpos[address : address + 3] = x_m, y_m, HALF_CUBE_M
    robot.data.qpos[address + 3 : address + 7] = np.cos(yaw_rad / 2), 0, 0, np.sin(yaw_rad / 2)
    robot.refresh()


def move(robot, arm, goal, steps, opening):
    """Straight to a pose along warm-started solutions."""
    part = slice(7 * arm.side.effector, 7 * arm.side.effector + 6)
    command = robot.target()
    start_m = arm.tool_pose(command[part]).position_m
    for step in range(1, steps + 1):
        here_m = start_m + (goal.position_m - start_m) * step / steps
        found = arm.solve(ToolPose(here_m, goal.rotation), command[part])
        assert found.reached()
        command[part], command[part.stop] = found.joints_rad, opening
        robot.step(command)


def cube_in_tool_m(robot, side):
    offset_m = robot.data.body("cube").xpos - robot.effector_m()[side.effector]
    return robot.effector_rotation()[side.effector].T @ offset_m


def deepest_contact_m(robot):
    return min((contact.dist for contact in robot.data.contact), default=0.0)


def test_home_holds_both_tools_over_the_table_pointing_down():
    tools_m, axes = effector_poses(HOME)
    np.testing.assert_allclose(tools_m, [[-0.13, 0.14, 0.15], [-0.13, -0.14, 0.15]], atol=1e-3)
    np.testing.assert_allclose(axes[:, :, 2], [[0, 0, -1]] * 2, atol=1e-3)


def test_a_still_robot_stays_at_home(robot):
    for _ in range(25):
        robot.step(HOME)
    np.testing.assert_allclose(robot.proprioception(), HOME, atol=1e-3)


def test_forward_kinematics_agrees_with_the_simulated_tools(robot):
    rng = np.random.default_rng(0)
    joints = rng.uniform(LOWEST_TARGET, HIGHEST_TARGET, (10, 14))
    tools_m, axes = effector_poses(joints)
    assert tools_m.shape == (10, 2, 3)
    assert axes.shape == (10, 2, 3, 3)
    for frame, vector in enumerate(joints):
        robot.place(vector)
        np.testing.assert_allclose(robot.effector_m(), tools_m[frame], atol=1e-9)
        np.testing.assert_allclose(robot.effector_rotation(), axes[frame], atol=1e-9)


def test_forward_kinematics_refuses_vectors_of_another_length():
    with pytest.raises(KinematicsError, match="14 numbers"):
        effector_poses(np.zeros((5, 12)))


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("yaw_rad", [-0.7, 0.0, 0.7])
def test_top_down_grasps_reach_the_whole_shared_workspace(arms, side, yaw_rad):
    towards = 1 if side is Side.LEFT else -1
    for x_m in (-0.12, 0.0, 0.12):
        for y_m in (0.0, 0.1, 0.2):
            for z_m in (0.015, 0.2):
                found = arms[side].find(down_at(x_m, towards * y_m, z_m, yaw_rad=yaw_rad))
                assert found.reached(), (x_m, y_m, z_m, found)


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("tilt_rad", [-0.5, 0.5, 1.0, 1.5])
def test_the_hand_tilts_and_reaches_sideways_in_the_middle(arms, side, tilt_rad):
    y_m = 0.1 if side is Side.LEFT else -0.1
    assert arms[side].find(down_at(0.0, y_m, 0.12, tilt_rad=tilt_rad)).reached()


def test_inverse_kinematics_undoes_forward_kinematics(arms):
    rng = np.random.default_rng(3)
    arm = arms[Side.LEFT]
    for _ in range(20):
        joints_rad = home_rad(Side.LEFT) + rng.uniform(-0.3, 0.3, 6)
        wanted = arm.tool_pose(joints_rad)
        found = arm.tool_pose(arm.solve(wanted, home_rad(Side.LEFT)).joints_rad)
        np.testing.assert_allclose(found.position_m, wanted.position_m, atol=2e-5)
        assert (found.rotation.inv() * wanted.rotation).magnitude() < 2e-4


def test_inverse_kinematics_reports_what_it_cannot_reach(arms):
    found = arms[Side.LEFT].find(down_at(0.6, 0.0, 0.1))
    assert not found.reached()
    assert found.position_error_m > 0.1


def test_pointing_down_tilts_forward_until_it_is_horizontal():
    np.testing.assert_allclose(pointing_down(tilt_rad=np.pi / 2).apply([0, 0, 1]), [1, 0, 0], atol=1e-9)
    turned = pointing_down(yaw_rad=0.3) * pointing_down().inv()
    np.testing.assert_allclose(turned.as_rotvec(), Rotation.from_euler("z", 0.3).as_rotvec(), atol=1e-9)


@pytest.mark.parametrize("side", Side)
def test_a_cube_picked_at_any_yaw_is_held_without_slipping(robot, arms, side):
    rng = np.random.default_rng(side.effector)
    for _ in range(3):
        robot.reset()
        x_m, y_m = rng.uniform(-0.08, 0.1), rng.uniform(0.0, 0.12) * (1 if side is Side.LEFT else -1)
        yaw_rad = rng.uniform(-np.pi / 4, np.pi / 4)
        place_cube(robot, x_m, y_m, yaw_rad)
        above, at = (down_at(x_m, y_m, z_m, yaw_rad=yaw_rad) for z_m in (0.14, HALF_CUBE_M))
        for goal, steps, opening in ((above, 25, 1), (at, 20, 1), (at, 15, 0), (above, 20, 0), (above, 10, 0)):
            move(robot, arms[side], goal, steps, opening)
        held_m = cube_in_tool_m(robot, side)
        move(robot, arms[side], above, 75, 0)
        assert robot.data.body("cube").xpos[2] > 0.12
        assert np.linalg.norm(cube_in_tool_m(robot, side) - held_m) < 3e-4  # 1 mm in 10 s


def test_the_table_stops_an_arm_that_is_sent_through_it(robot, arms):
    through = HOME.copy()
    through[:6] = arms[Side.LEFT].find(down_at(-0.1, 0.15, -0.1)).joints_rad
    for _ in range(50):
        robot.step(through)
        assert deepest_contact_m(robot) > -0.003
    assert robot.effector_m()[0, 2] > 0.005


def test_arms_sent_through_each_other_stop_at_each_other(robot, arms):
    crossed = HOME.copy()
    crossed[:6] = arms[Side.LEFT].find(down_at(0.0, -0.1, 0.12)).joints_rad
    crossed[7:13] = arms[Side.RIGHT].find(down_at(0.0, 0.1, 0.12)).joints_rad
    for step in range(75):
        robot.step(HOME + (crossed - HOME) * min(1.0, (step + 1) / 25))
        assert deepest_contact_m(robot) > -0.003
    assert robot.effector_m()[0, 1] > 0 > robot.effector_m()[1, 1]


def test_targets_beyond_the_limits_are_clipped(robot):
    for _ in range(100):
        robot.step(np.full(14, 9.0))
    assert (robot.target() <= HIGHEST_TARGET).all()
    assert (robot.proprioception() <= HIGHEST_TARGET + 0.02).all()


@pytest.mark.parametrize("action", [np.full(14, np.nan), np.zeros(13)])
def test_an_action_that_is_no_joint_vector_is_refused(robot, action):
    with pytest.raises(ActionRefused, match="14 finite numbers"):
        robot.step(action)


def test_a_control_step_is_a_ramp_of_plain_physics_steps_to_the_last_bit(robot, model):
    plain = mujoco.MjData(model)
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    for action in HOME + np.random.default_rng(6).normal(0, 0.02, (10, 14)):
        mujoco.mj_setState(model, plain, robot.save().integration, kind)
        start, goal = robot.target(), clip_target(action)
        robot.step(action)
        for substep in range(1, SUBSTEPS + 1):
            plain.ctrl[:] = start + (goal - start) * (substep / SUBSTEPS)
            mujoco.mj_step(model, plain)
        assert np.array_equal(plain.qpos, robot.data.qpos)
        assert np.array_equal(plain.qvel, robot.data.qvel)


def test_a_restored_run_continues_to_the_same_bits(robot, model):
    rng = np.random.default_rng(5)
    actions = HOME + rng.normal(0, 0.05, (40, 14))
    for action in actions[:20]:
        robot.step(action)
    saved, seen_m = robot.save(), robot.effector_m()
    for action in actions[20:]:
        robot.step(action)
    other = RobotCell(model)
    other.restore(saved)
    assert np.array_equal(other.effector_m(), seen_m)
    for action in actions[20:]:
        other.step(action)
    assert np.array_equal(other.save().integration, robot.save().integration)


def test_a_state_of_another_scene_is_not_restored(robot):
    with pytest.raises(EgoRecoveryError, match="saved from"):
        robot.restore(RobotCell(build_arena()).save())


def test_an_impossible_speed_is_reported_with_its_joint(robot):
    robot.data.qvel[robot.model.joint("cube").dofadr[0]] = 1e6
    robot.refresh()
    with pytest.raises(PhysicsDiverged, match="cube"):
        robot.step(HOME)


def test_numbers_that_are_none_are_reported_and_leave_no_log_file(robot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    robot.data.qvel[robot.model.joint("cube").dofadr[0]] = np.nan
    robot.refresh()
    with pytest.raises(PhysicsDiverged, match="diverged at t="):
        robot.step(HOME)
    assert not list(tmp_path.iterdir())


def test_a_cube_spans_ten_pixels_of_the_head_view(robot):
    with Cameras(robot.model, 96) as cameras:
        image = cameras.render(robot.data, Camera.HEAD).astype(int)
    yellow = (image[..., 0] > 90) & (image[..., 0] > 2 * image[..., 2])
    columns = np.flatnonzero(yellow.any(axis=0))
    assert np.ptp(columns) + 1 >= 10
    assert abs(columns.mean() - 47.5) < 2


def test_all_views_at_once_are_the_views_one_by_one(robot):
    with Cameras(robot.model, 96) as cameras:
        together = cameras.render_all(robot.data)
        for camera in Camera:
            assert together[camera].shape == (96, 96, 3)
            assert np.array_equal(together[camera], cameras.render(robot.data, camera))


def test_depth_is_the_distance_to_the_table_in_millimetres(robot):
    place_cube(robot, 0.3, 0.3, 0.0)
    with Cameras(robot.model, 96) as cameras:
        depth_mm = cameras.depth_mm(robot.data, Camera.HEAD)
        focal_px = cameras.intrinsics(Camera.HEAD).fy
    camera_m = robot.data.cam_xpos[robot.model.camera("head").id]
    gaze = -robot.data.cam_xmat[robot.model.camera("head").id].reshape(3, 3)[:, 2]
    assert depth_mm.dtype == np.uint16
    assert depth_mm[47:49, 47:49].mean() == pytest.approx(-camera_m[2] / gaze[2] * 1000, abs=3)
    assert focal_px == pytest.approx(241.3, abs=0.1)


def test_another_embodiment_works_at_the_same_table_with_its_own_wrist_cameras():
    def add_hands(spec):
        for side in Side:
            add_wrist_camera(spec.worldbody.add_body(name=f"{side}/wrist", mocap=True), side, WRIST_CAMERA)

    hands = build_arena(add_cube, embodiment=add_hands)
    assert hands.nu == 0
    assert hands.ncam == len(Camera)
    with pytest.raises(RecipeError, match="left_wrist"):
        build_arena(embodiment=add_nothing)
