"""A robot under a policy in real time: driver thread, watchdog, operator at the keyboard, and chunk requests."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from egorecovery.robot.chunk_requests import ChunkRequester, Connect
from egorecovery.robot.clock import Clock, MonotonicClock
from egorecovery.robot.command_filter import Clamp
from egorecovery.robot.controller import Controller, Mode, Status
from egorecovery.robot.driving import Driver
from egorecovery.robot.event_log import Log, no_log
from egorecovery.robot.guard import Cause, Fault, Phase
from egorecovery.robot.limits import Limits
from egorecovery.robot.motion import OnCycle
from egorecovery.robot.robot import Robot
from egorecovery.robot.terminal import Operator, operator_at

POLL_S = 0.005  # between two checks


@dataclass(frozen=True)
class Report:
    """How a run ended."""

    status: Status
    fault: Fault | None  # why it stopped; None if the run was complete
    clamped: Mapping[tuple[str, Clamp], int]

    @property
    def ended_well(self) -> bool:
        return self.fault is None or self.fault.cause is Cause.PERSON


def run_robot(
    robot: Robot,
    connect: Connect,
    limits: Limits,
    *,
    mode: Mode | None = None,
    prompt: str = "",
    log: Log = no_log,
    clock: Clock | None = None,
    is_finished: Callable[[], bool] = lambda: False,
    on_start: Callable[[Controller], None] = lambda controller: None,
    on_cycle: OnCycle | None = None,
    attended: bool = True,
) -> Report:
    """Runs until it is finished or a person ends it, and leaves the robot at rest.

    Without a terminal, or if not `attended`, nobody can re-arm, so the first stop ends the run.
    """
    clock = clock or MonotonicClock()
    controller = Controller(limits, robot.rate_hz, mode or Mode(), log, on_cycle)
    requester = ChunkRequester(robot, connect, controller, clock, prompt)
    metadata = requester.connect()  # before anything is started: a server that does not fit is refused here
    log("server", clock.now_s(), model=metadata.model, checkpoint=metadata.checkpoint)
    driver = Driver(robot, controller, clock)
    on_start(controller)
    with (
        _stopped_by_signals(controller, clock) as signals,
        _operator_or_nobody(controller, clock, attended) as person,
    ):
        try:
            driver.start()
            while not driver.failed:
                if controller.phase is Phase.STOPPED:
                    if person is None or person.wants_end.is_set():
                        break
                elif is_finished():
                    break
                if not requester.request_if_due():
                    clock.sleep_until(clock.now_s() + POLL_S)
        finally:
            signals.interrupt = False
            controller.stop(Fault(Cause.FINISHED, "the run is over"), clock.now_s())
            _wait_for_rest(driver, controller, clock, limits.stop_s(robot.rate_hz))
            driver.close()
            requester.close()
    return report_of(controller)


def report_of(controller: Controller) -> Report:
    status = controller.status
    finished = status.fault is not None and status.fault.cause is Cause.FINISHED
    return Report(status, None if finished else status.fault, controller.clamped)


def _wait_for_rest(driver: Driver, controller: Controller, clock: Clock, stop_s: float) -> None:
    """Waits for the duration of a stop and a margin. A failed driver brakes by itself."""
    give_up_s = clock.now_s() + 2 * stop_s + 1.0
    while controller.phase is not Phase.STOPPED and not driver.failed and clock.now_s() < give_up_s:
        clock.sleep_until(clock.now_s() + POLL_S)


@dataclass
class _Signals:
    interrupt: bool = True  # whether a signal interrupts this thread; False while the robot is being stopped


@contextmanager
def _stopped_by_signals(controller: Controller, clock: Clock) -> Iterator[_Signals]:
    """SIGINT, SIGTERM and SIGHUP stop the robot first. Python delivers them to the main thread only."""
    signals = _Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return

    def stop(number: int, _: object) -> None:
        reason = f"{signal.Signals(number).name} from the operating system"
        controller.stop(Fault(Cause.PERSON, reason), clock.now_s())
        if signals.interrupt:
            signals.interrupt = False
            raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _operator_or_nobody(controller: Controller, clock: Clock, attended: bool) -> Iterator[Operator | None]:
    if not attended:
        yield None
        return
    with operator_at(controller, clock.now_s) as person:
        yield person
