"""An evaluation rollout run like a real robot: through policy server, controller and limits.

In simulated time the world waits for every answer. With limits that never bind and no ramp, the rollout is identical to
one in the evaluator's own process; `tests/test_served_rollout.py` checks that.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from egorecovery.evaluation.protocol import EvaluationProtocol
from egorecovery.evaluation.rollout import Attempts, Ending, RolloutJob, stage, workcell_for
from egorecovery.robot.chunk_player import Playback
from egorecovery.robot.chunk_requests import ChunkRequester, Connect
from egorecovery.robot.clock import MonotonicClock, SteppedClock
from egorecovery.robot.controller import Controller, Mode, Status
from egorecovery.robot.driving import drive_once
from egorecovery.robot.event_log import Log, no_log
from egorecovery.robot.guard import Cause, Cycle, Phase
from egorecovery.robot.limits import Limits
from egorecovery.robot.motion import MotionRecorder, write_motion
from egorecovery.robot.robot import Joints, Measurement
from egorecovery.robot.running import Report, run_robot
from egorecovery.robot.workcell_robot import WorkcellRobot
from egorecovery.robot.workcell_video import WorkcellVideo
from egorecovery.workcell.starts import Start
from egorecovery.workcell.workcell import Workcell

OnCycle = Callable[[WorkcellRobot, Controller], None]


def playback_of(protocol: EvaluationProtocol) -> Playback:
    """Playback as the evaluation protocol defines it."""
    return Playback(
        replan_steps=protocol.replan_steps, ensemble=protocol.ensemble, ensemble_decay=protocol.ensemble_decay
    )


def staged(job: RolloutJob) -> tuple[Workcell, Start]:
    """A workcell at the job's start. One per process, as in the evaluator."""
    cell = workcell_for(job.task, (job.image_size, job.image_size), job.protocol.clutter, job.hidden_embodiment)
    cell.protocol = job.protocol.judging()
    return cell, stage(job, cell)


def roll_served(
    job: RolloutJob,
    connect: Connect,
    limits: Limits,
    mode: Mode | None = None,
    log: Log = no_log,
    on_cycle: OnCycle = lambda robot, controller: None,
) -> tuple[Ending, Controller]:
    """Runs a job to its end in simulated time. A stopped robot stands still until the time limit."""
    clock = SteppedClock()
    cell, start = staged(job)
    robot = WorkcellRobot(cell, clock, job.cameras)
    controller = Controller(limits, robot.rate_hz, mode or Mode(playback=playback_of(job.protocol)), log)
    requester = ChunkRequester(robot, connect, controller, clock)
    metadata = requester.connect()
    log("server", clock.now_s(), model=metadata.model, checkpoint=metadata.checkpoint)
    attempts, gates, intents = Attempts(cell), [], []
    try:
        while robot.outcome is None:
            chunks = controller.status.chunks
            requester.request_if_due()
            if controller.status.chunks > chunks:
                gates.append(controller.status.gate)
                intents.append(controller.status.intent)
            cycle = drive_once(robot, controller, clock)
            if cycle is not None and cycle.command is not None:
                attempts.watch(cycle.command)
            on_cycle(robot, controller)
            if controller.phase is Phase.READY or controller.mode.shadow:
                robot.hold()  # no command is sent, but simulated time must pass
            clock.sleep_until(clock.now_s() + 1.0 / robot.rate_hz)
    finally:
        requester.close()
    ending = _ending(robot, start, controller.status, attempts.retries, tuple(gates))
    return replace(ending, intents=tuple(intents)), controller


def roll_in_real_time(
    job: RolloutJob,
    connect: Connect,
    limits: Limits,
    mode: Mode,
    log: Log = no_log,
    watched_s: float | None = None,
    record: Path | None = None,
) -> tuple[Ending | None, Report]:
    """Runs a job as on a robot, with a person at the keyboard, for `watched_s` at most.

    The ending is None if it was not judged: stopped, ended by a person, or in shadow mode, where nothing moves. The
    folder `record` gets a video and the joints of every cycle.
    """
    clock = MonotonicClock()
    cell, start = staged(job)
    robot = WorkcellRobot(cell, clock, job.cameras)
    robot.read()  # the renderer takes a moment to start
    over_s = math.inf if watched_s is None else clock.now_s() + watched_s
    motion, video = MotionRecorder(limits.names, robot.rate_hz), WorkcellVideo(job, cell)
    controllers: list[Controller] = []

    def record_cycle(now_s: float, measured: Measurement, wanted: Joints | None, cycle: Cycle) -> None:
        motion(now_s, measured, wanted, cycle)
        video.add(controllers[0].status)

    report = run_robot(
        robot,
        connect,
        limits,
        mode=mode,
        log=log,
        clock=clock,
        is_finished=lambda: robot.outcome is not None or clock.now_s() > over_s,
        on_start=controllers.append,
        on_cycle=record_cycle if record else None,
    )
    ending = None if robot.outcome is None else _ending(robot, start, report.status, retries=0, gates=())
    if record:
        name = f"{job.task}-{job.regime}-{job.index:03d}"
        write_motion(motion.motion, record / f"{name}.npz")
        video.write(record / f"{name}.mp4", "control", f"{ending.result}: {ending.reason}" if ending else "not judged")
    return ending, report


def _ending(
    robot: WorkcellRobot, start: Start, status: Status, retries: int, gates: tuple[float | None, ...]
) -> Ending:
    outcome = robot.outcome
    assert outcome is not None
    stopped = status.fault is not None and status.fault.cause is not Cause.FINISHED
    return Ending(
        result="success" if outcome.succeeded else "failure",
        reason=f"{outcome.reason}; stopped: {status.fault.reason}" if stopped and status.fault else outcome.reason,
        start=start,
        steps=outcome.frame,
        retries=retries,
        gates=gates,
        decisions=status.chunks,
    )
