"""The controller of one robot: chunks in, one safe command per cycle out. Thread-safe; time is an argument."""

import math
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from egorecovery.errors import RecipeError
from egorecovery.robot.chunk_player import ChunkPlayer, Playback
from egorecovery.robot.command_filter import Clamp
from egorecovery.robot.event_log import Log, no_log
from egorecovery.robot.guard import Cause, Cycle, Fault, Guard, Phase
from egorecovery.robot.limits import Limits
from egorecovery.robot.motion import OnCycle
from egorecovery.robot.robot import Joints, Measurement
from egorecovery.serving.client import Reply

FIRST_SPEED = 0.1  # at the beginning of the ramp
MOVING = (Phase.RUNNING, Phase.HOLDING)


@dataclass(frozen=True, kw_only=True)
class Mode:
    """How a policy may use the robot."""

    shadow: bool = False  # compute and log everything, never move the robot
    slow: float = 1.0  # factor of the policy's pace and of the highest velocities, 0..1
    playback: Playback = field(default_factory=Playback)

    def __post_init__(self) -> None:
        if not 0 < self.slow <= 1:
            raise RecipeError(f"slow must be above 0 and at most 1, got {self.slow}")


@dataclass(frozen=True, kw_only=True)
class Status:
    """The controller's state, for the operator."""

    phase: Phase = Phase.READY
    fault: Fault | None = None
    gate: float | None = None
    intent: tuple[float, ...] | None = None
    chunks: int = 0
    cycles: int = 0  # control cycles with a command
    clamps: int = 0  # clamped joints, summed over cycles
    delay_s: float = 0.0  # of the last answer, from the capture of its observation
    speed: float = 0.0  # factor of the policy's pace


