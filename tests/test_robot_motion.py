"""The record of a robot's motion: what is written is what was wanted, commanded and measured."""

import numpy as np
import pytest

from egorecovery.errors import RobotError
from egorecovery.robot.guard import Cycle, Phase
from egorecovery.robot.motion import MotionRecorder, read_motion, write_motion
from egorecovery.robot.robot import Measurement
from egorecovery.robot.running import run_robot
from egorecovery.serving.client import PolicyClient
from point_robot import PointRobot
from robot_limits import workcell_limits
from scripted_server import ScriptedServer

PATIENT = workcell_limits(hold_s=10.0, answer_s=10.0, observation_age_s=10.0)


def test_a_recorded_run_comes_back_with_the_commands_that_the_robot_got(tmp_path):
    robot, recorder = PointRobot(), MotionRecorder(PATIENT.names, PointRobot.rate_hz)
    with ScriptedServer() as server:
        run_robot(
            robot,
            lambda: PolicyClient(server.url),
            PATIENT,
            on_cycle=recorder,
            is_finished=lambda: len(robot.commands) > 10,
            attended=False,
        )
    write_motion(recorder.motion, tmp_path / "folder" / "motion.npz")
    motion = read_motion(tmp_path / "folder" / "motion.npz")
    sent = np.isfinite(motion.commanded).all(axis=1)
    assert (motion.names, motion.rate_hz) == (PATIENT.names, 25.0)
    np.testing.assert_array_equal(motion.commanded[sent], robot.commands)
    np.testing.assert_array_equal(motion.measured[1:], np.where(sent[:-1, None], motion.commanded[:-1], robot_start()))
    assert {"ready", "running", "stopping"} >= set(motion.phase[sent]) > {"stopping"}
    assert (np.diff(motion.time_s) > 0).all()
    assert np.isnan(motion.wanted[motion.phase == "ready"]).all()


def robot_start() -> np.ndarray:
    return PointRobot().joints


def test_a_measurement_of_another_length_is_kept_as_unknown():
    recorder = MotionRecorder(PATIENT.names, 25.0)
    recorder(0.0, Measurement(0.0, np.zeros(3)), None, Cycle(Phase.READY, None))
    assert np.isnan(recorder.motion.measured).all()
    assert recorder.motion.measured.shape == (1, 14)


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_a_file_that_is_no_record_is_named(tmp_path, content):
    path = tmp_path / "other.npz"
    if content is None:
        np.savez(path, names=np.array(["a"]))
    else:
        path.write_bytes(content)
    with pytest.raises(RobotError, match=r"other\.npz:? is (not an npz archive|no motion)"):
        read_motion(path)
