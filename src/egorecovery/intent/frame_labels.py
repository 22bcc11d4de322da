"""All that training needs to know of each frame, and why a frame carries no intent target."""

from collections import Counter
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from jaxtyping import Bool, Float, Float32, UInt8
from numpy import ndarray

from egorecovery.episodes import Source
from egorecovery.intent.target import FutureWindows, IntentSpec, IntentTarget, future_windows
from egorecovery.recovery import labels


class Verdict(IntEnum):
    """Why a frame has no target: the first check it fails, in the appendix's order."""

    VALID = 0
    PADDED = 1  # padding, or motion that was lost, at the frame or in its window
    PAST_END = 2  # the window does not fit into the episode
    STATIONARY = 3
    OUTSIDE_PHASE = 4  # the frame is not in the recovery phase (all of a success episode)
    LEAVES_PHASE = 5  # the frame is, but its window ends after the boundary

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Verdict.VALID: "valid",
    Verdict.PADDED: "padded or lost",
    Verdict.PAST_END: "window past the end",
    Verdict.STATIONARY: "stationary",
    Verdict.OUTSIDE_PHASE: "outside the phase",
    Verdict.LEAVES_PHASE: "window leaves the phase",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameLabels:
    """The paper's labels of one episode. Targets are in metres: training divides by its own pool's s_d."""

    in_recovery: Bool[ndarray, " T"]  # s_t
    gt_intent_valid: Bool[ndarray, " T"]
    recovery_intent_valid: Bool[ndarray, " T"]
    intent_m: Float32[ndarray, "T C"]  # y_t at s_d = 1 m
    peak_to_peak_m: Float32[ndarray, " T"]
    verdict: UInt8[ndarray, " T"]

    @property
    def intent_mask(self) -> Bool[ndarray, " T"]:
        """m_t."""
        return self.gt_intent_valid & self.recovery_intent_valid

    def counts(self) -> Counter[Verdict]:
        return Counter({verdict: int(np.sum(self.verdict == verdict)) for verdict in Verdict})

    def arrays(self) -> dict[str, ndarray]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def trusted_windows(
    effector_m: Float[ndarray, "T E 3"],
    reliable: Bool[ndarray, "T E"],
    active: tuple[int, ...],
    spec: IntentSpec,
    target: IntentTarget = "dct_magnitude",
) -> FutureWindows:
    """Guessed motion must not define intent: it is treated as missing."""
    return future_windows(np.where(reliable[..., None], effector_m, np.nan), active, spec, target)


def frame_labels(
    *,
    effector_m: Float[ndarray, "T E 3"],
    reliable: Bool[ndarray, "T E"],
    active: tuple[int, ...],
    source: Source,
    boundary: int | None,
    spec: IntentSpec,
) -> FrameLabels:
    """Labels and targets of one episode, from its motion and its annotated boundary."""
    in_recovery, window_inside = labels(len(effector_m), boundary, source, spec.grid)
    windows = trusted_windows(effector_m, reliable, active, spec)
    failed = [
        (Verdict.PADDED, ~windows.present),
        (Verdict.PAST_END, ~windows.fits),
        (Verdict.STATIONARY, ~windows.moves),
        (Verdict.OUTSIDE_PHASE, ~in_recovery),
        (Verdict.LEAVES_PHASE, ~window_inside),
    ]
    verdict = np.select([where for _, where in failed], [why for why, _ in failed], Verdict.VALID)
    return FrameLabels(
        in_recovery=in_recovery,
        gt_intent_valid=windows.valid & source.is_recovery,  # success episodes set both masks to false
        recovery_intent_valid=window_inside,
        intent_m=windows.intent_m.astype(np.float32),
        peak_to_peak_m=windows.peak_to_peak_m.astype(np.float32),
        verdict=verdict.astype(np.uint8),
    )
