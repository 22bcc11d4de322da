"""`egorecovery control`."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from egorecovery.errors import RecipeError, RobotError

if TYPE_CHECKING:
    from egorecovery.evaluation.rollout import Ending, RolloutJob
    from egorecovery.robot import Limits, Mode
    from egorecovery.robot.event_log import EventLog
    from egorecovery.serving.client import PolicyClient
    from egorecovery.serving.metadata import ServerMetadata

SHADOW_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Control:
    """Let the policy of a server control a robot, inside limits: here the simulated workcell.

    Robots of your own are a class and a short script: see examples/ and docs/deploy.md.
    """

    EXAMPLE: ClassVar = "control --server ws://127.0.0.1:8000 --task cube_stack --limits examples/limits/workcell.json"
    HEADINGS: ClassVar = {
        "robot": "which rollouts",
        "time": "how it moves",
        "api_key_file": "server and files",
    }

    server: str
    """Where egorecovery serve runs, such as ws://127.0.0.1:8000."""
    limits: Path
    """A file that says what the joints may do; examples/limits has some to start from."""
    task: str | None = None
    """cup_brush, table_sweep, round_disk, cube_stack, or a task of your own (docs/tutorial_task.md).

    By default the one that the server's policy was trained for."""
    robot: Literal["workcell"] = "workcell"
    """The simulated workcell; robots of your own have a script of their own (examples/README.md)."""
    regime: Literal["initial", "recovery"] = "recovery"
    """Which starts: ordinary ones, or failures."""
    start: int = 0
    """The first start, by index from 0."""
    rollouts: int = 1
    """One after another, from --start on."""
    starts_seed: str = "comparison"
    """Which starts, by name, as in evaluate."""
    plain_room: bool = False
    """Always the same light, colours and cameras, as in evaluate."""
    time: Literal["real", "simulated"] = "real"
    """simulated: the world waits for every answer, and rollouts can be repeated exactly."""
    shadow: bool = False
    """Compute and log everything, never move the robot; ends after ten seconds of real time."""
    slow: float = 1.0
    """Share of the policy's pace and of the highest velocities, 0..1."""
    replan: int | None = None
    """Steps of a chunk to execute before the next one takes over; 35 by default, of a short chunk half."""
    ensemble: bool = False
    """Average overlapping chunks (ACT)."""
    blend: float | None = None
    """Seconds over which a new chunk takes over; 0.3 by default, 0 in simulated time and with --ensemble."""
    seconds: float | None = None
    """A rollout's time limit; the task's by default, as in evaluate."""
    api_key_file: Path | None = None
    """A file with the key that the server asks for."""
    log: Path = Path("control.jsonl")
    """Every chunk, clamp and stop is added to this file."""
    record: Path | None = None
    """A folder for a film of each rollout and for the joints of all its control cycles (.npz)."""

    def run(self) -> int:
        from egorecovery.cli.console import console
        from egorecovery.robot import read_limits
        from egorecovery.robot.event_log import EventLog
        from egorecovery.robot.reporting import stop_times
        from egorecovery.robot.workcell_robot import WorkcellRobot

        if self.rollouts < 1 or self.start < 0:
            raise RecipeError(f"rollouts must be at least 1 and start at least 0, got {self.rollouts} and {self.start}")
        if self.shadow and self.time == "simulated":
            raise RecipeError("--shadow needs --time real: in simulated time nothing would happen")
        if self.record and self.time == "simulated":
            raise RecipeError("--record needs --time real; in simulated time 'egorecovery evaluate --film' films")
        if self.limits.is_dir():
            raise RobotError(f"--limits names a file, and {self.limits} is a folder; examples/limits has some to copy")
        limits = read_limits(self.limits)
        with self._connect() as client:
            metadata = client.metadata
        task = self._task_of(metadata)
        console.print(
            f"server: {metadata.model} ({metadata.action_hz:g} Hz, chunks of {metadata.horizon})", soft_wrap=True
        )
        for line in stop_times(limits, WorkcellRobot.rate_hz):
            console.print(line, soft_wrap=True)
        jobs = [self._job(task, self.start + number, metadata) for number in range(self.rollouts)]
        stopped = 0
        with EventLog(self.log) as log:
            log.start(0.0, server=self.server, task=task, limits=str(self.limits), shadow=self.shadow, slow=self.slow)
            for job in jobs:
                log("rollout", 0.0, regime=job.regime, index=job.index, starts_seed=self.starts_seed)
                stopped += self._roll(job, limits, log)
        console.print(log.summary, soft_wrap=True)
        if self.record:
            console.print(f"films and motion: {self.record}", soft_wrap=True)
        console.print(f"next: grep -v chunk {shlex.quote(str(self.log))} | tail", soft_wrap=True)
        return 1 if stopped else 0

    def _roll(self, job: "RolloutJob", limits: "Limits", log: "EventLog") -> bool:
        """Whether a fault stopped the robot."""
        from egorecovery.cli.console import console
        from egorecovery.robot.reporting import report_lines
        from egorecovery.robot.running import report_of
        from egorecovery.robot.served_rollout import roll_in_real_time, roll_served

        mode = self._mode(job)
        if self.time == "simulated":
            ending, controller = roll_served(job, self._connect, limits, mode, log)
            report = report_of(controller)
        else:
            watched_s = SHADOW_S if self.shadow else None
            ending, report = roll_in_real_time(job, self._connect, limits, mode, log, watched_s, self.record)
        console.print(f"{job.regime} start {job.index}: {_said(ending)}", soft_wrap=True)
        for line in report_lines(report):
            console.print(f"  {line}", soft_wrap=True)
        return not report.ended_well

    def _connect(self) -> "PolicyClient":
        from egorecovery.serving.access import read_api_key
        from egorecovery.serving.client import PolicyClient

        key = read_api_key(self.api_key_file) if self.api_key_file else None
        return PolicyClient(self.server, api_key=key)

    def _mode(self, job: "RolloutJob") -> "Mode":
        from egorecovery.robot import Mode
        from egorecovery.robot.script import BLEND_S
        from egorecovery.robot.served_rollout import playback_of

        usual_s = 0.0 if self.ensemble or self.time == "simulated" else BLEND_S
        playback = replace(playback_of(job.protocol), blend_s=usual_s if self.blend is None else self.blend)
        return Mode(shadow=self.shadow, slow=self.slow, playback=playback)

    def _task_of(self, metadata: "ServerMetadata") -> str:
        if self.task is None and metadata.task is None:
            raise RobotError("the server does not say what its policy was trained for: name the task with --task")
        if self.task and metadata.task not in (None, self.task):
            raise RobotError(
                f"the server's policy was trained for {metadata.task}, not for {self.task}; give --task {metadata.task}"
            )
        return self.task or str(metadata.task)

    def _job(self, task: str, index: int, metadata: "ServerMetadata") -> "RolloutJob":
        from egorecovery.episodes import Camera
        from egorecovery.evaluation import bench_protocol
        from egorecovery.evaluation.rollout import RolloutJob

        unknown = [camera for camera in metadata.cameras if camera not in list(Camera)]
        if unknown:
            raise RobotError(f"the policy looks through {', '.join(unknown)}; the workcell has {', '.join(Camera)}")
        named = bench_protocol(task, metadata.horizon)
        if self.seconds is not None and not self.seconds > named.stable_s:
            raise RecipeError(
                f"--seconds must be more than {named.stable_s:g}: success is judged over {named.stable_s:g} s"
            )
        protocol = replace(
            named,
            starts_seed=self.starts_seed,
            varied_appearance=not self.plain_room,
            replan_steps=self.replan if self.replan is not None else 1 if self.ensemble else named.replan_steps,
            ensemble=self.ensemble,
            time_limit_s=self.seconds if self.seconds is not None else named.time_limit_s,
        )
        return RolloutJob(
            task=task,
            regime=self.regime,
            index=index,
            protocol=protocol,
            cameras=tuple(Camera(camera) for camera in metadata.cameras),
            image_size=metadata.image_size,
            hidden_embodiment=metadata.hidden_embodiment,
        )


def _said(ending: "Ending | None") -> str:
    if ending is None:
        return "not judged"
    return f"{ending.result} after {ending.duration_s:.1f} s ({ending.reason})"
