"""Rollouts of `evaluate` and `experiment` as clips to score."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from egorecovery.evaluation.rollout_videos import filmed_beside, rollout_videos
from egorecovery.studio.scoring.clip import Clip
from egorecovery.studio.scoring.errors import ScoringError
from egorecovery.studio.scoring.neutral_video import panel_rows


def simulated_clips(root: Path) -> tuple[list[Clip], Sequence[str]]:
    """All rollouts of a run with videos, and notes on videos that were left out."""
    videos = rollout_videos(root)
    if not videos.rollouts:
        why = f" ({videos.left_out[0]})" if videos.left_out else ""
        beside = filmed_beside(root)
        instead = f"'egorecovery score {shlex.quote(str(beside[0]))}' scores the films beside it; or " if beside else ""
        raise ScoringError(
            f"{root} has no film of a rollout on record{why}; {instead}evaluate with --film N, or run the experiment "
            "with --films N"
        )
    clips = [
        Clip(
            video=rollout.film,
            rollout=rollout.record,
            automatic=rollout.record.outcome,
            crop_top_px=panel_rows(rollout.film),
        )
        for rollout in videos.rollouts
    ]
    return clips, videos.left_out
