"""Control of a robot by a served policy: limits, guard, chunk playback, log.

This module needs only numpy, msgpack and websockets, so that it runs on the robot's computer. The simulated workcell is
in `workcell_robot` and `served_rollout`.
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
