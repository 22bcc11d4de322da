"""The simplest robot: always exactly where it was commanded. Run as a script it is a robot with a command line."""

import sys
import threading
import time

import numpy as np

from egorecovery.robot import Measurement, Observation
from egorecovery.robot.script import run_script
from robot_limits import workcell_limits


class PointRobot:
    """14 joints that follow at once; for tests of the client without a simulator."""

    rate_hz = 25.0
    joint_names = workcell_limits().names

    def __init__(self) -> None:
        self.joints = np.tile(np.append(np.zeros(6), 0.5), 2)
        self.commands: list[np.ndarray] = []
        self.times_s: list[float] = []
        self.holds, self.was_stopped = 0, threading.Event()

    def measure(self) -> Measurement:
        return Measurement(time.monotonic(), self.joints)

    def read(self) -> Observation:
        return Observation(time.monotonic(), self.joints, {"cam_high": np.zeros((16, 16, 3), np.uint8)})

    def command(self, joints) -> None:
        self.joints = joints.copy()
        self.commands.append(self.joints)
        self.times_s.append(time.monotonic())

    def hold(self) -> None:
        self.holds += 1

    def stop(self) -> None:
        self.was_stopped.set()


if __name__ == "__main__":
    sys.exit(run_script(PointRobot))
