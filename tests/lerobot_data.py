"""LeRobot data sets for tests: two small episodes from a store of ours, and ways to spoil them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from egorecovery.capture.formats.importer import ImportAs, Robot
from egorecovery.capture.formats.lerobot import LeRobotDataSet, open_paths
from egorecovery.capture.formats.options import LeRobotOptions
from egorecovery.episodes import (
    PAPER_TASKS,
    Camera,
    CameraStream,
    Episode,
    EpisodeStore,
    Intrinsics,
    JpegFrames,
    Source,
)
from egorecovery.export.lerobot import ExportRules, export_lerobot
from egorecovery.export.lerobot_video import Film
from egorecovery.intent import label_store
from egorecovery.kinematics import EffectorPoses, pack
from egorecovery.recovery import Annotation, AnnotationJournal
from making import make_episode

LENGTHS = (40, 55)
BOUNDARY = 21
SIZE = 32
DATA = "data/chunk-000/file-000.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
HEAD = "observation.images.cam_high"
VIDEO = f"videos/{HEAD}/chunk-000/file-000.mp4"


class StraightArms:
    """Kinematics that cost nothing: the first three joints are metres."""

    def effector_vectors(self, joints: np.ndarray) -> np.ndarray:
        per_arm = np.asarray(joints, float).reshape(-1, 2, 7)
        turns = np.broadcast_to(np.eye(3), (*per_arm.shape[:2], 3, 3))
        return pack(EffectorPoses(position_m=per_arm[..., :3], rotation=turns, opening_01=per_arm[..., 6]))


ROBOT = Robot(name="straight arms", arms=StraightArms)
WANTED = ImportAs(task=PAPER_TASKS["cube_stack"], source=Source.ROBOT_RECOVERY, robot=ROBOT)


def marked(frame: int, camera: int) -> np.ndarray:
    """A picture that says which one it is, in nine dark or bright fields."""
    number = frame | camera << 7
    fields = np.array([[215 if number >> (3 * row + column) & 1 else 40 for column in range(3)] for row in range(3)])
    picture = np.full((SIZE, SIZE), 128)
    picture[:30, :30] = fields.repeat(10, axis=0).repeat(10, axis=1)
    return np.repeat(picture[:, :, None], 3, axis=2).astype(np.uint8)


def number_of(picture: np.ndarray) -> int:
    fields = [picture[10 * row + 5, 10 * column + 5].mean() > 127 for row in range(3) for column in range(3)]
    return sum(int(field) << bit for bit, field in enumerate(fields))


def episode(name: str, frames: int, **changes: Any) -> Episode:
    plain = make_episode(name, frames, Source.ROBOT_RECOVERY)
    state = np.cumsum(np.random.default_rng(frames).normal(0, 0.05, (frames, 14)), axis=0).astype(np.float32)
    state[:, [6, 13]] = np.linspace(0, 1, frames, dtype=np.float32)[:, None]
    action = np.concatenate([state[1:], state[-1:]])
    pinhole = Intrinsics(width=SIZE, height=SIZE, fx=30.0, fy=30.0, cx=16.0, cy=16.0)
    cameras = {
        camera: CameraStream(
            frames=JpegFrames.encode(marked(frame, number) for frame in range(frames)),
            timestamps_s=plain.timestamps_s,
            intrinsics=pinhole,
        )
        for number, camera in enumerate(Camera)
    }
    vectors = {f"effector_{n}": StraightArms().effector_vectors(v) for n, v in (("state", state), ("action", action))}
    in_effector_space = {name: value.astype(np.float32) for name, value in vectors.items()}
    return replace(plain, state=state, action=action, cameras=cameras, **in_effector_space, **changes)


def make_store(root: Path) -> EpisodeStore:
    store = EpisodeStore.create(root)
    with store.writing() as writer:
        for number, length in enumerate(LENGTHS):
            writer.add(episode(f"ep-{number}", length))
    for number, length in enumerate(LENGTHS):
        AnnotationJournal(store.annotations_path).save(
            Annotation(episode=f"ep-{number}", boundary=BOUNDARY + number, annotator="ada"),
            n_frames=length,
            seen_revision=0,
        )
    label_store(store)
    return store


def make_data_set(root: Path) -> Path:
    export_lerobot(make_store(root / "store"), root / "data_set", ExportRules())
    return root / "data_set"


def opened(root: Path, **options: Any) -> LeRobotDataSet:
    return open_paths([root], WANTED, LeRobotOptions(**options))


def change_info(root: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = root / "meta" / "info.json"
    info = json.loads(path.read_text())
    change(info)
    path.write_text(json.dumps(info))


def change_table(root: Path, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    table = change(pq.read_table(root / name))
    pq.write_table(table, root / name, row_group_size=LENGTHS[0])


def with_column(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    index = table.column_names.index(name)
    return table.set_column(index, name, values)


def as_v2(data_set: Path, root: Path, version: str = "v2.1", per_chunk: int = 1) -> Path:
    """The same data as LeRobot laid it out before v3.0: one table and one video per episode, a list in JSON lines."""
    info = json.loads((data_set / "meta" / "info.json").read_text())
    table, first = pq.read_table(data_set / DATA), 0
    (root / "meta").mkdir(parents=True)
    lines = []
    for index, length in enumerate(LENGTHS):
        place = f"chunk-{index // per_chunk:03d}"
        (root / "data" / place).mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(first, length), root / "data" / place / f"episode_{index:06d}.parquet")
        for number, name in enumerate(name for name in info["features"] if name.startswith("observation.images.")):
            film = Film(root / "videos" / place / name / f"episode_{index:06d}.mp4", 25, (SIZE, SIZE), "libx264")
            for frame in range(length):
                film.add(marked(frame, number))
            film.close()
        lines.append(json.dumps({"episode_index": index, "tasks": ["stack"], "length": length}))
        first += length
    (root / "meta" / "episodes.jsonl").write_text("\n".join(lines) + "\n")
    info |= {
        "codebase_version": version,
        "chunks_size": per_chunk,
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    }
    (root / "meta" / "info.json").write_text(json.dumps(info))
    return root
