"""A recording session: the operator's loop, the sensors, the running clip and the collection log."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from egorecovery import __version__
from egorecovery.capture.clip import ClipFacts, RunningClip
from egorecovery.capture.clocks import SessionClock
from egorecovery.capture.operator_loop import TRANSITIONS, Action, State
from egorecovery.capture.recording_files import DESCRIPTION
from egorecovery.capture.sensor import CameraFrame, RobotSample
from egorecovery.capture.sensor_worker import SensorWorker
from egorecovery.capture.session_log import SessionLog
from egorecovery.capture.stream_meter import StreamFacts, skew_s
from egorecovery.episodes import Camera, EpisodeId, Provenance, Source, Task, episode_id
from egorecovery.episodes.attempt_log import ActivityKind, Attempt
from egorecovery.errors import EgoRecoveryError
from egorecovery.storage.atomic_io import is_full_disk
from egorecovery.storage.containment import exists

UNCOUNTED = {
    State.SYNCHRONISING: ActivityKind.SYNCHRONISATION,
    State.SETTING_UP: ActivityKind.SETUP,
    State.STAGING: ActivityKind.SETUP,  # staging without a recording after it
    State.PAUSED: ActivityKind.PAUSE,
}


@dataclass(frozen=True, kw_only=True)
class RecordingPlan:
    """Task, source and operator of a session."""

    task: Task
    source: Source
    operator: str
    keep_free_bytes: int = 5 * 10**9  # on the disk; below it no clip starts and a running one stops


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The session's state, for the operator's screen."""

    state: State
    state_s: float  # duration of the state
    streams: Mapping[str, StreamFacts]
    lost: Mapping[str, str]  # streams that deliver nothing, and why
    skew_s: float | None
    free_bytes: int
    clip: ClipFacts | None  # the clip that is being recorded or judged
    accepted: int
    discarded: int
    worked_s: float  # since the start, without pauses
    last: str  # a message about the last event


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """An accepted clip that could not become a recording. Its pictures are on the disk."""

    path: Path
    home: Path  # where it belongs
    description: Mapping[str, Any]  # what its `recording.json` would hold
    problem: str


