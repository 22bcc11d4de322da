"""Reads and writes the directory of a raw recording (docs/formats.md), which rigs write and `import` reads."""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import numpy as np
from numpy import ndarray
from numpy.lib.npyio import NpzFile

from egorecovery.capture.recording import HandPoses, HandTracks, RawCamera, Recording, RobotLog
from egorecovery.capture.recording_images import load_frames, reading
from egorecovery.episodes import Camera, EpisodeId, Intrinsics, Provenance, Side, Source, Task, episode_id, task_named
from egorecovery.errors import EgoRecoveryError, RecordingError
from egorecovery.motion import KeypointOrder
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.checksummed_json import canonical
from egorecovery.storage.containment import exists, inside, names_in, require_regular
from egorecovery.storage.typed_json import from_json, to_json

DESCRIPTION = "recording.json"
FORMAT = "egorecovery-recording"
SCHEMA = 1
STREAM_BYTES = 512 << 20  # of one stream without pictures and depth: hours of joint states


def find_recordings(paths: list[Path]) -> list[Path]:
    """The recordings among these directories and directly inside them."""
    recordings: list[Path] = []
    for path in paths:
        if is_recording(path):
            recordings.append(path)
            continue
        if not path.exists():
            raise RecordingError(f"{path} does not exist; name a recording, or a folder of them")
        with reading(path):
            folders = [path / name for name in names_in(path) if not name.startswith(".") and (path / name).is_dir()]
        if not any(is_recording(folder) for folder in folders):
            raise RecordingError(f"{path}: no {DESCRIPTION} there or one level down; {_hint(path)}")
        recordings += folders  # folders without a description are reported: the file may have been lost
    return recordings


def _hint(path: Path) -> str:
    """Advice for a folder that holds other data."""
    if (path / "store.json").exists():
        return "it is a store already: work with it as it is, as in 'egorecovery inspect'"
    if (path / "meta" / "info.json").exists():
        return "it looks like a LeRobot data set: add --format lerobot"
    if any(path.glob("*.hdf5")):
        return "it holds HDF5 files: for data of ALOHA add --format aloha"
    return "recordings are described in docs/formats.md, other data (--format) in docs/formats_other.md"


def save_recording(recording: Recording, directory: Path) -> None:
    """Writes a recording. The description comes last, so a directory that has one is complete."""
    if isinstance(recording.motion, HandPoses):
        raise RecordingError(f"{recording.id}: a recording of a person holds 21 keypoints per hand, not wrists alone")
    directory.mkdir(parents=True)
    for camera, raw in recording.cameras.items():
        images = directory / camera / "rgb"
        images.mkdir(parents=True)
        for index in range(len(raw.frames)):
            (images / f"{index:06d}.jpg").write_bytes(raw.frames.encoded(index).tobytes())
        np.save(directory / camera / "timestamps_s.npy", raw.timestamps_s)
        if raw.depth_mm is not None:
            np.save(directory / camera / "depth_mm.npy", raw.depth_mm)
    save_motion(recording.motion, directory)
    described = description(
        name=recording.id,
        task=recording.task,
        source=recording.source,
        cameras={camera: raw.intrinsics for camera, raw in recording.cameras.items()},
        provenance=recording.provenance,
        order=recording.motion.order if isinstance(recording.motion, HandTracks) else None,
    )
    (directory / DESCRIPTION).write_text(json.dumps(described, indent=2))


def save_motion(motion: HandTracks | RobotLog, directory: Path) -> None:
    streams: dict[str, Any] = {name: value for name, value in vars(motion).items() if isinstance(value, ndarray)}
    np.savez(directory / ("hands.npz" if isinstance(motion, HandTracks) else "robot.npz"), **streams)


def description(
    *,
    name: EpisodeId,
    task: Task,
    source: Source,
    cameras: Mapping[Camera, Intrinsics],
    provenance: Provenance,
    order: KeypointOrder | None,
) -> dict[str, Any]:
    """The content of `recording.json`. Only recordings of people have a keypoint order."""
    described: dict[str, Any] = {
        "format": FORMAT,
        "schema": SCHEMA,
        "id": name,
        "task": task.name,
        "active": [str(side) for side in task.active],
        "source": str(source),
        "cameras": to_json(cameras),
        "provenance": to_json(provenance),
    }
    return described if order is None else {**described, "keypoint_order": str(order)}


@dataclass(frozen=True, kw_only=True)
class RecordingHeader:
    """The content of `recording.json`, checked."""

    id: EpisodeId
    task: Task
    source: Source
    intrinsics: Mapping[Camera, Intrinsics]
    order: KeypointOrder | None  # of people's hands
    provenance: Provenance


def load_header(directory: Path) -> RecordingHeader:
    """Reads the description of a recording, without streams."""
    with reading(directory):
        path = inside(directory, DESCRIPTION)
    described = _description(path)
    with _naming(path):
        source = _field(described, "source", Source)
        return RecordingHeader(
            id=episode_id(_field(described, "id", str) if "id" in described else directory.name),
            task=task_named(_field(described, "task", str), _field(described, "active", tuple[Side, ...], absent=())),
            source=source,
            intrinsics=_field(described, "cameras", Mapping[Camera, Intrinsics]),
            order=_field(described, "keypoint_order", KeypointOrder) if source.is_human else None,
            provenance=Provenance.from_json(_field(described, "provenance", Mapping[str, Any])),
        )


def is_recording(path: Path) -> bool:
    return exists(path / DESCRIPTION)


