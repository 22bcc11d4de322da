"""From one annotated boundary to frame labels: the recovery state s_t and the phase part of the intent mask m_t."""

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from egorecovery.episodes import Source
from egorecovery.errors import AnnotationError
from egorecovery.motion import PhaseGrid


def labels(
    n_frames: int, boundary: int | None, source: Source, grid: PhaseGrid | None = None
) -> tuple[Bool[ndarray, " T"], Bool[ndarray, " T"]]:
    """`in_recovery` (s_t) and `window_inside` (`recovery_intent_valid`, the second mask of the appendix).

    The boundary t_rec is the last frame of the recovery: frame t is in recovery when t <= boundary. A window is
    inside when its anchor is in recovery and its last phase point lies at or before the boundary. An episode
    shorter than the window has no window. Success episodes have no recovery, whatever the boundary.
    """
    if n_frames < 1:
        raise AnnotationError(f"an episode has at least one frame, got {n_frames}")
    nowhere = np.zeros(n_frames, bool)
    if not source.is_recovery:
        return nowhere, nowhere.copy()
    boundary = require_boundary(boundary, n_frames)
    grid = grid or PhaseGrid()
    in_recovery = np.arange(n_frames) <= boundary
    if n_frames < grid.window:
        return in_recovery, nowhere
    last_point = grid.phase_index(n_frames) + grid.window - 1
    # Phase point j lies at frame j (T-1)/(P-1); compared in integers, so no rounding decides a label.
    window_inside = last_point * (n_frames - 1) <= boundary * (grid.points - 1)
    return in_recovery, in_recovery & window_inside


def require_boundary(boundary: int | None, n_frames: int) -> int:
    """The boundary, if it is a frame of the episode."""
    if boundary is None:
        raise AnnotationError("a recovery episode needs its boundary annotated: the last frame of the correction")
    if not 0 <= boundary < n_frames:
        raise AnnotationError(f"boundary {boundary} is outside the episode's frames 0..{n_frames - 1}")
    return int(boundary)
