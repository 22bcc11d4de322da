"""Scripts of demonstrators, for grippers and hands alike: tool poses to reach and fingers to close.

A script is a generator. It reads the world between waypoints, so a second attempt starts from the actual state.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Protocol, TypeVar, runtime_checkable

from egorecovery.episodes import Side
from egorecovery.workcell.kinematics import ToolPose

Facts = TypeVar("Facts", covariant=True)


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The next goal of one hand."""

    pose: ToolPose
    opening_01: float  # of the gripper; 0 squeezes
    holds_m: float = 0.0  # width of the object between the fingers; a hand closes to it, a gripper is stopped by it


@dataclass(frozen=True, kw_only=True)
class Waypoint:
    """The next goals of the hands. A side without a goal stays as it is."""

    reaches: Mapping[Side, Reach] = field(default_factory=dict)
    pace: float = 1.0  # factor of the demonstrator's speed; lower in contact
    at_most_mps: float = inf  # for any demonstrator; a fast hand would fling what it pushes
    straight: bool = False  # no arc: the path matters, not only its end
    wait_s: float = 0.0  # standstill afterwards


@dataclass(frozen=True)
class CorrectionDone:
    """Marks, between two waypoints, the end of the correction (t_rec)."""


Script = Iterator[Waypoint | CorrectionDone]


@runtime_checkable
class World(Protocol[Facts]):
    """The state that a script may read."""

    def facts(self) -> Facts:
        """The objects' state, in the terms of the task's rules."""
        ...

    def tool(self, side: Side) -> ToolPose:
        """A hand's last commanded pose."""
        ...

    def opening_01(self, side: Side) -> float:
        """A hand's last commanded opening."""
        ...
