"""Control cycles: measure, decide, command, at the robot's rate."""

import threading
from collections.abc import Callable

from egorecovery.robot.clock import Clock
from egorecovery.robot.controller import Controller
from egorecovery.robot.guard import Cause, Cycle, Fault, Phase
from egorecovery.robot.robot import Robot
from egorecovery.robot.watchdog import Heartbeat, Watchdog


def drive_once(
    robot: Robot, controller: Controller, clock: Clock, may_command: Callable[[], bool] = lambda: True
) -> Cycle | None:
    """One control cycle; None if the robot's driver failed and its own stop was called.

    `may_command` is checked last: while `measure` hung, the watchdog may have called the robot's stop.
    """
    try:
        measured = robot.measure()
        cycle = controller.cycle(clock.now_s(), measured)
        if controller.mode.shadow or not may_command():
            return cycle
        if cycle.command is not None:
            robot.command(cycle.command)
        elif cycle.phase is Phase.STOPPED:
            robot.hold()
        return cycle
    except Exception as error:  # a driver may raise anything, and the robot must be stopped
        controller.stop(Fault(Cause.DRIVER, f"{type(error).__name__}: {error}"), clock.now_s())
        robot.stop()
        return None


class Driver:
    """A thread of control cycles, with a watchdog for cycles that hang."""

    def __init__(self, robot: Robot, controller: Controller, clock: Clock) -> None:
        self._robot, self._controller, self._clock = robot, controller, clock
        self._period_s = 1.0 / robot.rate_hz
        self._over = threading.Event()
        self.failed = False  # the robot's driver raised or hangs; no more commands are sent
        self._heartbeat = Heartbeat(controller.longest_gap_s)
        self._watchdog = Watchdog(self._heartbeat, clock, self._on_silence)
        self._thread = threading.Thread(target=self._drive, name="driver", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._watchdog.start()

    def close(self) -> None:
        """Ends at the next cycle. A hanging cycle is abandoned."""
        self._over.set()
        self._thread.join(timeout=1.0)
        self._watchdog.close()

    def _drive(self) -> None:
        due_s = self._clock.now_s()
        self._heartbeat.beat(due_s)  # the first cycle may hang, too
        while not self._over.is_set() and not self.failed:
            now_s = self._clock.now_s()
            if drive_once(self._robot, self._controller, self._clock, lambda: not self.failed) is None:
                self.failed = True
                return
            self._heartbeat.beat(self._clock.now_s())
            # A late cycle is not made up for: commands in quick succession would double the velocity.
            due_s = max(due_s + self._period_s, now_s + 0.9 * self._period_s)
            self._clock.sleep_until(due_s)

    def _on_silence(self, silent_s: float) -> None:
        if self._over.is_set() or self.failed:
            return
        reason = f"a control cycle has not ended for {silent_s:.2f} s (limit {self._heartbeat.limit_s:g} s)"
        self._controller.stop(Fault(Cause.DRIVER, reason), self._clock.now_s())
        self.failed = True  # nothing is commanded after the robot's own stop
        self._robot.stop()
