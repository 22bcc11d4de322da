"""Limits of a robot's joints, read strictly from a JSON file. No robot moves without one.

Every key is required, no other is allowed, and every number must be plausible for a robot. `JointLimits` and `Limits`
explain each limit.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from egorecovery.errors import LimitsError
from egorecovery.robot.robot import Joints
from egorecovery.storage.bounded_json import read_named_json
from egorecovery.storage.typed_json import Must, between, from_json

LARGEST_POSITION = 4 * math.pi  # rad, two turns: more is a limit in degrees
LARGEST_VELOCITY = 100.0  # per second: more is a limit in degrees, or no limit
LARGEST_ACCELERATION = 1e5  # per second squared
LONGEST_STOP_S = 3.0  # from the highest velocity to rest; a longer one is no stop
LONGEST_WAIT_S = 10.0  # upper bound of each time below


_Position = Annotated[float, between(-LARGEST_POSITION, LARGEST_POSITION)]
_Distance = Annotated[float, between(0, 2 * LARGEST_POSITION, above_least=True)]
_Velocity = Annotated[float, between(0, LARGEST_VELOCITY, above_least=True)]
_Acceleration = Annotated[float, between(0, LARGEST_ACCELERATION, above_least=True)]
_Seconds = Annotated[float, between(0, LONGEST_WAIT_S, above_least=True)]
_ADVICE = "no limit has a default; examples/limits has some to start from"


@dataclass(frozen=True, kw_only=True)
class JointLimits:
    """One joint: radians, or 0..1 for a gripper; velocities per second."""

    name: Annotated[str, Must("that can be shown", lambda name: bool(name.strip()) and name.isprintable())]
    lower: _Position
    upper: _Position
    velocity: _Velocity  # highest, in either direction
    acceleration: _Acceleration  # highest; every stop brakes with it
    jump: _Distance  # a target farther than this from the previous one, or from the range, is a fault
    tracking_error: _Distance | None  # a joint farther than this from its command is a fault; null: not watched


@dataclass(frozen=True, kw_only=True)
class _LimitsFile:
    """`Limits` as they are in a file; joints are looked at one by one, so that messages name them."""

    schema: Literal[1]
    joints: Annotated[list[Mapping[str, Any]], Must("with one entry per joint of the robot", bool)]
    ramp_in_s: Annotated[float, between(0, LONGEST_WAIT_S)]
    observation_age_s: _Seconds
    answer_s: _Seconds
    hold_s: _Seconds


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of all joints in the robot's order, and the times after which it is stopped."""

    joints: tuple[JointLimits, ...]
    ramp_in_s: Annotated[float, between(0, LONGEST_WAIT_S)]  # time to full speed after a start; 0 for none
    observation_age_s: _Seconds  # older observations are stale
    answer_s: _Seconds  # longest time from a chunk being due to its arrival
    hold_s: _Seconds  # how long the last action is held without a newer one

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(joint.name for joint in self.joints)

    def of_each(self, what: str) -> Joints:
        """One limit of all joints as an array; infinity where there is none."""
        values = [getattr(joint, what) for joint in self.joints]
        return np.array([math.inf if value is None else value for value in values])

    def stop_s(self, rate_hz: float) -> float:
        """The longest duration of a stop, from the control cycle that begins it until all joints rest."""
        cycles = max(math.ceil(joint.velocity * rate_hz / joint.acceleration) for joint in self.joints)
        return cycles / rate_hz


def read_limits(path: Path) -> Limits:
    """The limits in a file."""
    return limits_of(read_named_json(path, LimitsError, "examples/limits has examples"), str(path))


def limits_of(content: object, where: str = "limits") -> Limits:
    """The limits in a JSON object; `where` is for messages."""
    file = from_json(_LimitsFile, content, f"{where}: ", LimitsError, _ADVICE)
    limits = Limits(
        joints=tuple(_joint(joint, f"{where}: joints[{index}]") for index, joint in enumerate(file.joints)),
        ramp_in_s=file.ramp_in_s,
        observation_age_s=file.observation_age_s,
        answer_s=file.answer_s,
        hold_s=file.hold_s,
    )
    twice = sorted({name for name in limits.names if limits.names.count(name) > 1})
    if twice:
        raise LimitsError(f"{where}: joints {', '.join(twice)} are there twice")
    return limits


def _joint(content: Mapping[str, Any], where: str) -> JointLimits:
    """`where` gets the joint's name, for messages, where it has one that can be shown."""
    name = content.get("name")
    if isinstance(name, str) and name.strip() and name.isprintable():
        where = f"{where} ({name:.40})"
    joint = from_json(JointLimits, content, f"{where}: ", LimitsError, _ADVICE)
    if joint.lower >= joint.upper:
        raise LimitsError(f"{where}: lower must be below upper, got {joint.lower:g} and {joint.upper:g}")
    stop_s = joint.velocity / joint.acceleration
    if stop_s > LONGEST_STOP_S:
        raise LimitsError(
            f"{where}: a stop from {joint.velocity:g} per second would take {stop_s:.3g} s at {joint.acceleration:g} "
            f"per second squared (at most {LONGEST_STOP_S:g} s); raise acceleration or lower velocity"
        )
    return joint
