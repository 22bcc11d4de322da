"""Human-like trajectories between waypoints: smooth, slightly curved, with random variation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator
from scipy.spatial.transform import Rotation, Slerp

from egorecovery.episodes import RATE_HZ, Side
from egorecovery.workcell.kinematics import ToolPose
from egorecovery.workcell.maneuver import Waypoint


@dataclass(frozen=True, kw_only=True)
class Style:
    """Motion parameters of a demonstrator. Speeds are means over a leg; minimum jerk peaks at 1.9 times the mean."""

    speed_mps: float
    turn_radps: float
    grip_s: float  # to open or close the fingers fully
    shortest_s: float  # shortest duration of a leg
    variation: float  # of each leg's duration, as the sigma of its logarithm
    arc: float  # bulge of a free leg, as a share of its length
    hesitation: float = 0.0  # probability of a pause before a leg
    hesitation_s: float = 0.0  # its longest duration
    tremor_m: float = 0.0
    tremor_hz: float = 9.0  # physiological tremor


# A teleoperated arm is slow and steady. A hand is twice as fast, less straight, and trembles.
TELEOPERATOR = Style(speed_mps=0.16, turn_radps=1.2, grip_s=0.5, shortest_s=0.2, variation=0.12, arc=0.06)
PERSON = Style(
    speed_mps=0.34,  # faster motion would be rejected as a tracker's jump (30 mm per frame)
    turn_radps=2.2,
    grip_s=0.25,
    shortest_s=0.16,
    variation=0.25,
    arc=0.16,
    hesitation=0.15,
    hesitation_s=0.25,
    tremor_m=0.0006,
)


@dataclass(frozen=True, eq=False)
class HandTarget:
    """The commanded pose of one hand at one tick."""

    pose: ToolPose
    opening_01: float
    holds_m: float = 0.0


Hands = Mapping[Side, HandTarget]


def leg(start: Hands, waypoint: Waypoint, style: Style, rng: Generator) -> Iterator[dict[Side, HandTarget]]:
    """Poses of both hands, tick by tick, from their current poses to a waypoint. Both arrive together."""
    movements = {side: _Movement(start[side], waypoint, side, style, rng) for side in Side}
    pause_s = rng.uniform(0, style.hesitation_s) if rng.random() < style.hesitation else 0.0
    for _ in range(round(pause_s * RATE_HZ)):
        yield dict(start)
    seconds = max(movement.seconds for movement in movements.values())
    seconds *= float(np.exp(rng.normal(0, style.variation))) / waypoint.pace
    seconds = max(seconds, max(movement.length_m for movement in movements.values()) / waypoint.at_most_mps)
    ticks = max(round(max(seconds, style.shortest_s) * RATE_HZ), 1)
    for tick in range(1, ticks + 1):
        yield {side: movement.at(eased(tick / ticks)) for side, movement in movements.items()}
    arrived = {side: movement.at(1.0) for side, movement in movements.items()}
    for _ in range(round(waypoint.wait_s * RATE_HZ)):
        yield dict(arrived)


def eased(along: float) -> float:
    """Minimum jerk: the covered share of a path at a share of its duration."""
    return along**3 * (10 - 15 * along + 6 * along**2)


class _Movement:
    """One hand's part of a leg."""

    def __init__(self, start: HandTarget, waypoint: Waypoint, side: Side, style: Style, rng: Generator) -> None:
        reach = waypoint.reaches.get(side)
        self._start = start
        self._end = start if reach is None else HandTarget(reach.pose, reach.opening_01, reach.holds_m)
        travel_m = self._end.pose.position_m - start.pose.position_m
        turn_rad = float((self._end.pose.rotation * start.pose.rotation.inv()).magnitude())
        self.length_m = float(np.linalg.norm(travel_m))
        self.seconds = max(
            self.length_m / style.speed_mps,
            turn_rad / style.turn_radps,
            abs(self._end.opening_01 - start.opening_01) * style.grip_s,
        )
        self._bulge_m = np.zeros(3) if waypoint.straight else _bulge(travel_m, style.arc, rng)
        self._turn = None
        if turn_rad > 1e-6:
            self._turn = Slerp([0, 1], Rotation.concatenate([start.pose.rotation, self._end.pose.rotation]))

    def at(self, along: float) -> HandTarget:
        start, end = self._start, self._end
        travel_m = end.pose.position_m - start.pose.position_m
        position_m = start.pose.position_m + along * travel_m + 4 * along * (1 - along) * self._bulge_m
        rotation = end.pose.rotation if self._turn is None else self._turn(along)
        opening = start.opening_01 + along * (end.opening_01 - start.opening_01)
        return HandTarget(ToolPose(position_m, rotation), opening, end.holds_m)


def _bulge(travel_m: Float[ndarray, "3"], arc: float, rng: Generator) -> Float[ndarray, "3"]:
    """The direction of the arc: sideways or upwards, across the path, never down into the table."""
    length_m = float(np.linalg.norm(travel_m))
    if length_m < 1e-6:
        return np.zeros(3)
    forward = travel_m / length_m
    sideways = rng.normal(0, 1, 3)
    sideways[2] = abs(sideways[2])
    sideways -= forward * (forward @ sideways)
    sideways[2] = max(sideways[2], 0.0)
    return arc * length_m * rng.uniform(0.3, 1.0) * sideways / max(float(np.linalg.norm(sideways)), 1e-6)
