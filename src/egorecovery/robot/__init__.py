"""Robots under control: limits, a guard, chunks in time, a log.

What is imported here needs numpy, msgpack and websockets and nothing else, for the robot's own computer. The simulated
workcell is in `workcell_robot` and `served_rollout`.
"""

from egorecovery.robot.chunk_player import Playback
from egorecovery.robot.controller import Controller, Mode, Status
from egorecovery.robot.limits import JointLimits, Limits, read_limits
from egorecovery.robot.robot import Joints, Measurement, Observation, Robot

__all__ = [
    "Controller",
    "JointLimits",
    "Joints",
    "Limits",
    "Measurement",
    "Mode",
    "Observation",
    "Playback",
    "Robot",
    "Status",
    "read_limits",
]
