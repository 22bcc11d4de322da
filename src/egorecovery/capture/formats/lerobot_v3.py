"""Where the frames of each episode of LeRobot v3.0 data are: tables and videos that several episodes share."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from egorecovery.capture.formats.lerobot_files import (
    MOST_EPISODES,
    MOST_FRAMES,
    EpisodeRow,
    VideoSpan,
    inside,
    open_parquet,
    path_of,
    reading_parquet,
)
from egorecovery.errors import RecordingError


def episodes(root: Path, info: Mapping[str, Any], videos: Sequence[str]) -> tuple[EpisodeRow, ...]:
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


def _row(values: Mapping[str, Any], info: Mapping[str, Any], videos: Sequence[str], where: Path) -> EpisodeRow:
    for name, value in values.items():
        seconds = name.endswith("timestamp")
        if not isinstance(value, float if seconds else int) or not 0 <= value < 1 << 40:
            raise RecordingError(f"{where}: {name} must be a {'time' if seconds else 'number'} >= 0, got {value!r}")
    if values["length"] > MOST_FRAMES:
        length = values["length"]
        raise RecordingError(
            f"{where}: episode {values['episode_index']} has length {length}, at most {MOST_FRAMES} wanted"
        )
    spans = {
        key: VideoSpan(
            path=path_of(
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
        data=path_of(info.get("data_path"), where, chunk_index=chunk, file_index=file),
        videos=spans,
    )
