"""Motion begins at the measured pose at the start, after a hold and after a lost connection, on the simulated robot."""

import numpy as np
import pytest

from egorecovery.robot import Controller, Mode, Playback
from egorecovery.robot.chunk_requests import ChunkRequester
from egorecovery.robot.clock import SteppedClock
from egorecovery.robot.driving import drive_once
from egorecovery.robot.guard import Cause, Phase
from egorecovery.robot.served_rollout import staged
from egorecovery.robot.workcell_robot import WorkcellRobot
from egorecovery.serving.client import PolicyClient, Reply
from robot_limits import workcell_limits
from scripted_server import ScriptedServer, reply, smooth
from test_robot_faults import JOB

PERIOD_S = 0.04
ARMS = np.arange(14) % 7 != 6
AWAY = np.where(ARMS, 0.2, 0.0) * np.where(np.arange(14) % 2, 1.0, -1.0)  # rad, of first actions from the measured pose
LIMITS = workcell_limits(ramp_in_s=0.0)  # the ramp would hide a jerk
LARGEST_STEP = 0.045  # rad in one cycle; 0.2 rad fade in 0.3 s at up to 1 rad/s. Without blending it is 0.096
LARGEST_ACCELERATION = 12.0  # rad/s^2; without blending the limit of 30


class Driven:
    """The workcell under a controller in simulated time."""

    def __init__(self, blend_s=0.3, **limits):
        cell, _ = staged(JOB)
        self.clock = SteppedClock()
        self.robot = WorkcellRobot(cell, self.clock, JOB.cameras)
        mode = Mode(playback=Playback(blend_s=blend_s))
        self.controller = Controller(workcell_limits(ramp_in_s=0.0, **limits), self.robot.rate_hz, mode)
        self.commands = [self.joints]

    @property
    def joints(self):
        return self.robot.measure().joints

    def add(self, first, steps=60):
        now_s = self.clock.now_s()
        self.controller.add(Reply(actions=np.tile(first, (steps, 1))), now_s, now_s)

    def cycles(self, count):
        for _ in range(count):
            cycle = drive_once(self.robot, self.controller, self.clock)
            assert cycle is not None
            if cycle.command is not None:
                self.commands.append(cycle.command)
            self.clock.sleep_until(self.clock.now_s() + PERIOD_S)

    def check_smooth(self):
        commands = np.array([self.commands[0], *self.commands])[:, ARMS]  # at rest before
        steps = np.diff(commands, axis=0)
        assert np.abs(steps).max() <= LARGEST_STEP
        assert np.abs(np.diff(steps, axis=0)).max() / PERIOD_S**2 <= LARGEST_ACCELERATION


def test_first_chunk_takes_over_from_the_measured_pose_without_a_jerk():
    driven = Driven()
    target = driven.joints + AWAY
    driven.add(target)
    driven.cycles(1)
    np.testing.assert_allclose(driven.commands[1][ARMS], driven.commands[0][ARMS], atol=1e-9)
    driven.cycles(20)
    driven.check_smooth()
    np.testing.assert_allclose(driven.commands[-1], target, atol=1e-9)
    assert driven.controller.status.clamps == 0


def test_a_chunk_after_a_hold_takes_over_from_the_held_pose_without_a_jerk():
    driven = Driven()
    driven.add(driven.joints + AWAY, steps=15)
    driven.cycles(20)
    assert driven.controller.phase is Phase.HOLDING
    driven.add(driven.joints - AWAY)
    driven.cycles(20)
    driven.check_smooth()
    assert driven.controller.status.fault is None


def test_a_gripper_starts_with_its_first_action_so_that_it_keeps_its_hold():
    driven = Driven()
    grip = np.where(ARMS, driven.joints, 0.0)
    driven.add(grip)
    driven.cycles(1)
    fastest = LIMITS.of_each("acceleration")[6] * PERIOD_S**2
    np.testing.assert_allclose(driven.commands[1][~ARMS], driven.commands[0][~ARMS] - fastest)


@pytest.mark.parametrize("blend_s", [0.0, 0.3])
def test_blending_does_not_hide_a_first_action_that_is_too_far(blend_s):
    driven = Driven(blend_s)
    driven.add(driven.joints + 3 * AWAY)
    driven.cycles(2)
    assert len(driven.commands) == 1
    assert driven.controller.status.fault.cause is Cause.FIRST_COMMAND
    assert "would first move by 0.6" in driven.controller.status.fault.reason


def test_after_a_lost_connection_and_a_rearm_motion_begins_at_the_measured_pose_again():
    driven = Driven(answer_s=5.0)
    with ScriptedServer() as server:

        def there_and_back(number, state):  # one chunk in each connection, which then breaks
            return b"" if number else reply(smooth(state + AWAY * (-1) ** len(server.headers), 0.0))

        server._answer = there_and_back
        requester = ChunkRequester(driven.robot, lambda: PolicyClient(server.url), driven.controller, driven.clock)
        for _ in range(2):
            assert requester.request_if_due()
            while driven.controller.phase is not Phase.STOPPED:
                driven.cycles(1)
                requester.request_if_due()
            assert driven.controller.status.fault.cause is Cause.SERVER
            assert len(driven.commands) > 10
            driven.check_smooth()
            driven.cycles(10)
            assert driven.controller.rearm("a test", driven.clock.now_s())
            driven.commands = [driven.joints]
        requester.close()
    assert len(server.headers) == 2  # connections
