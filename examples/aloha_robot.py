"""ALOHA-like arms (two Interbotix ViperX followers) under a served policy, through Interbotix's Python API for ROS 1.

    egorecovery serve RUN --fit letterbox                        (on the computer with the GPU; 50 Hz is its default)
    python examples/aloha_robot.py --server ws://127.0.0.1:8000 --limits examples/limits/aloha.json --shadow

What was tested: the mapping between driver and joints, stamps, and the whole client with stand-ins for rospy and
interbotix_xs_modules (tests/test_robot_examples.py). What was not: this has never moved an arm. Check the gripper's
constants, the names of arms and topics and the limits on your own robot, with --shadow first, then with --slow 0.2.
Start it with the arms resting on their stands: setting the operating mode switches their torque off for a moment.
"""

import sys

import numpy as np
from interbotix_xs_modules.arm import InterbotixManipulatorXS
from interbotix_xs_msgs.msg import JointSingleCommand
from ros_topics import LatestMessage, picture
from sensor_msgs.msg import Image, JointState

from egorecovery.robot import Joints, Measurement, Observation
from egorecovery.robot.script import run_script

ARMS = ("puppet_left", "puppet_right")
CAMERA_TOPICS = {
    "cam_high": "/usb_cam_high/image_raw",
    "cam_left_wrist": "/usb_cam_left_wrist/image_raw",
    "cam_right_wrist": "/usb_cam_right_wrist/image_raw",
}
# The driver reports the fingers in m (eighth number) and takes the gripper motor's angle in rad; of the stock gripper.
FINGER_CLOSED_M, FINGER_OPEN_M = 0.01844, 0.05800
MOTOR_CLOSED_RAD, MOTOR_OPEN_RAD = -0.6213, 1.4910
START_S = 5.0  # for the first message of every topic


class AlohaRobot:
    """ALOHA-like arms through Interbotix's driver."""

    rate_hz = 50.0
    joint_names = tuple(
        f"{side}/{name}"
        for side in ("left", "right")
        for name in ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper")
    )

    def __init__(self) -> None:
        self._arms = [
            InterbotixManipulatorXS("vx300s", "arm", "gripper", robot_name=name, init_node=name == ARMS[0])
            for name in ARMS
        ]
        for arm in self._arms:
            arm.dxl.robot_set_operating_modes("group", "arm", "position")
            arm.dxl.robot_set_operating_modes("single", "gripper", "current_based_position")
        self._states = [LatestMessage(f"/{name}/joint_states", JointState) for name in ARMS]
        self._cameras = {name: LatestMessage(topic, Image) for name, topic in CAMERA_TOPICS.items()}
        for topic in [*self._states, *self._cameras.values()]:
            topic.wait(START_S)

    def measure(self) -> Measurement:
        stamps, arms = zip(*(topic.newest for topic in self._states), strict=True)
        return Measurement(min(stamps), np.concatenate([arm_joints(arm.position) for arm in arms]))

    def read(self) -> Observation:
        measured = self.measure()
        newest = {name: topic.newest for name, topic in self._cameras.items()}
        oldest_s = min(measured.captured_s, *(stamp for stamp, _ in newest.values()))
        return Observation(oldest_s, measured.joints, {name: picture(message) for name, (_, message) in newest.items()})

    def command(self, joints: Joints) -> None:
        for arm, wanted in zip(self._arms, np.split(joints, 2), strict=True):
            # The driver answers False where a target is outside its own limits, and then moves nothing.
            if arm.arm.set_joint_positions(wanted[:6].tolist(), blocking=False) is False:
                raise RuntimeError(f"the driver refused {np.round(wanted[:6], 3).tolist()}: narrow the limits file")
            arm.gripper.core.pub_single.publish(JointSingleCommand(name="gripper", cmd=motor_rad(wanted[6])))

    def hold(self) -> None:
        """Dynamixel motors in position mode keep the last target by themselves."""

    def stop(self) -> None:
        """Nothing more is sent, and the motors keep their last target. Their torque stays on: arms would fall."""


def arm_joints(position: "list[float]") -> np.ndarray:
    """Six angles, and the fingers as 0 closed .. 1 open."""
    if len(position) < 8:
        raise ValueError(f"an arm reports at least 8 numbers, got {len(position)}")
    opening = (position[7] - FINGER_CLOSED_M) / (FINGER_OPEN_M - FINGER_CLOSED_M)
    return np.array([*position[:6], min(max(opening, 0.0), 1.0)])


def motor_rad(opening: float) -> float:
    return float(MOTOR_CLOSED_RAD + opening * (MOTOR_OPEN_RAD - MOTOR_CLOSED_RAD))


if __name__ == "__main__":
    sys.exit(run_script(AlohaRobot))
