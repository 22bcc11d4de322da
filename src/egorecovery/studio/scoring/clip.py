"""One rollout that is to be scored, before its name is hidden."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from egorecovery.evaluation.results import RolloutRecord
from egorecovery.evaluation.rollout import Result
from egorecovery.studio.scoring.errors import ScoringError


@dataclass(frozen=True, kw_only=True)
class Clip:
    """A video and all that is known of its rollout but what people say of it."""

    video: Path
    rollout: RolloutRecord  # its outcome is not looked at: see `automatic`
    automatic: Result | None  # the verdict of the simulator's rules, or of whoever stood beside the robot
    crop_top_px: int = 0  # rows that name the method


def require_distinct(clips: Sequence[Clip]) -> None:
    """A rollout is scored once, and so is a video."""
    videos: dict[Path, Clip] = {}
    rollouts: dict[str, Clip] = {}
    for clip in clips:
        path = clip.video.resolve()
        if path in videos:
            raise ScoringError(f"{clip.video} is listed twice; each video shows one rollout")
        twin = rollouts.setdefault(clip.rollout.key, clip)
        if twin is not clip:
            record = clip.rollout
            raise ScoringError(
                f"{clip.video} and {twin.video} are both said to show {record.task}, {record.regime} start "
                f"{record.index} of {record.subject.policy!r}, seed {record.subject.seed}; number the starts so that "
                "each is there once per method"
            )
        videos[path] = clip
