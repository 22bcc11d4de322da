"""Plays chunks: one action per control cycle, while the next chunk is being computed.

A chunk starts when its observation was captured. Until the chunk arrives, the robot plays the previous one. The first
steps of the new chunk are therefore skipped: as many as the measured delay lasted, but never more than were played
since the capture. A robot that was held while waiting has played none.

At a switch the two chunks give different actions for the same step. Their difference is added to the new chunk and
fades out over `blend_s`, so that the arms are not jerked at every switch. A first chunk starts at the measured pose in
the same way.
"""

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egorecovery.errors import RecipeError
from egorecovery.robot.robot import Joints

REMEMBERED = 1000  # control cycles whose consumed steps are kept
LONGEST_BLEND_S = 1.0
DELAYS = 5  # of the last answers; their median decides how early the next chunk is requested


@dataclass(frozen=True, kw_only=True)
class Playback:
    """How chunks are executed. The options are those of evaluation."""

    replan_steps: int = 35  # steps of a chunk to play before the next one takes over
    ensemble: bool = False  # play a weighted mean of all chunks that cover a step, instead of the newest
    ensemble_decay: float = 0.01  # ACT's m: weights exp(-m i), the oldest chunk first
    # Time over which a new chunk takes over, and the first one from the measured pose; 0: at once, as in evaluation.
    blend_s: float = 0.0

    def __post_init__(self) -> None:
        if self.replan_steps < 1:
            raise RecipeError(f"replan_steps must be at least 1, got {self.replan_steps}")
        if not 0 <= self.ensemble_decay < np.inf:
            raise RecipeError(f"ensemble_decay must be finite and not be negative, got {self.ensemble_decay}")
        if not 0 <= self.blend_s <= LONGEST_BLEND_S:
            raise RecipeError(f"blend_s must lie in 0..{LONGEST_BLEND_S:g} s, got {self.blend_s}")
        if self.blend_s and self.ensemble:
            raise RecipeError("an ensemble has no switches between chunks: leave out blend_s")


@dataclass(frozen=True, eq=False)
class _Chunk:
    begun: float  # consumed steps at its first action
    actions: NDArray[np.float64]  # (H, A)

    def step_at(self, consumed: float) -> float:
        """Steps since its first action. Computed only here, so that all callers round alike at the chunk's end."""
        return consumed - self.begun

    def covers(self, consumed: float) -> bool:
        return self.step_at(consumed) < len(self.actions)


class ChunkPlayer:
    """Plays chunks at `rate_hz` steps per second, or slower. Pure: all times are arguments."""

    def __init__(self, playback: Playback, rate_hz: float) -> None:
        self._playback = playback
        self._rate_hz = rate_hz
        self._delays_s: deque[float] = deque(maxlen=DELAYS)
        self._is_warm = False  # the first answer takes longest and does not count as a delay
        self.reset()

    def reset(self) -> None:
        """Drops all chunks, as after a stop."""
        self._chunks: list[_Chunk] = []
        self._last: Joints | None = None
        self._switch_offset: Joints | None = None  # the previous chunk minus this one, at the switch
        self._switched_at = 0.0  # consumed steps at the switch
        self.consumed = 0.0  # steps played so far; fractional in slow playback
        self._history: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)  # (time, consumed steps)

    @property
    def delay_s(self) -> float:
        """Median delay of the last answers; 0 before the second answer."""
        return float(np.median(self._delays_s)) if self._delays_s else 0.0

    def wants_chunk(self, speed: float = 1.0) -> bool:
        """Whether to request a chunk now, so that it arrives before the replan interval or a shorter chunk ends."""
        if not self._chunks:
            return True
        newest = self._chunks[-1]
        due = min(self._playback.replan_steps, len(newest.actions))
        lead = min(math.ceil(self.delay_s * self._rate_hz * speed), due - 1)
        return newest.step_at(self.consumed) >= due - lead

    def add(self, actions: NDArray[np.float64], captured_s: float, now_s: float) -> float:
        """Adds the chunk of an observation captured at `captured_s`. Returns how many of its steps are skipped."""
        delay_s = max(0.0, now_s - captured_s)
        if self._is_warm:
            self._delays_s.append(delay_s)
        self._is_warm = True
        skipped = min(delay_s * self._rate_hz, self.consumed - self._consumed_at(captured_s)) if self._chunks else 0.0
        before = self._planned() if self._chunks else None
        kept = [chunk for chunk in self._chunks if chunk.covers(self.consumed)] if self._playback.ensemble else []
        newest = _Chunk(self.consumed - skipped, np.asarray(actions, float))
        self._chunks = [*kept, newest]
        self._switch_offset, self._switched_at = None, self.consumed
        if before is not None and not self._playback.ensemble and newest.covers(self.consumed):
            self._switch_offset = before - _between(newest.actions, newest.step_at(self.consumed))
        return skipped

    @property
    def switch(self) -> Joints | None:
        """The previous chunk minus the newest one, at the switch; None for a first chunk."""
        return self._switch_offset

    @property
    def first_action(self) -> Joints | None:
        """The next action, if it is the first since the start or the last reset."""
        return self._chunks[-1].actions[0] if self._chunks and not self.consumed else None

    def begin_at(self, pose: Joints) -> None:
        """Starts the first chunk at a pose. The pose minus its first action fades out like a switch."""
        first = self.first_action
        assert first is not None
        self._switch_offset, self._switched_at = pose - first, 0.0

    def next_action(self, now_s: float, speed: float = 1.0) -> tuple[Joints | None, bool]:
        """The action of this control cycle, and whether it is a new one; None before the first chunk.

        After the end of a chunk its last action is held, and no step is consumed.
        """
        if not any(chunk.covers(self.consumed) for chunk in self._chunks):
            return self._last, False
        self._last = self._planned()
        self.consumed += speed
        self._history.append((now_s, self.consumed))
        return self._last, True

    def _planned(self) -> Joints | None:
        """The action of this step; the last action again if no chunk covers it."""
        covering = [chunk for chunk in self._chunks if chunk.covers(self.consumed)]
        if not covering:
            return self._last
        predictions = [_between(chunk.actions, chunk.step_at(self.consumed)) for chunk in covering]
        if self._playback.ensemble:
            weights = np.exp(-self._playback.ensemble_decay * np.arange(len(predictions)))
            return weights @ np.stack(predictions) / weights.sum()
        if self._switch_offset is None or not self._playback.blend_s:
            return predictions[-1]
        blended = min(1.0, (self.consumed - self._switched_at) / (self._playback.blend_s * self._rate_hz))
        return predictions[-1] + (1.0 - blended**2 * (3.0 - 2.0 * blended)) * self._switch_offset

    def _consumed_at(self, moment_s: float) -> float:
        """Steps played at a moment, as far back as the history goes."""
        for time_s, consumed in reversed(self._history):
            if time_s <= moment_s:
                return consumed
        return self._history[0][1] if len(self._history) == REMEMBERED else 0.0


def _between(actions: NDArray[np.float64], step: float) -> Joints:
    """The action at a step, linear between two whole steps, which only slow playback needs."""
    before = int(step)
    if before == step or before + 1 >= len(actions):
        return actions[before]
    share = step - before
    return (1.0 - share) * actions[before] + share * actions[before + 1]
