"""Effector space, and arms read from robot files."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from egorecovery.episodes import Source
from egorecovery.errors import KinematicsError
from egorecovery.kinematics.action_space import action_dim, gripper_dims
from egorecovery.kinematics.arms import REACHED_M
from egorecovery.kinematics.effector_space import EffectorPoses, pack, rotation_of_axes, unpack
from egorecovery.kinematics.robot_file import load_arms
from egorecovery.workcell.arena import add_robot_arms, arena_spec
from egorecovery.workcell.demonstration import RobotDemonstrator
from egorecovery.workcell.kinematics import HOME, workcell_arms
from egorecovery.workcell.staging import draw_start
from egorecovery.workcell.tasks import scene_named
from tiny_robot import described, urdf

SEEDS = st.integers(0, 2**32 - 1)


def random_poses(seed: int, frames: int = 5) -> EffectorPoses:
    rng = np.random.default_rng(seed)
    return EffectorPoses(
        position_m=rng.uniform(-1, 1, (frames, 2, 3)),
        rotation=Rotation.random(2 * frames, rng=rng).as_matrix().reshape(frames, 2, 3, 3),
        opening_01=rng.uniform(0, 1, (frames, 2)),
    )


@given(SEEDS)
def test_unpacking_undoes_packing_for_every_orientation(seed):
    poses = random_poses(seed)
    back = unpack(pack(poses))
    np.testing.assert_allclose(back.position_m, poses.position_m)
    np.testing.assert_allclose(back.rotation, poses.rotation, atol=1e-12)
    np.testing.assert_allclose(back.opening_01, poses.opening_01)


@given(SEEDS, st.floats(1e-4, 1e-2))
def test_a_small_turn_is_a_small_change_everywhere(seed, angle_rad):
    poses = random_poses(seed)
    turn = Rotation.from_rotvec(angle_rad * np.array([1.0, 0.0, 0.0])).as_matrix()
    turned = EffectorPoses(position_m=poses.position_m, rotation=turn @ poses.rotation, opening_01=poses.opening_01)
    assert np.abs(pack(turned) - pack(poses)).max() <= 1.01 * angle_rad


@given(SEEDS, st.floats(0.0, 0.4))
def test_predicted_axes_that_are_not_quite_orthogonal_give_the_nearest_rotation(seed, noise):
    """Compared with the rotation that minimises the same distance, found by scipy."""
    rng = np.random.default_rng(seed)
    true = Rotation.random(rng=rng).as_matrix()
    y, z = (axis + noise * rng.normal(0, 1, 3) for axis in (true[:, 1], true[:, 2]))
    y, z = y / np.linalg.norm(y), z / np.linalg.norm(z)
    if min(np.linalg.norm(y - z), np.linalg.norm(y + z)) < 0.1:
        return
    found = rotation_of_axes(y, z)
    best, _ = Rotation.align_vectors(np.stack([y, z]), np.eye(3)[1:])
    np.testing.assert_allclose(found, best.as_matrix(), atol=1e-6)


@pytest.mark.parametrize(
    ("opening", "approach"),
    [((0, 0, 0), (0, 0, 0)), ((0, 0, 1), (0, 0, 1)), ((0, 0, 1), (0, 0, -1)), ((1e-9, 0, 0), (0, 1, 0))],
)
def test_axes_without_a_direction_still_give_a_rotation(opening, approach):
    found = rotation_of_axes(np.array(opening, float), np.array(approach, float))
    np.testing.assert_allclose(found @ found.T, np.eye(3), atol=1e-9)
    assert np.linalg.det(found) == pytest.approx(1)


def test_both_spaces_say_which_numbers_are_openings():
    assert gripper_dims("joint").nonzero()[0].tolist() == [6, 13]
    assert gripper_dims("effector").nonzero()[0].tolist() == [9, 19]
    assert (action_dim("joint"), action_dim("effector")) == (14, 20)


@pytest.fixture(scope="module", params=["cube_stack", "cup_brush"])
def demonstration(request):
    """Joint targets of a whole recovery, as the simulated operator commanded them."""
    demonstrator = RobotDemonstrator(scene_named(request.param), image_size=16)
    try:
        for seed in range(10):
            rng = np.random.default_rng(seed)
            start = draw_start(demonstrator.scene, Source.ROBOT_RECOVERY, rng)
            attempt = demonstrator.attempt(start, rng)
            if attempt.failure is None:
                return attempt.motion
    finally:
        demonstrator.close()
    raise AssertionError("ten attempts failed")


def test_a_whole_demonstration_survives_the_way_to_effector_space_and_back(demonstration):
    arms = workcell_arms()
    wanted = arms.effector_vectors(demonstration.action)
    chunk = arms.joint_chunk(wanted, demonstration.state[0])
    assert chunk.unreachable == 0
    got = unpack(arms.effector_vectors(chunk.joints))
    distance_m = np.linalg.norm(got.position_m - unpack(wanted).position_m, axis=-1)
    assert distance_m.max() < 0.0005
    turn = Rotation.from_matrix(got.rotation.reshape(-1, 3, 3)).inv() * Rotation.from_matrix(
        unpack(wanted).rotation.reshape(-1, 3, 3)
    )
    assert turn.magnitude().max() < 0.002
    np.testing.assert_allclose(chunk.joints[:, [6, 13]], demonstration.action[:, [6, 13]])
    assert np.abs(chunk.joints - demonstration.action).max() < 0.05  # the same branch, all the way


def test_a_target_out_of_reach_becomes_the_nearest_pose_and_is_counted():
    arms = workcell_arms()
    far = arms.effector_vectors(np.tile(HOME, (3, 1)))
    far[1:, 0] += 2.0  # the left arm, two metres ahead
    chunk = arms.joint_chunk(far, HOME)
    assert chunk.unreachable == 2
    assert chunk.worst_m > 1.0
    reached_m = arms.effector_poses(chunk.joints)[0][1:, 0]
    assert (reached_m[:, 0] > 0.15).all()  # stretched towards it
    assert np.isfinite(chunk.joints).all()
    back = arms.effector_poses(chunk.joints)[0][:, 1]
    np.testing.assert_allclose(back, far.reshape(3, 2, 10)[:, 1, :3], atol=REACHED_M)  # the other arm is not disturbed


@pytest.fixture
def mjcf(tmp_path):
    """The workcell's robot as a file that somebody else could have written."""
    spec = arena_spec()
    add_robot_arms(spec)
    spec.compile()
    path = tmp_path / "robot.xml"
    path.write_text(spec.to_xml())
    return path