class Controller:
    """Connects chunk player and guard. Its lock is held for arithmetic only, never during I/O."""

    def __init__(
        self, limits: Limits, rate_hz: float, mode: Mode, log: Log = no_log, on_cycle: OnCycle | None = None
    ) -> None:
        self.limits = limits
        self.mode = mode
        self._player = ChunkPlayer(mode.playback, rate_hz)
        # In shadow mode the joints do not follow the commands.
        self._guard = Guard(limits, rate_hz, watch_tracking=not mode.shadow)
        self.longest_gap_s = self._guard.longest_gap_s  # between two cycles
        self._log, self._on_cycle = log, on_cycle
        self._lock = threading.RLock()
        self._status = Status()
        self._clamped: Counter[tuple[str, Clamp]] = Counter()
        self._rearmed_s = -math.inf
        self._moving_since_s: float | None = None
        self._due_since_s: float | None = None  # when the next chunk became due
        self._refusal = ""  # why an observation was not used

    @property
    def status(self) -> Status:
        with self._lock:
            return self._status

    @property
    def phase(self) -> Phase:
        with self._lock:
            return self._guard.phase

    @property
    def clamped(self) -> Mapping[tuple[str, Clamp], int]:
        """The number of clamped commands per joint and reason."""
        with self._lock:
            return dict(self._clamped)

    def wants_chunk(self, now_s: float) -> bool:
        """Whether to request a chunk now. Never while stopping or stopped."""
        with self._lock:
            return self._is_armed and self._player.wants_chunk(self._speed(now_s))

    def add(self, reply: Reply, captured_s: float, now_s: float) -> None:
        """Adds the policy's answer to an observation."""
        with self._lock:
            if not self._is_armed or captured_s < self._rearmed_s:
                return  # requested before a stop and therefore not played
            skipped = self._player.add(reply.actions, captured_s, now_s)
            if self.mode.playback.blend_s and self._player.switch is not None:
                fault = self._guard.switch_fault(self._player.switch)
                if fault is not None:
                    self.stop(fault, now_s)
            self._due_since_s, self._refusal = None, ""
            self._status = replace(
                self._status,
                gate=reply.gate,
                intent=reply.intent,
                chunks=self._status.chunks + 1,
                delay_s=now_s - captured_s,
            )
            self._log(
                "chunk", now_s, chunk_id=reply.chunk_id, gate=reply.gate, delay_s=now_s - captured_s, skipped=skipped
            )

    def refuse(self, reason: str, now_s: float) -> None:
        """Reports an observation that cannot be sent to the policy. The robot moves on until an answer is overdue."""
        with self._lock:
            if reason != self._refusal and self._is_armed:
                self._log("refused", now_s, reason=reason)
            self._refusal = reason

    def stop(self, fault: Fault, now_s: float) -> None:
        """Brakes to rest, from any thread."""
        with self._lock:
            was = self._guard.phase
            self._guard.stop(fault)
            self._log_transition(was, now_s)

    def rearm(self, by: str, now_s: float) -> bool:
        """Lets the robot move again after a person's decision. Only from rest."""
        with self._lock:
            if not self._guard.rearm():
                return False
            self._player.reset()
            self._rearmed_s = now_s
            self._moving_since_s = self._due_since_s = None
            self._status = replace(self._status, phase=Phase.READY, fault=None, gate=None, intent=None)
            self._log("rearmed", now_s, by=by)
            return True

    def cycle(self, now_s: float, measured: Measurement) -> Cycle:
        """The command of this control cycle."""
        with self._lock:
            was = self._guard.phase
            wanted, fresh, speed = None, True, self._speed(now_s)
            if self._is_armed:
                self._watch_answer(now_s, speed)
                self._blend_start(measured)
                wanted, fresh = self._player.next_action(now_s, speed)
            cycle = self._guard.cycle(now_s, measured, wanted, fresh=fresh, speed=speed)
            if cycle.command is not None and self._moving_since_s is None:
                self._moving_since_s = now_s
            self._count(cycle, wanted, now_s)
            self._log_transition(was, now_s)
            self._status = replace(self._status, speed=speed if cycle.phase in MOVING else 0.0)
            if self._on_cycle is not None:
                self._on_cycle(now_s, measured, wanted, cycle)
            return cycle

    @property
    def _is_armed(self) -> bool:
        return self._guard.phase in (Phase.READY, *MOVING)

    def _speed(self, now_s: float) -> float:
        """Factor of the policy's pace. The ramp slows the policy, so that the arms follow its path from the start."""
        if self._moving_since_s is None:
            ramp = 0.0 if self.limits.ramp_in_s else 1.0
        else:
            moving_s = now_s - self._moving_since_s
            ramp = moving_s / self.limits.ramp_in_s if moving_s < self.limits.ramp_in_s else 1.0
        return self.mode.slow * max(FIRST_SPEED, ramp)

    def _blend_start(self, measured: Measurement) -> None:
        """Starts the first chunk at the measured pose, unless its first action is too far from it.

        Joints that objects may block start with their first action: a gripper that holds something does not reach its
        command, and would let go if its measured opening were commanded.
        """
        first = self._player.first_action
        if first is None or not self.mode.playback.blend_s or self._guard.phase is not Phase.READY:
            return
        if measured.joints.shape != first.shape or not np.isfinite(measured.joints).all():
            return  # the guard stops the robot for it
        fault = self._guard.first_fault(measured.joints - first)
        if fault is not None:
            self._guard.stop(fault)
            return
        start = np.clip(measured.joints, self.limits.of_each("lower"), self.limits.of_each("upper"))
        self._player.begin_at(np.where(np.isinf(self.limits.of_each("tracking_error")), first, start))

    def _watch_answer(self, now_s: float, speed: float) -> None:
        """Stops a moving robot whose answer is overdue. A robot at rest may wait for its first answer."""
        if self._guard.phase not in MOVING or not self._player.wants_chunk(speed):
            self._due_since_s = None
            return
        if self._due_since_s is None:
            self._due_since_s = now_s
        late_s = now_s - self._due_since_s
        if late_s > self.limits.answer_s:
            why = f"; {self._refusal}" if self._refusal else ""
            reason = f"no answer for {late_s:.2f} s (limit {self.limits.answer_s:g} s){why}"
            self._guard.stop(Fault(Cause.NO_ANSWER, reason))

    def _count(self, cycle: Cycle, wanted: Joints | None, now_s: float) -> None:
        if cycle.command is not None:
            self._status = replace(self._status, cycles=self._status.cycles + 1)
        if not cycle.clamps:
            return
        assert wanted is not None
        assert cycle.command is not None
        self._clamped.update(cycle.clamps.items())
        self._status = replace(self._status, clamps=self._status.clamps + len(cycle.clamps))
        joints = [(name, self.limits.names.index(name), clamp) for name, clamp in cycle.clamps.items()]
        self._log(
            "clamp",
            now_s,
            joints={
                name: {"rule": str(clamp), "wanted": wanted[joint], "given": cycle.command[joint]}
                for name, joint, clamp in joints
            },
        )

    def _log_transition(self, was: Phase, now_s: float) -> None:
        """Logs a change of phase."""
        now, fault = self._guard.phase, self._guard.fault
        if now is was:
            return
        self._status = replace(self._status, phase=now, fault=fault)
        if fault is not None and was not in (Phase.STOPPING, Phase.STOPPED):
            self._log("stop", now_s, cause=str(fault.cause), reason=fault.reason)
        if now is Phase.STOPPED:
            self._log("at rest", now_s)
        elif now in MOVING:
            self._log(str(now), now_s)
