"""Decides the command of every control cycle: the policy's action within limits, or braking to rest.

The phases are ready -> running <-> holding -> stopping -> stopped. A stopped robot moves again only after a person has
re-armed it. Any fault leads to stopping, which brakes all joints at their acceleration limits. Times and measurements
are arguments: nothing here waits, reads a clock or talks to a robot.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from egorecovery.robot.command_filter import Clamp, CommandFilter, Motion
from egorecovery.robot.limits import Limits
from egorecovery.robot.robot import Joints, Measurement

EARLY_S = 0.005  # a timestamp this far in the future is clock jitter; more means another clock


class Phase(StrEnum):
    READY = "ready"  # nothing has been sent yet
    RUNNING = "running"
    HOLDING = "holding"  # the last action is held because no newer one has arrived
    STOPPING = "stopping"
    STOPPED = "stopped"  # at rest, until a person re-arms


class Cause(StrEnum):
    """Causes of a stop."""

    FINISHED = "finished"
    PERSON = "person"
    NOT_FINITE = "not finite"
    FIRST_COMMAND = "first command"
    JUMP = "jump"
    RANGE = "range"
    TRACKING = "tracking error"
    STALE_JOINTS = "stale joints"
    NO_ANSWER = "no answer"
    NO_ACTION = "no action"
    SERVER = "server"
    DRIVER = "driver"


@dataclass(frozen=True)
class Fault:
    """Why the robot was stopped: cause and details."""

    cause: Cause
    reason: str  # with joint, value and limit


@dataclass(frozen=True, eq=False)
class Cycle:
    """The result of one control cycle."""

    phase: Phase
    command: Joints | None  # None: send nothing (ready), or hold (stopped)
    clamps: Mapping[str, Clamp] = field(default_factory=dict)


class Guard:
    """The guard of one robot. Not thread-safe: `controller.Controller` locks it."""

    def __init__(self, limits: Limits, rate_hz: float, *, watch_tracking: bool = True) -> None:
        self.phase = Phase.READY
        self.fault: Fault | None = None
        self._limits = limits
        self._filter = CommandFilter(limits, rate_hz)
        self._jump = limits.of_each("jump")
        self._tracking_error = limits.of_each("tracking_error") if watch_tracking else np.full(len(self._jump), np.inf)
        self._motion: Motion | None = None  # None until the first command
        self._wanted: Joints | None = None
        self._held_since_s: float | None = None
        self._last_cycle_s: float | None = None
        self.longest_gap_s = max(limits.hold_s, 3.0 / rate_hz)  # between two cycles while it moves
        # The first command brings a start outside the range inside; that distance must not be a jump.
        self._outside = np.minimum(self._jump, limits.of_each("velocity") / rate_hz)

    def cycle(
        self, now_s: float, measured: Measurement, wanted: Joints | None, *, fresh: bool = True, speed: float = 1.0
    ) -> Cycle:
        """The command of this cycle.

        `wanted` is None before the first chunk. `fresh` is False if `wanted` repeats the last action because no newer
        one has arrived. `speed` scales the highest velocity.
        """
        if self.phase in (Phase.READY, Phase.RUNNING, Phase.HOLDING):
            fault = (
                self._gap_fault(now_s)
                or self._measured_fault(now_s, measured)
                or self._wanted_fault(now_s, measured, wanted, fresh)
            )
            if fault is not None:
                self.stop(fault)
        self._last_cycle_s = now_s
        if self.phase is Phase.STOPPING:
            return self._brake()
        if self.phase is Phase.STOPPED or wanted is None:
            return Cycle(self.phase, None)
        motion = self._motion or Motion.at_rest(np.clip(measured.joints, self._filter.lower, self._filter.upper))
        self._motion, clamps = self._filter.follow(motion, wanted, speed)
        self._wanted = wanted
        self.phase = Phase.RUNNING if fresh else Phase.HOLDING
        return Cycle(self.phase, self._motion.position, clamps)

    def switch_fault(self, apart: Joints) -> Fault | None:
        """The fault of a new chunk that starts too far from the previous one. Blending must not hide such a jump."""
        return self._worst(Cause.JUMP, np.abs(apart), self._jump, "would jump by {0:.3g} at a new chunk")

    def first_fault(self, apart: Joints) -> Fault | None:
        """The fault of a first action that is too far from the measured pose. Blending must not hide it either."""
        return self._worst(Cause.FIRST_COMMAND, np.abs(apart), self._jump, "would first move by {0:.3g}")

    def stop(self, fault: Fault) -> None:
        """Starts braking, from any phase. The first fault is kept."""
        if self.phase in (Phase.STOPPING, Phase.STOPPED):
            return
        self.fault = fault
        self.phase = Phase.STOPPED if self._motion is None or self._motion.rests else Phase.STOPPING

    def rearm(self) -> bool:
        """Re-arms a robot at rest. The next command starts from the measured pose, like the first."""
        if self.phase is not Phase.STOPPED:
            return False
        self.phase, self.fault = Phase.READY, None
        self._motion = self._wanted = self._held_since_s = None
        return True

    def _brake(self) -> Cycle:
        assert self._motion is not None
        self._motion = self._filter.brake(self._motion)
        if self._motion.rests:
            self.phase = Phase.STOPPED
        return Cycle(Phase.STOPPING, self._motion.position)

    def _gap_fault(self, now_s: float) -> Fault | None:
        """The fault of a gap between cycles: a suspended process must not continue its motion."""
        if self._motion is None or self._last_cycle_s is None:
            return None
        gap_s = now_s - self._last_cycle_s
        if gap_s <= self.longest_gap_s:
            return None
        return Fault(Cause.DRIVER, f"there was no control cycle for {gap_s:.2f} s (limit {self.longest_gap_s:g} s)")

    def _measured_fault(self, now_s: float, measured: Measurement) -> Fault | None:
        joints = measured.joints
        if joints.shape != self._jump.shape or not np.isfinite(joints).all():
            return Fault(Cause.NOT_FINITE, f"measured joints must be {len(self._jump)} finite numbers, got {joints}")
        stale = staleness(now_s, measured.captured_s, self._limits.observation_age_s)
        if stale is not None:
            return Fault(Cause.STALE_JOINTS, f"measured joints are {stale}")
        if self._motion is None:
            return None
        off = np.abs(joints - self._motion.position)
        return self._worst(Cause.TRACKING, off, self._tracking_error, "is {0:.3g} away from its command")

    def _wanted_fault(self, now_s: float, measured: Measurement, wanted: Joints | None, fresh: bool) -> Fault | None:
        if wanted is None:
            return None
        if wanted.shape != self._jump.shape or not np.isfinite(wanted).all():
            return Fault(Cause.NOT_FINITE, f"an action must be {len(self._jump)} finite numbers, got {wanted}")
        beyond = np.maximum(self._filter.lower - wanted, wanted - self._filter.upper)
        if self._wanted is None:
            outside = np.maximum(self._filter.lower - measured.joints, measured.joints - self._filter.upper)
            fault = self._worst(
                Cause.RANGE, outside, self._outside, "stands {0:.3g} outside its range"
            ) or self.first_fault(wanted - measured.joints)
        else:
            fault = self._worst(
                Cause.JUMP, np.abs(wanted - self._wanted), self._jump, "would move by {0:.3g} in one step"
            )
        fault = self._worst(Cause.RANGE, beyond, self._jump, "would go {0:.3g} beyond its range") or fault
        return fault or self._held_fault(now_s, fresh)

    def _held_fault(self, now_s: float, fresh: bool) -> Fault | None:
        if fresh:
            self._held_since_s = None
            return None
        if self._held_since_s is None:
            self._held_since_s = now_s
        held_s = now_s - self._held_since_s
        if held_s <= self._limits.hold_s:
            return None
        return Fault(Cause.NO_ACTION, f"the last action was held for {held_s:.2f} s (limit {self._limits.hold_s:g} s)")

    def _worst(self, cause: Cause, values: Joints, limits: Joints, template: str) -> Fault | None:
        """The fault of the joint farthest beyond its limit, or None."""
        excess = values - limits
        joint = int(np.argmax(excess))
        if not excess[joint] > 0:
            return None
        return Fault(cause, f"{self._filter.names[joint]} {template.format(values[joint])} (limit {limits[joint]:g})")


def staleness(now_s: float, captured_s: float, limit_s: float) -> str | None:
    """Why a timestamp is too old or from another clock, or None."""
    age_s = now_s - captured_s
    if -EARLY_S <= age_s <= limit_s:
        return None
    if age_s < -EARLY_S:
        return f"stamped {-age_s:.3g} s in the future: stamps must come from this computer's monotonic clock"
    return f"{age_s:.3g} s old (limit {limit_s:g} s)"
