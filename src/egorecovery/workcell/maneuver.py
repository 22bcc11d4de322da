"""What a demonstrator wants to do, said for a gripper and a hand alike: tool poses to pass, fingers to close.

A script is a generator. It looks at the world between waypoints, so a second try starts from what really happened.
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
    """One hand's next goal."""

    pose: ToolPose
    opening_01: float  # of the gripper; 0 squeezes
    holds_m: float = 0.0  # width of what is between the fingers: a hand closes to it, a gripper is stopped by it


@dataclass(frozen=True, kw_only=True)
class Waypoint:
    """Where the hands go next. A side that is not named stays as it is."""

    reaches: Mapping[Side, Reach] = field(default_factory=dict)
    pace: float = 1.0  # of the demonstrator's own speed; contact wants less
    at_most_mps: float = inf  # whoever moves: a quick hand would fling what it pushes
    straight: bool = False  # no arc: the way matters, not only its end
    wait_s: float = 0.0  # then stand still


@dataclass(frozen=True)
class CorrectionDone:
    """Between two waypoints: the failure is corrected, ordinary execution resumes (t_rec)."""


Script = Iterator[Waypoint | CorrectionDone]


@runtime_checkable
class World(Protocol[Facts]):
    """What a script may look at."""

    def facts(self) -> Facts:
        """The objects, as the task's rules see them."""
        ...

    def tool(self, side: Side) -> ToolPose:
        """The last commanded pose of a hand."""
        ...

    def opening_01(self, side: Side) -> float:
        """The last commanded opening."""
        ...
