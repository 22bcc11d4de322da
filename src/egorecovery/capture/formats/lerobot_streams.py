"""Columns of an episode of a LeRobot data set: numbers, marks, embedded images."""

# N samples, D numbers of a feature

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Bool, Float
from numpy import ndarray

from egorecovery.capture.formats.lerobot_files import (
    LARGEST_TABLE,
    DataSet,
    EpisodeRow,
    inside,
    open_parquet,
    reading_parquet,
)
from egorecovery.errors import RecordingError

SAME_S = 1e-3  # of a sample's time: clocks are written in float32


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Columns of one episode, in the order of its frames."""

    where: Path
    table: pa.Table

    def __len__(self) -> int:
        return self.table.num_rows

    def starting(self, sample: int) -> "Table":
        return Table(where=self.where, table=self.table.slice(sample))

    def numbers(self, name: str, size: int) -> Float[ndarray, "N D"]:
        """A feature with `size` numbers per sample. NaN and infinity are refused with their place."""
        column = self.table[name].combine_chunks()
        kind = column.type
        listed = pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind)
        flat = column.flatten() if listed else column
        try:
            values = np.asarray(flat.to_numpy(zero_copy_only=False), np.float64)
        except (TypeError, ValueError, pa.ArrowException):
            raise RecordingError(f"{self.where}: {name} must hold numbers, it holds {kind}") from None
        if column.null_count or flat.null_count:
            raise RecordingError(
                f"{self.where}: {name} is empty (null) in {column.null_count or flat.null_count} places; write the "
                "data set again"
            )
        if len(values) != len(self) * size:
            raise RecordingError(
                f"{self.where}: {name} must hold {size} numbers per sample, found {len(values)} in {len(self)} samples"
            )
        values = values.reshape(len(self), size)
        bad = np.asarray(~np.isfinite(values).all(axis=1))
        if bad.any():
            raise RecordingError(
                f"{self.where}: {name} is NaN or infinite in {bad.sum()} of {len(bad)} samples, first at sample "
                f"{int(np.argmax(bad))} of its episode; record it again or cut these samples"
            )
        return values

    def marks(self, name: str) -> Bool[ndarray, " N"]:
        """A boolean feature, stored as true and false or as 0 and 1."""
        return self.numbers(name, 1)[:, 0] > 0.5

    def rows(self, name: str) -> list[object]:
        return self.table[name].to_pylist()

    def times_s(self, rate_hz: float) -> Float[ndarray, " N"]:
        """Times of the samples. Times within rounding error of the data set's grid are snapped to it."""
        times_s = self.numbers("timestamp", 1)[:, 0]
        grid_s = (self.numbers("frame_index", 1)[0, 0] + np.arange(len(times_s))) / rate_hz
        return grid_s if np.allclose(times_s, grid_s, atol=SAME_S, rtol=0) else times_s


def read_table(data_set: DataSet, episode: EpisodeRow, columns: Sequence[str]) -> Table:
    """Rows of one episode. Only its row groups are read."""
    path = inside(data_set.root, episode.data)
    with reading_parquet(path), open_parquet(path) as file:
        known = file.schema_arrow.names
        wanted = list(dict.fromkeys(["episode_index", "frame_index", "timestamp", *columns]))
        lacking = [name for name in wanted if name not in known]
        if lacking:
            raise RecordingError(f"{path} lacks the column {lacking[0]}, which info.json lists; download it again")
        groups = [g for g in range(file.num_row_groups) if _may_hold(file.metadata.row_group(g), episode.index)]
        size = sum(file.metadata.row_group(group).total_byte_size for group in groups)
        if size > LARGEST_TABLE:
            raise RecordingError(f"{path} declares {size} bytes for episode {episode.index}, at most {LARGEST_TABLE}")
        table = file.read_row_groups(groups, columns=wanted)
        table = table.filter(pc.field("episode_index") == episode.index).sort_by("frame_index")
    if table.num_rows != episode.length:
        raise RecordingError(
            f"{path} has {table.num_rows} samples of episode {episode.index}, the metadata says {episode.length}; "
            f"copy or download it again"
        )
    return Table(where=path, table=table)


def _may_hold(group: pq.RowGroupMetaData, episode: int) -> bool:
    """Whether a row group may hold the episode, by the file's statistics if it has them."""
    for column in range(group.num_columns):
        facts = group.column(column)
        if facts.path_in_schema == "episode_index":
            statistics = facts.statistics
            return statistics is None or not statistics.has_min_max or statistics.min <= episode <= statistics.max
    return True
