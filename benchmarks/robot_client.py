"""What the robot client costs, and how steady it is: `python benchmarks/robot_client.py [--seconds 10]`.

A robot that is always where it was commanded, at 50 Hz, and a server process that answers at once: the rest is ours.
"""

import argparse
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from egorecovery.robot import Measurement, Mode, Playback
from egorecovery.robot.controller import Controller
from egorecovery.robot.running import run_robot
from egorecovery.serving.client import PolicyClient, Reply
from egorecovery.serving.metadata import ALOHA_CAMERAS
from point_robot import PointRobot
from robot_limits import workcell_limits
from scripted_server import smooth

RATE_HZ = 50.0
MOVING_S = 1.5  # until the scripted policy has led a joint to the end of its range
SERVER = """
import sys
sys.path.insert(0, {tests!r})
from scripted_server import ScriptedServer
print(ScriptedServer(action_hz={rate}, cameras=("head", "left_wrist", "right_wrist")).url, flush=True)
sys.stdin.read()
"""


class CameraRobot(PointRobot):
    """Three cameras of 224 x 224, 50 commands a second."""

    rate_hz = RATE_HZ

    def __init__(self) -> None:
        super().__init__()
        self.images = {name: np.zeros((224, 224, 3), np.uint8) for name in ALOHA_CAMERAS}

    def read(self):
        return replace(super().read(), images=self.images)


class Times(list):
    """Log events with their times."""

    def __call__(self, event, time_s, **details):
        self.append((event, time_s, details))

    def of(self, event):
        return next(time_s for name, time_s, _ in self if name == event)


def cycle_us(cycles: int = 20_000) -> np.ndarray:
    """Of the controller alone: player, guard, filter, status."""
    controller = Controller(workcell_limits(), RATE_HZ, Mode())
    joints, found = PointRobot().joints, np.empty(cycles)
    for cycle in range(cycles):
        now_s = cycle / RATE_HZ
        if controller.wants_chunk(now_s):
            controller.add(Reply(actions=smooth(joints, 0.002)), now_s, now_s)
        begun = time.perf_counter()
        command = controller.cycle(now_s, Measurement(now_s, joints)).command
        found[cycle] = (time.perf_counter() - begun) * 1e6
        assert command is not None
        joints = command
        if np.abs(joints).max() > 0.8:
            controller = Controller(workcell_limits(), RATE_HZ, Mode())
            joints = PointRobot().joints
    return found


def run(seconds: float) -> tuple[CameraRobot, Times, float]:
    """A run in real time whose server is killed at its end; with the time of the kill."""
    tests = str(Path(__file__).parent.parent / "tests")
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER.format(tests=tests, rate=RATE_HZ)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    url, robot, log, killed_s = server.stdout.readline().strip(), CameraRobot(), Times(), []

    def kill_at_the_end() -> bool:
        if robot.times_s and time.monotonic() - robot.times_s[0] > seconds and not killed_s:
            killed_s.append(time.monotonic())
            server.kill()
        return False

    mode = Mode(playback=Playback(replan_steps=10))
    run_robot(
        robot,
        lambda: PolicyClient(url),
        workcell_limits(),
        mode=mode,
        log=log,
        is_finished=kill_at_the_end,
        attended=False,
    )
    server.wait()
    return robot, log, killed_s[0]


def row(what: str, values: np.ndarray, unit: str) -> None:
    middle, late, last = np.percentile(values, [50, 99, 100])
    print(f"{what:44} {middle:8.2f} {late:8.2f} {last:8.2f} {unit}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    seconds = parser.parse_args().seconds
    print(f"{'':44} {'median':>8} {'p99':>8} {'most':>8}")
    row("one control cycle, arithmetic only", cycle_us(), "us")
    robot, log, _ = run(seconds)
    row("between two commands at 50 Hz", np.diff(robot.times_s) * 1000, "ms")
    delays = np.array([details["delay_s"] for event, _, details in log if event == "chunk"])
    row("capture to chunk, three 224 x 224 pictures", delays * 1000, "ms")
    _, log, killed_s = run(MOVING_S)
    print(f"server killed to stop noticed  {(log.of('stop') - killed_s) * 1000:8.1f} ms")
    print(f"server killed to rest          {(log.of('at rest') - killed_s) * 1000:8.1f} ms")
