"""End and outcome of a rollout: the paper's protocol as pure functions and a small state machine."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from egorecovery.episodes import RATE_HZ
from egorecovery.episodes.vocabulary import STATE_DIM
from egorecovery.errors import RecipeError

_ARMS = np.delete(np.arange(STATE_DIM), [6, 13])  # without grippers, which a task opens and closes


class Result(StrEnum):
    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a rollout."""

    result: Result
    reason: str
    frame: int

    @property
    def succeeded(self) -> bool:
        return self.result is Result.SUCCESS


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Time limit and early ends of a rollout (appendix, closed-loop evaluation)."""

    time_limit_s: float = 300.0
    stable_s: float = 3.0  # the goal must hold this long
    home_rad: float = 0.12  # returning this close to the initial pose is a reset, which ends the rollout,
    away_rad: float = 0.45  # after an arm has been this far from it

    def __post_init__(self) -> None:
        if not 0 < self.stable_s < self.time_limit_s:
            raise RecipeError(
                f"the time limit must be more than {self.stable_s:g} s, over which success is judged, and that more "
                f"than 0 s; got {self.time_limit_s:g} s"
            )
        if not 0 < self.home_rad < self.away_rad:
            raise RecipeError(f"home_rad must lie between 0 and away_rad, got {self.home_rad} and {self.away_rad}")


class Judge:
    """Judges one rollout frame by frame. All inputs are arguments, so it can be tested on synthetic states."""

    def __init__(self, protocol: Protocol, home: Float[ndarray, "14"]) -> None:
        self.protocol = protocol
        self._home = home[_ARMS]
        self.frame = -1
        self._goal_since: int | None = None
        self._has_left_home = False

    def watch(self, *, goal: bool, terminal: str | None, joints: Float[ndarray, "14"] | None) -> Outcome | None:
        """The outcome, once there is one. `terminal` describes the task's terminal failure, if any.

        Without `joints` the reset rule does not apply: a person has no initial pose to return to.
        """
        self.frame += 1
        if terminal is not None:
            return Outcome(Result.FAILURE, terminal, self.frame)
        if not goal:
            self._goal_since = None
        elif self._goal_since is None:
            self._goal_since = self.frame
        if self._goal_since is not None and self.frame - self._goal_since >= self.protocol.stable_s * RATE_HZ:
            return Outcome(Result.SUCCESS, "goal held", self.frame)
        if joints is not None and self._is_reset(joints) and not goal:
            return Outcome(Result.FAILURE, "reset: the robot returned to its initial pose", self.frame)
        if self.frame >= self.protocol.time_limit_s * RATE_HZ:
            return Outcome(Result.FAILURE, "time limit", self.frame)
        return None

    def _is_reset(self, joints: Float[ndarray, "14"]) -> bool:
        """Whether the robot returned to its initial pose after leaving it."""
        distance_rad = float(np.abs(joints[_ARMS] - self._home).max())
        self._has_left_home |= distance_rad > self.protocol.away_rad
        return self._has_left_home and distance_rad < self.protocol.home_rad
