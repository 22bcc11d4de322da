"""Episodes, the vocabulary they are described in, the store that keeps them, and the checks they must pass."""

from egorecovery.episodes.checks import AcceptanceLimits, check_episode
from egorecovery.episodes.episode import CameraStream, Episode, Intrinsics, Provenance
from egorecovery.episodes.frames import JpegFrames
from egorecovery.episodes.reading import FrameReader
from egorecovery.episodes.store import EpisodeCard, EpisodeStore
from egorecovery.episodes.vocabulary import (
    PAPER_TASKS,
    RATE_HZ,
    Camera,
    Embodiment,
    EpisodeId,
    Phase,
    Side,
    Source,
    Task,
    episode_id,
    task_named,
)

__all__ = [
    "PAPER_TASKS",
    "RATE_HZ",
    "AcceptanceLimits",
    "Camera",
    "CameraStream",
    "Embodiment",
    "Episode",
    "EpisodeCard",
    "EpisodeId",
    "EpisodeStore",
    "FrameReader",
    "Intrinsics",
    "JpegFrames",
    "Phase",
    "Provenance",
    "Side",
    "Source",
    "Task",
    "check_episode",
    "episode_id",
    "task_named",
]