@settings(max_examples=5, deadline=None)
@given(SEEDS)
def test_arms_read_from_mjcf_are_those_of_the_workcell(tmp_path_factory, seed):
    spec = arena_spec()
    add_robot_arms(spec)
    spec.compile()
    path = tmp_path_factory.mktemp("robot") / "robot.xml"
    path.write_text(spec.to_xml())
    joints = HOME + np.random.default_rng(seed).uniform(-0.3, 0.3, 14)
    np.testing.assert_allclose(
        load_arms(path).effector_vectors(joints), workcell_arms().effector_vectors(joints), atol=1e-6
    )


def test_a_urdf_arm_is_placed_where_its_json_file_says(tmp_path):
    urdf(tmp_path)
    path = tmp_path / "robot.json"
    path.write_text(json.dumps({"left": described(y_m=0.25), "right": described(y_m=-0.25)}))
    position_m, rotation = load_arms(path).effector_poses(np.zeros(14))
    np.testing.assert_allclose(position_m, [[0.7, 0.25, 0.0], [0.7, -0.25, 0.0]], atol=1e-9)
    np.testing.assert_allclose(rotation[0][:, 2], [1, 0, 0], atol=1e-9)  # approach along the link's own x
    np.testing.assert_allclose(rotation[0][:, 1], [0, 1, 0], atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tool": "nothing"}, "no site or body named 'nothing'"),
        ({"joints": {"names": ["j0"]}}, "must be a list of 6 joint names"),
        ({"joints": {"names": [f"k{index}" for index in range(6)]}}, "no joint named 'k0'; it has j0"),
        ({"axes": {"approach": "+x", "opening": "-x"}}, "two different axes"),
        ({"axes": {"approach": "up", "opening": "+y"}}, "must be one of"),
        ({"base": {"position_m": [0, 0]}}, "must be a list of 3 numbers"),
        ({"model": "missing.urdf"}, "no such robot description"),
        ({"surprise": 1}, "surprise is not known"),
    ],
)
def test_a_robot_file_that_does_not_fit_says_what_is_wrong_and_where(tmp_path, changes, words):
    urdf(tmp_path)
    path = tmp_path / "robot.json"
    path.write_text(json.dumps({"left": described(), "right": described(**changes)}))
    with pytest.raises(KinematicsError, match=words):
        load_arms(path)


def test_names_that_tell_no_sides_are_refused_with_the_way_out(tmp_path):
    with pytest.raises(KinematicsError, match=r"left arm .* JSON file"):
        load_arms(urdf(tmp_path))


def test_a_file_that_is_no_robot_is_refused(tmp_path):
    path = tmp_path / "robot.xml"
    path.write_text("<mujoco><nonsense/></mujoco>")
    with pytest.raises(KinematicsError, match="MuJoCo cannot read it"):
        load_arms(path)


def test_triton_is_loaded_before_mujoco_loads_mesa(tmp_path):
    """Both bring an LLVM: in the other order 'demo --quick' died where PyTorch for GPUs was installed."""
    stub = tmp_path / "triton.py"
    stub.write_text("import sys; print('mujoco' in sys.modules, 'OpenGL' in sys.modules)")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    code = "import egorecovery.kinematics.bindings"
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
