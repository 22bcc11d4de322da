"""The metadata of a LeRobot v3.0 data set: features, and where the frames of each episode are."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from egorecovery.errors import RecordingError
from egorecovery.storage.bounded_json import read_named_json

VERSION = "v3.0"
INFO = "meta/info.json"
# Features of this project's export, which an import uses instead of forward kinematics.
EFFECTORS = ["observation.effector_m", "observation.effector_state", "action.effector"]
LARGEST_JSON = 16 << 20  # bytes; a real info.json has some kilobytes
LARGEST_TABLE = 4 << 30  # bytes uncompressed, read at once
MOST_EPISODES, MOST_FRAMES = 1_000_000, 500_000  # of a data set, of an episode: more than five hours at 25 Hz
FASTEST_HZ = 1000.0
CONVERT = "python -m lerobot.datasets.v30.convert_dataset_v21_to_v30 --repo-id=REPO"
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


def read_data_set(root: Path) -> DataSet:
    """All metadata. Nothing outside the data set's directory is opened."""
    info = _info(root)
    features = _features(info.get("features"), root / INFO)
    rate_hz = info.get("fps")
    if not isinstance(rate_hz, (int, float)) or isinstance(rate_hz, bool) or not 0 < rate_hz <= FASTEST_HZ:
        raise RecordingError(f"{root / INFO}: fps must lie in 0..{FASTEST_HZ:g}, got {rate_hz!r}")
    counted = info.get("total_episodes")
    return DataSet(
        root=root,
        rate_hz=float(rate_hz),
        robot=str(info.get("robot_type") or "unknown"),
        features=features,
        episodes=_episodes(root, info, [feature.name for feature in features.values() if feature.dtype == "video"]),
        counted=counted if type(counted) is int else None,
    )


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


def _info(root: Path) -> dict[str, Any]:
    path = root / INFO
    if not path.is_file():
        raise RecordingError(f"{root}: no LeRobot data set there, it has no {INFO}")
    path = inside(root, INFO)
    info = read_named_json(path, RecordingError, "copy or download it again", largest=LARGEST_JSON)
    version = info.get("codebase_version")
    if version != VERSION:
        older = isinstance(version, str) and re.fullmatch(r"v[12]\.\d+", version)
        how = f"; convert it with LeRobot 0.4: {CONVERT}" if older else ""
        raise RecordingError(f"{path}: codebase_version is {version!r}, {VERSION} is read{how}")
    return info


def _features(record: object, where: Path) -> dict[str, Feature]:
    if not isinstance(record, dict) or not record:
        raise RecordingError(f"{where}: features must be an object of features, got {type(record).__name__}")
    features = {}
    for name, facts in record.items():
        shape = facts.get("shape") if isinstance(facts, dict) else None
        if not isinstance(shape, list) or not all(type(size) is int and 0 < size <= 1 << 20 for size in shape):
            raise RecordingError(f"{where}: features.{name}.shape must be a list of sizes, got {shape!r:.80}")
        feature = Feature(name=name, dtype=str(facts.get("dtype")), shape=tuple(shape), info=_object(facts.get("info")))
        if feature.is_camera and len(shape) != 3:
            raise RecordingError(f"{where}: features.{name}.shape must be height, width and channels, got {shape}")
        if feature.is_camera and re.search(r"(^|/)\.\.(/|$)|^/|\\|\0", name):
            raise RecordingError(f"{where}: feature {name!r} has a name that leads outside of the data set")
        features[name] = feature
    return features


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _episodes(root: Path, info: Mapping[str, Any], videos: list[str]) -> tuple[EpisodeRow, ...]:
    needed = ["episode_index", "length", "dataset_from_index", "data/chunk_index", "data/file_index"]
    needed += [f"videos/{key}/{name}" for key in videos for name in ("chunk_index", "file_index", "from_timestamp")]
    rows: list[EpisodeRow] = []
    for path in sorted((root / "meta" / "episodes").glob("*/*.parquet")):
        path = inside(root, str(path.relative_to(root)))
        with reading_parquet(path), open_parquet(path) as file:
            lacking = [name for name in needed if name not in file.schema_arrow.names]
            if lacking:
                raise RecordingError(f"{path} lacks the column {lacking[0]}; write the data set again")
            if len(rows) + file.metadata.num_rows > MOST_EPISODES:
                raise RecordingError(f"{path} declares {file.metadata.num_rows} episodes, at most {MOST_EPISODES}")
            table = file.read(columns=needed)
        rows += [_row(values, info, videos, path) for values in table.to_pylist()]
    rows.sort(key=lambda row: row.index)
    if not rows:
        raise RecordingError(f"{root / 'meta' / 'episodes'}: there is no episode to import")
    twice = next((a.index for a, b in pairwise(rows) if a.index == b.index), None)
    if twice is not None:
        raise RecordingError(f"{root / 'meta' / 'episodes'}: episode {twice} is listed twice; write the data set again")
    return tuple(rows)


def _row(values: Mapping[str, Any], info: Mapping[str, Any], videos: list[str], where: Path) -> EpisodeRow:
    for name, value in values.items():
        seconds = name.endswith("timestamp")
        if not isinstance(value, float if seconds else int) or not 0 <= value < 1 << 40:
            raise RecordingError(f"{where}: {name} must be a {'time' if seconds else 'number'} >= 0, got {value!r}")
    if values["length"] > MOST_FRAMES:
        length = values["length"]
        raise RecordingError(f"{where}: episode {values['episode_index']} has length {length}, 1..{MOST_FRAMES} wanted")
    spans = {
        key: VideoSpan(
            path=_path(
                info.get("video_path"),
                where,
                video_key=key,
                chunk_index=values[f"videos/{key}/chunk_index"],
                file_index=values[f"videos/{key}/file_index"],
            ),
            from_s=values[f"videos/{key}/from_timestamp"],
        )
        for key in videos
    }
    chunk, file = values["data/chunk_index"], values["data/file_index"]
    return EpisodeRow(
        index=values["episode_index"],
        length=values["length"],
        first_frame=values["dataset_from_index"],
        data=_path(info.get("data_path"), where, chunk_index=chunk, file_index=file),
        videos=spans,
    )


def _path(template: object, where: Path, **fields: object) -> str:
    """A path from a template. `str.format` is not used, because a template from a file could access objects."""
    if not isinstance(template, str):
        raise RecordingError(f"{where}: info.json names no path for data or videos, got {template!r}")

    def value(match: re.Match[str]) -> str:
        if match[1] not in fields:
            raise RecordingError(f"{where}: the path {template!r} in info.json has an unknown field {match[1]!r}")
        return str(fields[match[1]]).zfill(int(match[2] or 0))

    return _FIELD.sub(value, template)