class Recorder:
    """A recording session without keys and screen. One thread calls `press` and `tick`."""

    def __init__(
        self,
        plan: RecordingPlan,
        root: Path,
        cameras: Mapping[Camera, SensorWorker[CameraFrame]],
        robot: SensorWorker[RobotSample] | None,
        clock: SessionClock,
        log: SessionLog,
    ) -> None:
        self.plan, self.root = plan, root
        self.state = State.SYNCHRONISING
        self.recorded: list[EpisodeId] = []
        self.discarded = 0
        self.unfinished: Unfinished | None = None
        self.last = "waiting for every camera"
        self._cameras, self._robot = cameras, robot
        self._clock, self._log = clock, log
        self._began_s = self._since_s = clock.now_s()
        self._paused_s = 0.0
        self._clip: RunningClip | None = None
        self._staging_s = 0.0
        self._verdict: tuple[Attempt, Provenance | None] | None = None  # of the clip whose reset is going on
        self._stopped_s = 0.0

    @property
    def workers(self) -> dict[str, SensorWorker[CameraFrame] | SensorWorker[RobotSample]]:
        named: dict[str, SensorWorker[CameraFrame] | SensorWorker[RobotSample]] = {
            str(camera): worker for camera, worker in self._cameras.items()
        }
        return named if self._robot is None else {**named, "robot": self._robot}

    def press(self, action: Action) -> str:
        """Performs an action and returns a message about the result. An impossible action changes nothing."""
        if action not in TRANSITIONS[self.state]:
            possible = ", ".join(TRANSITIONS[self.state]) or "nothing"
            self.last = f"cannot {action} while {self.state}; possible: {possible}"
        elif action is Action.START:
            self.last = self._start()
        elif action is Action.STOP:
            self.last = self._stop(self._clock.now_s())
        elif action in (Action.ACCEPT, Action.DISCARD):
            self.last = self._judge(accepted=action is Action.ACCEPT)
        else:
            now_s = self._clock.now_s()
            self._leave(now_s)
            self._enter(TRANSITIONS[self.state][action], now_s)
            self.last = str(self.state)
        return self.last

    def tick(self) -> None:
        """Handles events without keys: streams start or fail, a replay ends, the disk fills."""
        lost = {name: worker.lost for name, worker in self.workers.items() if worker.lost}
        if self.state is State.SYNCHRONISING and all(worker.live for worker in self.workers.values()):
            now_s = self._clock.now_s()
            self._leave(now_s)
            self._enter(State.SETTING_UP, now_s)
            self.last = "every stream delivers"
        elif self.state is State.SYNCHRONISING and lost:
            name, why = next(iter(lost.items()))
            self.last = f"waiting for {name}: {why}"
        if self.state is not State.RECORDING or self._clip is None:
            return
        replays = [worker.sensor for worker in self.workers.values() if worker.sensor.replayed]
        if lost:
            name, why = next(iter(lost.items()))
            self._clip.interrupted = f"{name} was lost: {why}"
            self._stop(self._clock.now_s())
            self.last = f"stopped: {self._clip.interrupted}"
        elif replays and all(sensor.at_end for sensor in replays):
            end_s = self._clip.replay_end_s()
            self._clock.skip_to(end_s)
            self._stop(end_s)
            self.last = "the replayed clip has ended; accept or discard?"
        elif self._free_bytes() < self.plan.keep_free_bytes:
            self._stop(self._clock.now_s())
            self.last = f"stopped: {self._disk_is_full()}"

    def close(self) -> None:
        """Ends the session in any state. A clip that is not accepted is discarded; an accepted one never is."""
        try:
            if self.state is State.RECORDING and self._clip is not None:
                self._stop(self._clock.now_s())
            if self.state is State.JUDGING and self._clip is not None and self._clip.accepted:
                self.last = self._judge(accepted=True)
                if self._clip is not None:
                    self._keep(self._clip)
            elif self.state is State.JUDGING and self._clip is not None:
                self._clip.interrupted = "the recorder was ended before the clip was accepted"
                self.last = self._judge(accepted=False)
            if self.state is not State.ENDED:
                now_s = self._clock.now_s()
                self._leave(now_s)
                self._enter(State.ENDED, now_s)
        finally:
            for worker in self.workers.values():
                worker.close()

    def snapshot(self) -> Snapshot:
        facts = {name: worker.meter.facts() for name, worker in self.workers.items()}
        recent = {name: worker.meter.recent_s() for name, worker in self.workers.items()}
        rates = {name: max(stream.wanted_hz, 1.0) for name, stream in facts.items()}
        now_s = self._clock.now_s()
        return Snapshot(
            state=self.state,
            state_s=now_s - self._since_s,
            streams=facts,
            lost={name: worker.lost for name, worker in self.workers.items() if worker.lost},
            skew_s=skew_s(recent, rates),
            free_bytes=self._free_bytes(),
            clip=self._clip.facts(now_s) if self._clip is not None else None,
            accepted=len(self.recorded),
            discarded=self.discarded,
            worked_s=now_s - self._began_s - self._paused_s,
            last=self.last,
        )

    def _start(self) -> str:
        lost = [
            f"{name} ({worker.lost or 'no picture yet'})" for name, worker in self.workers.items() if not worker.live
        ]
        if lost:
            return f"cannot start: {'; '.join(lost)}"
        if self._free_bytes() < self.plan.keep_free_bytes:
            return f"cannot start: {self._disk_is_full()}"
        now_s = self._clock.now_s()
        was = self.state
        if was is State.STAGING or was is State.RESETTING:
            self._staging_s = now_s - self._since_s  # without a key in between, the reset counts as staging
            if was is State.RESETTING:
                self._end_reset(self._since_s)
        else:
            self._staging_s = 0.0
            self._leave(now_s)
        name = self._new_name()
        provenance = self._provenance(now_s, now_s)
        self._clip = RunningClip.begin(
            self.root, name, now_s, self._cameras, self._robot, self._log.interrupted_attempt(name, provenance)
        )
        self._enter(State.RECORDING, now_s)
        return f"recording {name}"

    def _stop(self, stop_s: float) -> str:
        assert self._clip is not None
        self._clip.stop(stop_s, with_hands=self.plan.source.is_human)
        self._stopped_s = stop_s
        self._enter(State.JUDGING, stop_s)
        return f"{stop_s - self._clip.start_s:.1f} s recorded; accept or discard?"

    def _judge(self, *, accepted: bool) -> str:
        clip = self._clip
        assert clip is not None
        if self.state is State.RECORDING:
            self._stop(self._clock.now_s())
        reason = clip.interrupted or ("" if accepted else "discarded by the operator")
        facts = clip.facts(self._stopped_s)
        made = self._made(clip)
        try:
            clip.finish()
        except EgoRecoveryError as error:
            reason = str(error)
        if not reason:
            clip.accepted = True
            try:
                clip.commit(self.plan.task, self.plan.source, made)
            except (EgoRecoveryError, OSError) as error:  # its pictures are on the disk, only its description is not
                clip.problem = str(error)
                advice = "free space" if is_full_disk(error) else "mend what failed"
                return f"cannot accept it yet, it is kept: {advice}, then accept or discard ({error})"
        now_s = self._clock.now_s()
        self._clip = None
        attempt = self._log.attempt(clip.name, made, (reason,) if reason else ())
        self._verdict = (attempt, None if reason else made)
        if reason:
            clip.discard()
            self.discarded += 1
        else:
            self.recorded.append(clip.name)
        self._enter(State.RESETTING, now_s)
        self._end_reset(now_s, keep=True)
        if not reason:
            clip.draft.logged()
        return f"discarded {clip.name}: {reason}" if reason else f"recorded {clip.name} ({facts.seconds:.1f} s)"

    def _keep(self, clip: RunningClip) -> None:
        """Gives an accepted clip up without removing it."""
        described = clip.described(self.plan.task, self.plan.source, self._made(clip))
        path, home = clip.draft.keep(), self.root / clip.name
        self.unfinished = Unfinished(path=path, home=home, description=described, problem=clip.problem)
        self._clip = None

    def _made(self, clip: RunningClip) -> Provenance:
        return replace(self._provenance(clip.start_s, self._stopped_s), details=clip.details())

    def _end_reset(self, end_s: float, *, keep: bool = False) -> None:
        """Saves the duration of judging and reset in the log and in the clip's description."""
        if self._verdict is None:
            return
        attempt, made = self._verdict
        reset_s = round(max(0.0, end_s - self._stopped_s), 3)
        if keep or reset_s != attempt.reset_s:
            attempt = replace(attempt, reset_s=reset_s)
            self._log.add(attempt)
            if made is not None:
                RunningClip.redescribe(self.root / attempt.episode / DESCRIPTION, replace(made, reset_s=reset_s))
        self._verdict = (attempt, made) if keep else None

    def _leave(self, now_s: float) -> None:
        """Logs the time of the state that ends, unless it belongs to an attempt."""
        if self.state is State.RESETTING:
            self._end_reset(now_s)
        elif self.state in UNCOUNTED:
            kind = UNCOUNTED[self.state]
            self._log.add_activity(kind, self._since_s, now_s)
            self._paused_s += (now_s - self._since_s) * (kind is ActivityKind.PAUSE)

    def _enter(self, state: State, since_s: float) -> None:
        self.state, self._since_s = state, since_s

    def _provenance(self, start_s: float, stop_s: float) -> Provenance:
        return Provenance(
            operator=self.plan.operator,
            started_at=self._clock.calendar(start_s),
            stopped_at=self._clock.calendar(stop_s),
            staging_s=round(self._staging_s, 3),
            recorder=f"egorecovery record {__version__}",
        )

    def _new_name(self) -> EpisodeId:
        stamp = self._clock.calendar(self._began_s)[:19].replace("-", "").replace(":", "").replace("T", "-")
        numbers = count(len(self.recorded) + self.discarded + 1)
        names = (episode_id(f"{self.plan.task.name}-{self.plan.source}-{stamp}-{number:04d}") for number in numbers)
        return next(name for name in names if not exists(self.root / name))  # others are of a session of this second

    def _free_bytes(self) -> int:
        return shutil.disk_usage(self.root).free

    def _disk_is_full(self) -> str:
        free, wanted = self._free_bytes() / 1e9, self.plan.keep_free_bytes / 1e9
        return f"{free:.1f} GB free on the disk of {self.root}, {wanted:g} GB are kept (--keep-free-gb)"
