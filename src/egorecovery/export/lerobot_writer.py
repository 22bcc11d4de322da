"""The files of a LeRobot v3.0 data set while its episodes come in one by one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int64
from numpy import ndarray

from egorecovery.capture.formats.lerobot_files import INFO
from egorecovery.episodes import RATE_HZ, Camera, Episode
from egorecovery.errors import RecipeError
from egorecovery.export.lerobot_episodes import CAMERAS, bookkeeping, columns, features
from egorecovery.export.lerobot_statistics import Statistics, levels, of_levels, of_numbers
from egorecovery.export.lerobot_video import Film, VideoCodec
from egorecovery.intent import FrameLabels
from egorecovery.storage.typed_json import to_json

FILE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
DATA, VIDEO, EPISODES = f"data/{FILE}.parquet", f"videos/{{video_key}}/{FILE}.mp4", f"meta/episodes/{FILE}.parquet"
VERSION = "v3.0"
PER_CHUNK, DATA_MB, VIDEO_MB = 1000, 100, 200
MB = 1 << 20
# LeRobot looks for pictures by a time in float32, to within 0.1 ms: after 15 minutes rounding takes half of that.
LONGEST_VIDEO = int(900 * RATE_HZ)  # pictures
LOOKED_AT = 20  # pictures per episode and camera for the statistics of colours


class DataSetWriter:
    """Episodes go to parquet, a row group each, and to one video per camera until that is full."""

    def __init__(self, root: Path, codec: VideoCodec) -> None:
        self.root, self.frames = root, 0
        self._codec: VideoCodec = codec
        self._features: dict[str, dict[str, Any]] = {}
        self._rows: list[dict[str, Any]] = []
        self._tasks: dict[str, int] = {}
        self._about: list[dict[str, Any]] = []
        self._data: pq.ParquetWriter | None = None
        self._data_file = 0
        self._films: dict[str, tuple[int, Film]] = {}
        self._values: dict[str, list[ndarray]] = {}
        self._levels: dict[str, list[tuple[Int64[ndarray, "3 256"], int]]] = {}

    def add(self, episode: Episode, labels: FrameLabels | None, task: str) -> None:
        index, length = len(self._rows), len(episode)
        written = columns(episode, labels)
        self._require_features(episode, features(written, episode.source.embodiment))
        written |= bookkeeping(length, index, self.frames, self._tasks.setdefault(task, len(self._tasks)))
        row: dict[str, Any] = {"episode_index": index, "tasks": [task], "length": length}
        row |= self._write_data(written)
        row |= {"dataset_from_index": self.frames, "dataset_to_index": self.frames + length}
        statistics = {name: of_numbers(np.asarray(values, np.float64)) for name, values in written.items()}
        for name, values in written.items():
            self._values.setdefault(name, []).append(values)
        for camera, stream in episode.cameras.items():
            key = key_of(camera)
            row |= self._film(key, episode, camera)
            looked = levels(
                stream.frames[int(at)] for at in np.unique(np.linspace(0, length - 1, LOOKED_AT).astype(int))
            )
            self._levels.setdefault(key, []).append(looked)
            statistics[key] = of_levels(*looked)
        row |= {f"stats/{name}/{part}": v for name, parts in statistics.items() for part, v in parts.items()}
        self._rows.append({**row, "meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0})
        self._about.append({"episode_index": index, **_about(episode)})
        self.frames += length

    def finish(self) -> None:
        """Metadata, when all frames are written."""
        if self._data:
            self._data.close()
        for _, film in self._films.values():
            film.close()
        self._write_tasks()
        path = self.root / EPISODES.format(chunk_index=0, file_index=0)
        path.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(self._rows), path)
        self._write_json("meta/stats.json", self._statistics())
        self._write_json("meta/egorecovery.json", {"schema": 1, "episodes": self._about})
        self._write_json(
            INFO,
            {
                "codebase_version": VERSION,
                "robot_type": self._about[0]["source"].split("_")[0],
                "total_episodes": len(self._rows),
                "total_frames": self.frames,
                "total_tasks": len(self._tasks),
                "chunks_size": PER_CHUNK,
                "data_files_size_in_mb": DATA_MB,
                "video_files_size_in_mb": VIDEO_MB,
                "fps": int(RATE_HZ),
                "splits": {"train": f"0:{len(self._rows)}"},
                "data_path": DATA,
                "video_path": VIDEO,
                "features": self._features,
            },
        )

    def abandon(self) -> None:
        """Closes what is open; the files are removed by whoever made their directory."""
        if self._data:
            self._data.close()
        for _, film in self._films.values():
            film.abandon()

    def _require_features(self, episode: Episode, found: dict[str, dict[str, Any]]) -> None:
        """One data set has one set of features and one size of pictures per camera."""
        cameras = {}
        for camera, stream in episode.cameras.items():
            shape = [*stream.frames.size_hw, 3]
            cameras[key_of(camera)] = {"dtype": "video", "shape": shape, "names": ["height", "width", "channels"]}
        described = {**found, **cameras}
        known = {name: {part: v for part, v in each.items() if part != "info"} for name, each in self._features.items()}
        if known and known != described:
            unlike = next(name for name in {**known, **described} if known.get(name) != described.get(name))
            raise RecipeError(
                f"{episode.id}: {unlike} is {_shape(described.get(unlike))}, in episodes before it is "
                f"{_shape(known.get(unlike))}; a LeRobot data set has the same features in every episode"
            )
        self._features = self._features or described

    def _write_data(self, found: Mapping[str, ndarray]) -> dict[str, int]:
        table = pa.table({name: _arrow(values, self._features[name]["dtype"]) for name, values in found.items()})
        path = self._path(DATA, self._data_file)
        if self._data and path.stat().st_size > DATA_MB * MB:
            self._data.close()
            self._data, self._data_file = None, self._data_file + 1
            path = self._path(DATA, self._data_file)
        if self._data is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._data = pq.ParquetWriter(path, table.schema)
        self._data.write_table(table, row_group_size=table.num_rows)
        return _places("data", self._data_file)

    def _film(self, key: str, episode: Episode, camera: Camera) -> dict[str, Any]:
        frames = episode.cameras[camera].frames
        file, film = self._films.get(key, (-1, None))
        full = film and (film.frames + len(frames) > LONGEST_VIDEO or film.path.stat().st_size > VIDEO_MB * MB)
        if film is None or full:
            if film:
                film.close()
            file += 1
            film = Film(self._path(VIDEO, file, video_key=key), int(RATE_HZ), frames.size_hw, self._codec)
            self._films[key] = file, film
            self._features[key]["info"] = film.facts
        first = film.frames
        for number in range(len(frames)):
            film.add(frames[number])
        times = {"from_timestamp": first / RATE_HZ, "to_timestamp": film.frames / RATE_HZ}
        return {**_places(f"videos/{key}", file), **{f"videos/{key}/{name}": at for name, at in times.items()}}

    def _path(self, template: str, file: int, **fields: str) -> Path:
        return self.root / template.format(chunk_index=file // PER_CHUNK, file_index=file % PER_CHUNK, **fields)

    def _statistics(self) -> dict[str, Statistics]:
        numbers = {name: of_numbers(np.concatenate(parts).astype(np.float64)) for name, parts in self._values.items()}
        colours = {
            key: of_levels(np.sum([counts for counts, _ in parts], axis=0), sum(number for _, number in parts))
            for key, parts in self._levels.items()
        }
        return {**numbers, **colours}

    def _write_tasks(self) -> None:
        """With the task in words as the index of a pandas table, which is how LeRobot finds it."""
        table = pa.table({"task_index": pa.array(self._tasks.values(), pa.int64()), "task": pa.array(self._tasks)})
        kinds = {"task_index": ("int64", "int64"), "task": ("unicode", "object")}
        described = [
            {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": numpy, "metadata": None}
            for name, (kind, numpy) in kinds.items()
        ]
        index = {"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object", "metadata": None}
        about = {"index_columns": ["task"], "column_indexes": [index], "columns": described, "pandas_version": "2.2.0"}
        path = self.root / "meta" / "tasks.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.replace_schema_metadata({"pandas": json.dumps(about)}), path)

    def _write_json(self, name: str, value: object) -> None:
        (self.root / name).write_text(json.dumps(value, indent=4, ensure_ascii=False, allow_nan=False))


def key_of(camera: Camera) -> str:
    return f"observation.images.{CAMERAS[camera]}"


def _about(episode: Episode) -> dict[str, Any]:
    """What LeRobot has no place for."""
    return {
        "id": episode.id,
        "task": episode.task.name,
        "active": [str(side) for side in episode.task.active],
        "source": str(episode.source),
        "cameras": {str(camera): to_json(stream.intrinsics) for camera, stream in episode.cameras.items()},
        "provenance": to_json(episode.provenance),
    }


def _places(what: str, file: int) -> dict[str, int]:
    return {f"{what}/chunk_index": file // PER_CHUNK, f"{what}/file_index": file % PER_CHUNK}


def _arrow(values: ndarray, dtype: str) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(values).ravel(), pa.bool_() if dtype == "bool" else pa.type_for_alias(dtype))
    return flat if values.shape[1] == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def _shape(feature: Mapping[str, Any] | None) -> str:
    return "absent" if feature is None else f"{feature['dtype']} {tuple(feature['shape'])}"
