"""AgileX Cobot Magic (two Piper arms) under a served policy, through its ROS topics.

    egorecovery serve RUN --fit letterbox                        (on the computer with the GPU; 50 Hz is its default)
    python examples/agilex_robot.py --server ws://127.0.0.1:8000 --limits examples/limits/agilex.json --shadow

What was tested: the mapping between topics and joints, stamps, and the whole client with a stand-in for rospy
(tests/test_robot_examples.py). What was not: this has never moved an arm. Check GRIPPER_CLOSED and GRIPPER_OPEN, the
order and signs of the joints, and the limits on your own robot, with --shadow first, then with --slow 0.2.
"""

import sys

import numpy as np
import rospy
from ros_topics import LatestMessage, picture
from sensor_msgs.msg import Image, JointState

from egorecovery.robot import Joints, Measurement, Observation
from egorecovery.robot.script import run_script

STATE_TOPICS = ("/puppet/joint_left", "/puppet/joint_right")
COMMAND_TOPICS = (
    "/master/joint_left",
    "/master/joint_right",
)  # what the arms' driver follows; no leader arm may publish
CAMERA_TOPICS = {
    "cam_high": "/camera_f/color/image_raw",
    "cam_left_wrist": "/camera_l/color/image_raw",
    "cam_right_wrist": "/camera_r/color/image_raw",
}
GRIPPER_CLOSED, GRIPPER_OPEN = 0.0, 0.07  # m between the fingers, as the driver reports the seventh joint
DRIVER_JOINTS = [f"joint{number}" for number in range(7)]
START_S = 5.0  # for the first message of every topic


class AgilexRobot:
    """AgileX Cobot Magic through its ROS topics."""

    rate_hz = 50.0
    joint_names = tuple(
        f"{side}/{name}"
        for side in ("left", "right")
        for name in ("joint0", "joint1", "joint2", "joint3", "joint4", "joint5", "gripper")
    )

    def __init__(self) -> None:
        rospy.init_node("egorecovery", disable_signals=True)  # Ctrl-C brakes the arms first: it is ours
        self._states = [LatestMessage(topic, JointState) for topic in STATE_TOPICS]
        self._cameras = {name: LatestMessage(topic, Image) for name, topic in CAMERA_TOPICS.items()}
        self._publishers = [rospy.Publisher(topic, JointState, queue_size=1) for topic in COMMAND_TOPICS]
        self._last: Joints | None = None
        for topic in [*self._states, *self._cameras.values()]:
            topic.wait(START_S)

    def measure(self) -> Measurement:
        stamps, arms = zip(*(topic.newest for topic in self._states), strict=True)
        joints = np.concatenate([arm_joints(arm.position) for arm in arms])
        return Measurement(min(stamps), joints)

    def read(self) -> Observation:
        measured = self.measure()
        newest = {name: topic.newest for name, topic in self._cameras.items()}
        oldest_s = min(measured.captured_s, *(stamp for stamp, _ in newest.values()))
        return Observation(oldest_s, measured.joints, {name: picture(message) for name, (_, message) in newest.items()})

    def command(self, joints: Joints) -> None:
        self._last = joints
        for publisher, arm in zip(self._publishers, np.split(joints, 2), strict=True):
            message = JointState()
            message.header.stamp = rospy.Time.now()
            message.name = DRIVER_JOINTS
            message.position = driver_joints(arm)
            publisher.publish(message)

    def hold(self) -> None:
        """The driver follows the last message; repeating it keeps arms up whose driver wants a steady stream."""
        if self._last is not None:
            self.command(self._last)

    def stop(self) -> None:
        """Nothing more is published. Piper arms then stay at their last target; they keep their torque."""
        for publisher in self._publishers:
            publisher.unregister()


def arm_joints(position: "list[float]") -> np.ndarray:
    """Six angles as the driver gives them, and the gripper as 0 closed .. 1 open."""
    if len(position) != 7:
        raise ValueError(f"an arm reports 7 joints, got {len(position)}")
    opening = (position[6] - GRIPPER_CLOSED) / (GRIPPER_OPEN - GRIPPER_CLOSED)
    return np.array([*position[:6], min(max(opening, 0.0), 1.0)])


def driver_joints(arm: np.ndarray) -> "list[float]":
    return [*map(float, arm[:6]), float(GRIPPER_CLOSED + arm[6] * (GRIPPER_OPEN - GRIPPER_CLOSED))]


if __name__ == "__main__":
    sys.exit(run_script(AgilexRobot))
