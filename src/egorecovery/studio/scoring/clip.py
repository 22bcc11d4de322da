"""One rollout to be scored, before its name is hidden."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from egorecovery.evaluation.results import RolloutRecord
from egorecovery.evaluation.rollout import Result
from egorecovery.studio.scoring.errors import ScoringError


@dataclass(frozen=True, kw_only=True)
class Clip:
    """A video and the known facts about its rollout."""

    video: Path
    rollout: RolloutRecord  # its outcome is ignored; see `automatic`
    automatic: Result | None  # the verdict of the simulator's rules, or of the person at the robot
    crop_top_px: int = 0  # rows with the method's name


def require_distinct(clips: Sequence[Clip]) -> None:
    """Refuses videos and rollouts that are listed twice."""
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
                f"{clip.video} and {twin.video} are both listed as {record.task}, {record.regime} start "
                f"{record.index} of {record.subject.policy!r}, seed {record.subject.seed}; number the starts so that "
                "each is there once per method"
            )
        videos[path] = clip
