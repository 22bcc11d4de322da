"""What a LeRobot data set holds, of any version: features, and where the frames of each episode are."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from egorecovery.errors import RecordingError

INFO = "meta/info.json"
# Features of this project's export, which an import uses instead of forward kinematics.
EFFECTORS = ["observation.effector_m", "observation.effector_state", "action.effector"]
LARGEST_TABLE = 4 << 30  # bytes uncompressed, read at once
MOST_EPISODES, MOST_FRAMES = 1_000_000, 500_000  # of a data set, of an episode: more than five hours at 25 Hz
_FIELD = re.compile(r"\{(\w+)(?::0?(\d)d)?\}")


@dataclass(frozen=True, kw_only=True)
class Feature:
    """A column of the data set, or a camera."""

    name: str
    dtype: str  # float32, int64, bool, image, video ...
    shape: tuple[int, ...]
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_camera(self) -> bool:
        return self.dtype in ("image", "video")

    @property
    def is_depth(self) -> bool:
        return bool(self.info.get("is_depth_map") or self.info.get("video.is_depth_map"))

    @property
    def size_hw(self) -> tuple[int, int]:
        """Height and width. Shapes are (height, width, channels), or (channels, height, width) from some tools."""
        first, second, third = self.shape
        return (second, third) if first in (1, 3) and third not in (1, 3) else (first, second)


@dataclass(frozen=True, kw_only=True)
class VideoSpan:
    """An episode's part of a video file."""

    path: str  # relative to the data set
    from_s: float


@dataclass(frozen=True, kw_only=True)
class EpisodeRow:
    index: int
    length: int  # 0 where a recorder was stopped at once; such an episode is refused alone
    first_frame: int  # of the whole data set's frames
    data: str  # parquet file, relative to the data set
    videos: Mapping[str, VideoSpan]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    root: Path
    version: str  # of LeRobot's format
    rate_hz: float
    robot: str
    features: Mapping[str, Feature]
    episodes: tuple[EpisodeRow, ...]
    counted: int | None = None  # episodes that info.json counts

    @property
    def frames(self) -> int:
        return sum(episode.length for episode in self.episodes)

    def feature(self, name: str, option: str) -> Feature:
        if name not in self.features:
            there = ", ".join(feature.name for feature in self.features.values() if not feature.is_camera)
            raise RecordingError(f"{self.root / INFO}: there is no feature {name!r}; say {option} one of {there}")
        return self.features[name]


def inside(root: Path, relative: str) -> Path:
    """The path of a file of the data set. Names that lead outside, also by a link, are refused."""
    path = root / relative
    if not path.resolve().is_relative_to(root.resolve()):
        raise RecordingError(f"{path}: leads outside of the data set {root}; copy the data into it, without links")
    if not path.is_file():
        raise RecordingError(f"{path} is missing: download or copy the whole data set")
    return path


@contextmanager
def reading_parquet(path: Path) -> Iterator[None]:
    """Raises pyarrow's errors about a damaged file with the file's name."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, MemoryError, OverflowError) as error:
        raise RecordingError(f"{path} cannot be read ({_first_line(error)}); copy or download it again") from error


def open_parquet(path: Path) -> pq.ParquetFile:
    """Opens a parquet file with limits on what its header may declare."""
    return pq.ParquetFile(path, thrift_string_size_limit=64 << 20, thrift_container_size_limit=4 << 20)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def path_of(template: object, where: Path, **fields: object) -> str:
    """A path from a template. `str.format` is not used, because a template from a file could access objects."""
    if not isinstance(template, str):
        raise RecordingError(f"{where}: info.json names no path for data or videos, got {template!r}")

    def value(match: re.Match[str]) -> str:
        if match[1] not in fields:
            raise RecordingError(f"{where}: the path {template!r} in info.json has an unknown field {match[1]!r}")
        return str(fields[match[1]]).zfill(int(match[2] or 0))

    return _FIELD.sub(value, template)
