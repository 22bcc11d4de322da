"""Where the frames of each episode of a LeRobot v2.1 or v2.0 data set are: one table and one video each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from egorecovery.capture.formats.lerobot_files import (
    INFO,
    MOST_EPISODES,
    MOST_FRAMES,
    EpisodeRow,
    VideoSpan,
    inside,
    path_of,
)
from egorecovery.errors import RecordingError
from egorecovery.storage.bounded_json import BadJson, parse_json
from egorecovery.storage.containment import UnsafeFile, read_named

EPISODES = "meta/episodes.jsonl"
LARGEST_LIST = 256 << 20  # bytes; an episode's line has a hundred
PER_CHUNK = 1000  # episodes in a folder, where info.json does not say


def episodes(root: Path, info: Mapping[str, Any], videos: Sequence[str]) -> tuple[EpisodeRow, ...]:
    where = inside(root, EPISODES)
    per_chunk = info.get("chunks_size", PER_CHUNK)
    if type(per_chunk) is not int or per_chunk < 1:
        raise RecordingError(f"{root / INFO}: chunks_size must be a number of episodes, got {per_chunk!r}")
    lengths: dict[int, int] = {}
    try:
        payload = read_named(where, LARGEST_LIST)
    except UnsafeFile as error:
        raise RecordingError(str(error)) from None
    for number, line in enumerate(payload.splitlines(), 1):
        if line.strip():
            index, length = _index_and_length(line, f"{where}, line {number}")
            if index in lengths:
                raise RecordingError(f"{where}: episode {index} is listed twice; download it again")
            lengths[index] = length
    if not lengths:
        raise RecordingError(f"{where}: there is no episode to import")
    if len(lengths) > MOST_EPISODES:
        raise RecordingError(f"{where} lists {len(lengths)} episodes, at most {MOST_EPISODES}")
    rows, first_frame = [], 0
    for index, length in sorted(lengths.items()):
        place = {"episode_chunk": index // per_chunk, "episode_index": index}
        rows.append(
            EpisodeRow(
                index=index,
                length=length,
                first_frame=first_frame,
                data=path_of(info.get("data_path"), root / INFO, **place),
                videos={
                    key: VideoSpan(
                        path=path_of(info.get("video_path"), root / INFO, video_key=key, **place), from_s=0.0
                    )
                    for key in videos
                },
            )
        )
        first_frame += length
    return tuple(rows)


def _index_and_length(line: bytes, where: str) -> tuple[int, int]:
    try:
        record = parse_json(line)
    except BadJson as error:
        raise RecordingError(f"{where}: {error}; copy or download it again") from None
    index, length = (record.get(name) if isinstance(record, dict) else None for name in ("episode_index", "length"))
    if type(index) is not int or not 0 <= index < 1 << 40:
        raise RecordingError(f"{where}: episode_index must be a number >= 0, got {index!r:.80}")
    if type(length) is not int or not 0 <= length <= MOST_FRAMES:
        raise RecordingError(f"{where}: episode {index} has length {length!r:.80}, 0..{MOST_FRAMES} wanted")
    return index, length