def recorded_cameras(
    directory: Path, header: RecordingHeader, wanted: Collection[Camera] = tuple(Camera)
) -> dict[Camera, RawCamera]:
    with reading(directory):
        return {
            camera: _camera(inside(directory, camera), known)
            for camera, known in header.intrinsics.items()
            if camera in wanted
        }


def load_recording(directory: Path) -> Recording:
    """Reads a whole recording. Errors name the file."""
    header = load_header(directory)
    with reading(directory):
        return _whole(directory, header)


def _whole(directory: Path, header: RecordingHeader) -> Recording:
    order = header.order
    return Recording(
        id=header.id,
        task=header.task,
        source=header.source,
        cameras=recorded_cameras(directory, header),
        motion=_robot(inside(directory, "robot.npz"))
        if order is None
        else _hands(inside(directory, "hands.npz"), order),
        provenance=header.provenance,
    )


def look_at(directory: Path) -> tuple[int, dict[str, tuple[int, int]]]:
    """The number of pictures of the first camera, and each camera's width and height, without reading streams."""
    known = load_header(directory).intrinsics
    first = next(iter(known), None)
    with reading(directory):
        frames = len(_array(inside(directory, first, "timestamps_s.npy"), mapped=True)) if first else 0
    return frames, {str(camera): (pinhole.width, pinhole.height) for camera, pinhole in known.items()}


def _description(path: Path) -> dict[str, Any]:
    try:
        described = read_json(path, RecordingError)
        canonical(described)  # NaN or half a surrogate pair could not be written to a store
    except FileNotFoundError:
        raise RecordingError(f"{path} is missing; see docs/formats.md") from None
    except ValueError as error:
        raise RecordingError(f"{path}: not JSON ({error})") from error
    except OSError as error:
        raise RecordingError(f"{path} cannot be read ({error})") from error
    if (described.get("format"), described.get("schema")) != (FORMAT, SCHEMA):
        raise RecordingError(f'{path}: wants "format": "{FORMAT}" and "schema": {SCHEMA}; see docs/formats.md')
    return described


def _field(described: dict[str, Any], name: str, kind: Any, absent: Any = None) -> Any:
    """A field of the description, checked to have this type."""
    value = described.get(name, absent)
    if value is None:
        raise RecordingError(f"{name} is missing; see docs/formats.md")
    return from_json(kind, value, name, RecordingError, "see docs/formats.md")


def _camera(directory: Path, known: Intrinsics) -> RawCamera:
    frames = load_frames(directory, known)
    clock = inside(directory, "timestamps_s.npy")
    timestamps_s = _numbers(clock, "the array", _array(clock))
    depth = inside(directory, "depth_mm.npy")
    with _naming(directory):
        return RawCamera(
            frames=frames,
            timestamps_s=timestamps_s,
            intrinsics=known,
            depth_mm=_depth(depth) if exists(depth) else None,
        )


def _hands(path: Path, order: KeypointOrder) -> HandTracks:
    if not path.exists():
        raise RecordingError(f"{path} is missing: track the clip's hands, then say --hands (docs/hand_tracks.md)")
    streams = _streams(path, ("timestamps_s", "keypoints_m", "wrist_rotation", "confidence"))
    with _naming(path):
        return HandTracks(order=order, **streams)


def _robot(path: Path) -> RobotLog:
    needed = ("timestamps_s", "state", "action", "effector_m")
    streams = _streams(path, needed, optional=("effector_state", "effector_action"))
    with _naming(path):
        return RobotLog(**streams)


def _depth(path: Path) -> ndarray:
    """A memory-mapped array, so that only the chosen frames are read."""
    depth_mm = _array(path, mapped=True)
    if depth_mm.dtype != np.uint16 or depth_mm.ndim != 3:
        raise RecordingError(f"{path.name} must be uint16 of shape (N, h, w), got {depth_mm.dtype} {depth_mm.shape}")
    return depth_mm


def _streams(path: Path, names: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, ndarray]:
    with reading(path):
        require_regular(path, STREAM_BYTES)
        _require_unpacked_size(path)
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, NpzFile):
            raise RecordingError(f"{path} holds a single array; write {', '.join(names)} with np.savez")
        with archive:
            missing = [name for name in names if name not in archive]
            if missing:
                raise RecordingError(f"{path} lacks {', '.join(missing)}; it holds {', '.join(archive)}")
            there = [*names, *(name for name in optional if name in archive)]
            return {name: _numbers(path, name, archive[name]) for name in there}


def _require_unpacked_size(path: Path) -> None:
    """Refuses archives that unpack to too much. A few kilobytes can hold gigabytes of zeros."""
    if not is_zipfile(path):
        return
    with ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > STREAM_BYTES:
        raise RecordingError(f"{path} unpacks to {unpacked:,} bytes, at most {STREAM_BYTES:,} are read")


def _array(path: Path, mapped: bool = False) -> ndarray:
    with reading(path):
        require_regular(path, None if mapped else STREAM_BYTES)
        array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    if not isinstance(array, ndarray):
        raise RecordingError(f"{path} is an archive of arrays; write one array with np.save")
    return array


def _numbers(path: Path, name: str, array: ndarray) -> ndarray:
    if array.dtype.kind not in "fiub":
        raise RecordingError(f"{path}: {name} must hold numbers, it holds {array.dtype}")
    return array.astype(np.float64)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except EgoRecoveryError as error:
        raise RecordingError(f"{path}: {error}") from error
