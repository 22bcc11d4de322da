"""Limits of a robot's joints, read strictly from a JSON file. No robot moves without one.

Every key is required, no other is allowed, and every number must be plausible for a robot. `JointLimits` and `Limits`
explain each limit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from egorecovery.errors import LimitsError
from egorecovery.robot.robot import Joints
from egorecovery.storage.bounded_json import read_named_json

SCHEMA = 1
LARGEST_POSITION = 4 * math.pi  # rad, two turns: more is a limit in degrees
LARGEST_VELOCITY = 100.0  # per second: more is a limit in degrees, or no limit
LARGEST_ACCELERATION = 1e5  # per second squared
LONGEST_STOP_S = 3.0  # from the highest velocity to rest; a longer one is no stop
LONGEST_WAIT_S = 10.0  # upper bound of each time below


@dataclass(frozen=True, kw_only=True)
class JointLimits:
    """One joint: radians, or 0..1 for a gripper; velocities per second."""

    name: str
    lower: float
    upper: float
    velocity: float  # highest, in either direction
    acceleration: float  # highest; every stop brakes with it
    jump: float  # a target farther than this from the previous one, or from the range, is a fault
    tracking_error: float | None  # a joint farther than this from its command is a fault; null: not watched


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of all joints in the robot's order, and the times after which it is stopped."""

    joints: tuple[JointLimits, ...]
    ramp_in_s: float  # time to full speed after a start; 0 for none
    observation_age_s: float  # older observations are stale
    answer_s: float  # longest time from a chunk being due to its arrival
    hold_s: float  # how long the last action is held without a newer one

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
    record = _object(content, where, ("schema", *_names(Limits)))
    if record["schema"] != SCHEMA or isinstance(record["schema"], bool):
        raise LimitsError(f"{where}: schema must be {SCHEMA}, got {record['schema']!r:.40}")
    joints = record["joints"]
    if not isinstance(joints, list) or not joints:
        raise LimitsError(f"{where}: joints must be a list with one entry per joint of the robot")
    limits = Limits(
        joints=tuple(_joint(joint, f"{where}: joints[{index}]") for index, joint in enumerate(joints)),
        ramp_in_s=_number(record["ramp_in_s"], f"{where}: ramp_in_s", 0.0, LONGEST_WAIT_S),
        **{
            name: _number(record[name], f"{where}: {name}", 0.0, LONGEST_WAIT_S, above_least=True)
            for name in ("observation_age_s", "answer_s", "hold_s")
        },
    )
    twice = sorted({name for name in limits.names if limits.names.count(name) > 1})
    if twice:
        raise LimitsError(f"{where}: joints {', '.join(twice)} are there twice")
    return limits


def _joint(content: object, where: str) -> JointLimits:
    record = _object(content, where, _names(JointLimits))
    name = record["name"]
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise LimitsError(f"{where}: name must be a text, got {name!r:.40}")
    where = f"{where} ({name})"
    joint = JointLimits(
        name=name,
        lower=_number(record["lower"], f"{where}: lower", -LARGEST_POSITION, LARGEST_POSITION),
        upper=_number(record["upper"], f"{where}: upper", -LARGEST_POSITION, LARGEST_POSITION),
        velocity=_number(record["velocity"], f"{where}: velocity", 0.0, LARGEST_VELOCITY, above_least=True),
        acceleration=_number(
            record["acceleration"], f"{where}: acceleration", 0.0, LARGEST_ACCELERATION, above_least=True
        ),
        jump=_number(record["jump"], f"{where}: jump", 0.0, 2 * LARGEST_POSITION, above_least=True),
        tracking_error=None
        if record["tracking_error"] is None
        else _number(record["tracking_error"], f"{where}: tracking_error", 0.0, 2 * LARGEST_POSITION, above_least=True),
    )
    if joint.lower >= joint.upper:
        raise LimitsError(f"{where}: lower must be below upper, got {joint.lower:g} and {joint.upper:g}")
    stop_s = joint.velocity / joint.acceleration
    if stop_s > LONGEST_STOP_S:
        raise LimitsError(
            f"{where}: a stop from {joint.velocity:g} per second would take {stop_s:.3g} s at {joint.acceleration:g} "
            f"per second squared (at most {LONGEST_STOP_S:g} s); raise acceleration or lower velocity"
        )
    return joint


def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _object(content: object, where: str, wanted: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise LimitsError(f"{where}: must be an object with {', '.join(wanted)}, got {type(content).__name__}")
    missing = [name for name in wanted if name not in content]
    if missing:
        raise LimitsError(f"{where}: {', '.join(missing)} must be given: no limit has a default")
    unknown = [str(name) for name in content if name not in wanted]
    if unknown:
        raise LimitsError(f"{where}: there is no {', '.join(unknown)[:60]}; known are {', '.join(wanted)}")
    return content


def _number(value: object, where: str, least: float, most: float, *, above_least: bool = False) -> float:
    """A finite number within bounds. `above_least` excludes the lower bound."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LimitsError(f"{where}: must be a number, got {value!r:.40}")
    if not (least < value <= most if above_least else least <= value <= most):  # NaN is in no range
        raise LimitsError(
            f"{where}: must be {'above' if above_least else 'from'} {least:.4g} and at most {most:.4g}, "
            f"got {value!r:.40}"
        )
    return float(value)
