"""Data below the video: motion energy, the candidate boundary, and the intent target of every frame."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from egorecovery.episodes import RATE_HZ, EpisodeStore
from egorecovery.intent import IntentSpec, frame_labels
from egorecovery.motion import PhaseGrid, motion_energy
from egorecovery.recovery import Candidate, propose


@dataclass(frozen=True, kw_only=True, eq=False)
class ClipMotion:
    """Motion of a clip, known before there is a boundary. T frames, C intent coefficients."""

    energy: Float[ndarray, " T"]
    candidate: Candidate | None  # None: a success episode, which has no recovery
    intent_m: Float[ndarray, "T C"]
    target_exists: Bool[ndarray, " T"]  # the window has motion and fits into the episode
    inside_from: Int[ndarray, " T"]  # the smallest boundary with the whole window of a frame before it


def clip_motion(store: EpisodeStore, clip: str, spec: IntentSpec | None = None) -> ClipMotion:
    spec = spec or IntentSpec()
    card = store.card(clip)
    active = card.task.active_effectors
    effector_m = store.stream(clip, "effector_m")
    # Labels for the whole clip as recovery. A window valid there is valid for every boundary after the window.
    whole = frame_labels(
        effector_m=effector_m,
        reliable=store.stream(clip, "reliable"),
        active=active,
        source=card.source,
        boundary=card.frames - 1,
        spec=spec,
    )
    return ClipMotion(
        energy=motion_energy(effector_m[:, list(active)], RATE_HZ),
        candidate=propose(store, clip) if card.source.is_recovery else None,
        intent_m=whole.intent_m,
        target_exists=whole.intent_mask,
        inside_from=inside_from(card.frames, spec.grid),
    )


def inside_from(n_frames: int, grid: PhaseGrid) -> Int[ndarray, " T"]:
    """The first boundary for which each frame's window ends in the recovery. The pages compare boundaries with it.

    It inverts `recovery.labels` in the same integers: window t is inside if boundary >= inside_from[t].
    """
    last_point = grid.phase_index(n_frames) + grid.window - 1
    window_end = -(-last_point * (n_frames - 1) // (grid.points - 1)) if grid.points > 1 else np.zeros(n_frames, int)
    return np.maximum(window_end, np.arange(n_frames))
