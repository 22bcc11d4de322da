"""How chunks of actions become one action per control cycle, while the next chunk is still being computed.

A chunk answers what was seen when its observation was captured. Until it arrives the robot goes on with the chunk
before, so the new one is entered as far in as the robot has moved meanwhile: by the measured delay, but never by more
steps than were really consumed since the capture. A robot that was held while it waited has consumed none.

Two chunks do not agree about the step at which one takes over from the other. What they differ by there is added to the
new one and fades out over `blend_s`, so that the arms are not jerked at every switch.
"""

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egorecovery.errors import RecipeError
from egorecovery.robot.robot import Joints

REMEMBERED = 1000  # control cycles of which it is known how much had been consumed
LONGEST_BLEND_S = 1.0
DELAYS = 5  # the last answers, whose median says when to ask for the next


@dataclass(frozen=True, kw_only=True)
class Playback:
    """How chunks are executed; the same choices as in evaluation."""

    replan_steps: int = 35  # of a chunk, after which the next one takes over
    ensemble: bool = False  # a weighted mean of all chunks that speak of a step, instead of the newest
    ensemble_decay: float = 0.01  # ACT's m: weights exp(-m i), the oldest chunk first
    blend_s: float = 0.0  # over which a new chunk takes over from the one before; 0 at once, as in evaluation

    def __post_init__(self) -> None:
        if self.replan_steps < 1:
            raise RecipeError(f"replan_steps must be at least 1, got {self.replan_steps}")
        if not 0 <= self.ensemble_decay < np.inf:
            raise RecipeError(f"ensemble_decay must be finite and not be negative, got {self.ensemble_decay}")
        if not 0 <= self.blend_s <= LONGEST_BLEND_S:
            raise RecipeError(f"blend_s must lie in 0..{LONGEST_BLEND_S:g} s, got {self.blend_s}")
        if self.blend_s and self.ensemble:
            raise RecipeError("an ensemble of chunks switches between none: leave out blend_s")


@dataclass(frozen=True, eq=False)
class _Chunk:
    begun: float  # on the axis of consumed steps: where its first action belongs
    actions: NDArray[np.float64]  # (H, A)

    def step_at(self, consumed: float) -> float:
        """How far in it is. Everything asks this: the same distance rounded two ways could be both over and not."""
        return consumed - self.begun

    def speaks_at(self, consumed: float) -> bool:
        return self.step_at(consumed) < len(self.actions)


class ChunkPlayer:
    """Plays chunks at `rate_hz` steps a second, or slower. Pure: all times are arguments."""

    def __init__(self, playback: Playback, rate_hz: float) -> None:
        self._playback = playback
        self._rate_hz = rate_hz
        self._delays_s: deque[float] = deque(maxlen=DELAYS)
        self._is_warm = False  # the first answer takes longest, and says nothing about the others
        self.reset()

    def reset(self) -> None:
        """Forgets all chunks, as after a stop."""
        self._chunks: list[_Chunk] = []
        self._last: Joints | None = None
        self._apart: Joints | None = None  # by how much the chunk before differed from this one where this one began
        self._switched_at = 0.0  # steps consumed by then
        self.consumed = 0.0  # steps played so far; fractions where they are played slowly
        self._history: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)  # (time, consumed by then)

    @property
    def delay_s(self) -> float:
        """What an answer usually takes; 0 until that is known."""
        return float(np.median(self._delays_s)) if self._delays_s else 0.0

    def wants_chunk(self, speed: float = 1.0) -> bool:
        """Early enough for the answer to be there when the replan interval, or a shorter chunk, ends."""
        if not self._chunks:
            return True
        newest = self._chunks[-1]
        due = min(self._playback.replan_steps, len(newest.actions))
        lead = min(math.ceil(self.delay_s * self._rate_hz * speed), due - 1)
        return newest.step_at(self.consumed) >= due - lead

    def add(self, actions: NDArray[np.float64], captured_s: float, now_s: float) -> float:
        """A chunk, the answer to what was captured then. Returns how many of its steps are skipped."""
        delay_s = max(0.0, now_s - captured_s)
        if self._is_warm:
            self._delays_s.append(delay_s)
        self._is_warm = True
        skipped = min(delay_s * self._rate_hz, self.consumed - self._consumed_at(captured_s)) if self._chunks else 0.0
        before = self._planned() if self._chunks else None
        kept = [chunk for chunk in self._chunks if chunk.speaks_at(self.consumed)] if self._playback.ensemble else []
        newest = _Chunk(self.consumed - skipped, np.asarray(actions, float))
        self._chunks = [*kept, newest]
        self._apart, self._switched_at = None, self.consumed
        if before is not None and not self._playback.ensemble and newest.speaks_at(self.consumed):
            self._apart = before - _between(newest.actions, newest.step_at(self.consumed))
        return skipped

    @property
    def switch(self) -> Joints | None:
        """How far the newest chunk's first action lies from the one before; None where none was before."""
        return self._apart

    def next_action(self, now_s: float, speed: float = 1.0) -> tuple[Joints | None, bool]:
        """The action of this control cycle, and whether it is a fresh one; None before the first chunk.

        After the end of a chunk its last action is held, and no step is consumed.
        """
        if not any(chunk.speaks_at(self.consumed) for chunk in self._chunks):
            return self._last, False
        self._last = self._planned()
        self.consumed += speed
        self._history.append((now_s, self.consumed))
        return self._last, True

    def _planned(self) -> Joints | None:
        """The action of this step; the last one again where no chunk speaks of it."""
        speaking = [chunk for chunk in self._chunks if chunk.speaks_at(self.consumed)]
        if not speaking:
            return self._last
        predictions = [_between(chunk.actions, chunk.step_at(self.consumed)) for chunk in speaking]
        if self._playback.ensemble:
            weights = np.exp(-self._playback.ensemble_decay * np.arange(len(predictions)))
            return weights @ np.stack(predictions) / weights.sum()
        if self._apart is None or not self._playback.blend_s:
            return predictions[-1]
        blended = min(1.0, (self.consumed - self._switched_at) / (self._playback.blend_s * self._rate_hz))
        return predictions[-1] + (1.0 - blended**2 * (3.0 - 2.0 * blended)) * self._apart

    def _consumed_at(self, moment_s: float) -> float:
        """As far as is remembered."""
        for time_s, consumed in reversed(self._history):
            if time_s <= moment_s:
                return consumed
        return self._history[0][1] if len(self._history) == REMEMBERED else 0.0


def _between(actions: NDArray[np.float64], step: float) -> Joints:
    """The action at a step; between two whole steps, which only slow playing meets, in proportion."""
    before = int(step)
    if before == step or before + 1 >= len(actions):
        return actions[before]
    share = step - before
    return (1.0 - share) * actions[before] + share * actions[before + 1]
