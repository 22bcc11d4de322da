"""The examples for real arms, with stand-ins for ROS and the arms' drivers: wiring, units, stamps; not the hardware."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from robot_terminal import Terminal
from scripted_server import ScriptedServer

ROOT = Path(__file__).parent.parent
EXAMPLES, STAND_INS = ROOT / "examples", Path(__file__).parent / "stand_ins"
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", STAND_INS, EXAMPLES)))}
THREE = ("head", "left_wrist", "right_wrist")


@pytest.mark.parametrize("name", ["aloha", "agilex"])
def test_an_example_moves_its_arms_and_stops_at_a_key(name, tmp_path):
    with ScriptedServer(action_hz=50.0, cameras=THREE) as server:
        script = EXAMPLES / f"{name}_robot.py"
        terminal = Terminal(
            script, server, tmp_path, "--replan", "5", limits=f"{name}.json", env=ENVIRONMENT, cwd=tmp_path
        )
        terminal.until("gate [####--------] 0.30")
        while len(server.observations) < 4:
            terminal.until("running")
        terminal.press(b" ")
        terminal.until("q ends")
        terminal.press(b"q")
        assert terminal.end() == 0
    states = np.array([observation["state"] for observation in server.observations])
    angles = np.arange(14) % 7 != 6
    moved = states[-1] - states[0]
    assert (moved[angles] > 0.005).all()  # commands reached the arms, and came back as their states
    np.testing.assert_allclose(moved[~angles], 0.0, atol=1e-6)
    assert (np.abs(states[:, ~angles] - 0.5) < 0.1).all()  # half open, in units of 0..1 both ways
    for camera, red in (("cam_high", 30), ("cam_left_wrist", 10), ("cam_right_wrist", 20)):
        picture = server.observations[0]["images"][camera]
        assert picture.shape == (4, 6, 3)
        np.testing.assert_array_equal(picture[0, 0], [red, 0, 0])  # red first, whatever the driver's order


def script(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=ENVIRONMENT)


def test_stamps_are_those_of_the_capture_on_the_monotonic_clock():
    done = script(
        "import time, rospy, ros_topics\n"
        "from sensor_msgs.msg import JointState\n"
        "message = JointState(); message.header.stamp = rospy.stamp(time.time() - 0.5)\n"
        "age_s = time.monotonic() - ros_topics.captured_s(message)\n"
        "assert abs(age_s - 0.5) < 0.1, age_s\n"
        "message.header.stamp = rospy.stamp(0.0)\n"
        "try: ros_topics.captured_s(message)\n"
        "except ValueError as error: print(error)\n"
    )
    assert "have no stamp" in done.stdout, done.stderr


def test_a_topic_that_is_silent_is_named_before_anything_starts():
    done = script(
        "import ros_topics; from sensor_msgs.msg import Image\nros_topics.LatestMessage('/nobody', Image).wait(0.01)"
    )
    assert (done.returncode, done.stderr.strip()) == (1, "/nobody: no message within 0.01 s; is its node running?")


@pytest.mark.parametrize(
    ("module", "call", "words"),
    [
        ("agilex_robot", "arm_joints([0.0] * 6)", "7 joints, got 6"),
        ("aloha_robot", "arm_joints([0.0] * 7)", "8 numbers, got 7"),
        ("aloha_robot", "AlohaRobot().command(__import__('numpy').full(14, 3.14))", "narrow the limits file"),
    ],
)
def test_what_a_driver_reports_or_refuses_is_checked(module, call, words):
    done = script(f"import rospy; rospy.init_node('test')\nfrom {module} import *\n{call}")
    assert words in done.stderr
