"""The directory of a raw recording, described in docs/formats.md: what a recording rig writes and `import` reads."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from egorecovery.capture.recording import HandTracks, RawCamera, Recording, RobotLog
from egorecovery.episodes import Camera, Intrinsics, JpegFrames, Provenance, Side, Source, episode_id, task_named
from egorecovery.errors import EgoRecoveryError, RecordingError
from egorecovery.motion import KeypointOrder

DESCRIPTION = "recording.json"
FORMAT = "egorecovery-recording"
SCHEMA = 1


def find_recordings(paths: list[Path]) -> list[Path]:
    """The recordings among these directories, and directly inside them."""
    found: list[Path] = []
    for path in paths:
        inside = [path] if (path / DESCRIPTION).is_file() else sorted(p.parent for p in path.glob(f"*/{DESCRIPTION}"))
        if not inside:
            raise RecordingError(f"{path}: no {DESCRIPTION} there or one level down; see docs/formats.md")
        found += inside
    return found


def save_recording(recording: Recording, directory: Path) -> None:
    """Writes the description last, so a directory that has one is complete."""
    directory.mkdir(parents=True)
    for camera, raw in recording.cameras.items():
        images = directory / camera / "rgb"
        images.mkdir(parents=True)
        for index in range(len(raw.frames)):
            (images / f"{index:06d}.jpg").write_bytes(raw.frames.encoded(index).tobytes())
        np.save(directory / camera / "timestamps_s.npy", raw.timestamps_s)
        if raw.depth_mm is not None:
            np.save(directory / camera / "depth_mm.npy", raw.depth_mm)
    motion = recording.motion
    streams: dict[str, Any] = {name: value for name, value in vars(motion).items() if isinstance(value, ndarray)}
    np.savez(directory / ("hands.npz" if isinstance(motion, HandTracks) else "robot.npz"), **streams)
    description = {
        "format": FORMAT,
        "schema": SCHEMA,
        "id": recording.id,
        "task": recording.task.name,
        "active": [str(side) for side in recording.task.active],
        "source": str(recording.source),
        "cameras": {str(camera): asdict(raw.intrinsics) for camera, raw in recording.cameras.items()},
        "provenance": {**asdict(recording.provenance), "details": dict(recording.provenance.details)},
    }
    if isinstance(motion, HandTracks):
        description["keypoint_order"] = str(motion.order)
    (directory / DESCRIPTION).write_text(json.dumps(description, indent=2))


def load_recording(directory: Path) -> Recording:
    """Everything of one recording; whatever is wrong with it is said with its file."""
    described = _description(directory)
    try:
        source = Source(described["source"])
        return Recording(
            id=episode_id(described.get("id", directory.name)),
            task=task_named(described["task"], tuple(Side(side) for side in described.get("active", ()))),
            source=source,
            cameras={
                Camera(name): _camera(directory / name, Intrinsics(**intrinsics))
                for name, intrinsics in described["cameras"].items()
            },
            motion=_hands(directory, described) if source.is_human else _robot(directory),
            provenance=Provenance(**described["provenance"]),
        )
    except KeyError as error:
        raise RecordingError(f"{directory / DESCRIPTION}: field {error} is missing; see docs/formats.md") from error
    except (TypeError, ValueError) as error:
        raise RecordingError(f"{directory / DESCRIPTION}: {error}; see docs/formats.md") from error
    except EgoRecoveryError as error:
        raise RecordingError(f"{directory}: {error}") from error


def _description(directory: Path) -> dict[str, Any]:
    path = directory / DESCRIPTION
    try:
        described = json.loads(path.read_text())
    except FileNotFoundError:
        raise RecordingError(f"{path} is missing; see docs/formats.md") from None
    except ValueError as error:
        raise RecordingError(f"{path}: not JSON ({error})") from error
    if not isinstance(described, dict) or (described.get("format"), described.get("schema")) != (FORMAT, SCHEMA):
        raise RecordingError(f'{path}: wants "format": "{FORMAT}" and "schema": {SCHEMA}; see docs/formats.md')
    return described


def _camera(directory: Path, intrinsics: Intrinsics) -> RawCamera:
    depth = directory / "depth_mm.npy"
    try:
        return RawCamera(
            frames=_frames(directory),
            timestamps_s=_load(directory / "timestamps_s.npy").astype(np.float64),
            intrinsics=intrinsics,
            depth_mm=_load(depth) if depth.exists() else None,
        )
    except RecordingError as error:
        raise RecordingError(f"{directory}: {error}") from error


def _frames(directory: Path) -> JpegFrames:
    """JPEG files are taken byte for byte; a video is decoded and encoded once."""
    video = directory / "rgb.mp4"
    if video.exists():
        return JpegFrames.encode(_video(video))
    images = sorted((directory / "rgb").glob("*.jpg"))
    if not images:
        raise RecordingError("neither rgb/*.jpg nor rgb.mp4 there")
    return JpegFrames.pack([image.read_bytes() for image in images])


def _video(path: Path) -> list[ndarray]:
    import av
    from av.error import FFmpegError

    try:
        with av.open(str(path)) as container:
            return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    except (FFmpegError, IndexError) as error:
        raise RecordingError(f"{path.name} cannot be decoded ({error})") from error


def _hands(directory: Path, described: dict[str, Any]) -> HandTracks:
    streams = _streams(directory / "hands.npz", ("timestamps_s", "keypoints_m", "wrist_rotation", "confidence"))
    return HandTracks(order=KeypointOrder(described["keypoint_order"]), **streams)


def _robot(directory: Path) -> RobotLog:
    return RobotLog(**_streams(directory / "robot.npz", ("timestamps_s", "state", "action", "effector_m")))


def _streams(path: Path, names: tuple[str, ...]) -> dict[str, ndarray]:
    loaded = _load(path)
    missing = [name for name in names if name not in loaded]
    if missing:
        raise RecordingError(f"{path.name} lacks {', '.join(missing)}; it holds {', '.join(loaded)}")
    return {name: loaded[name].astype(np.float64) for name in names}


def _load(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise RecordingError(f"{path.name} is missing") from None
    except (ValueError, OSError, EOFError) as error:
        raise RecordingError(f"{path.name} cannot be read ({error})") from error
