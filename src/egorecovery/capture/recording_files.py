"""The directory of a raw recording, described in docs/formats.md: what a recording rig writes and `import` reads."""

import json
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from tokenize import TokenError
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
import simplejpeg
from numpy import ndarray
from numpy.lib.npyio import NpzFile

from egorecovery.capture.recording import HandTracks, RawCamera, Recording, RobotLog
from egorecovery.episodes import Camera, Intrinsics, JpegFrames, Provenance, Side, Source, episode_id, task_named
from egorecovery.episodes.sealed import canonical
from egorecovery.errors import EgoRecoveryError, RecordingError
from egorecovery.motion import KeypointOrder

DESCRIPTION = "recording.json"
FORMAT = "egorecovery-recording"
SCHEMA = 1
JPEG_SUFFIXES = (".jpg", ".jpeg")
JPEG_END = b"\xff\xd9"
# What numpy, zipfile and libjpeg raise for files that are cut short, overwritten or something else altogether.
DAMAGE = (
    *(ValueError, TypeError, KeyError, IndexError, OverflowError, SyntaxError, TokenError),  # headers
    *(OSError, EOFError, RuntimeError, MemoryError, BadZipFile, zlib.error, struct.error),  # contents
)

Word = TypeVar("Word", bound=StrEnum)
Kind = TypeVar("Kind")


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
    path = directory / DESCRIPTION
    described = _description(path)
    with _naming(path):
        identifier = episode_id(_field(described, "id", str, directory.name))
        source = _one_of(Source, _field(described, "source", str), "source")
        active = tuple(_one_of(Side, side, "active") for side in _field(described, "active", list, []))
        task = task_named(_field(described, "task", str), active)
        intrinsics = {
            _one_of(Camera, name, "cameras"): Intrinsics.from_json(known, f"cameras.{name}")
            for name, known in _field(described, "cameras", dict).items()
        }
        order = (
            _one_of(KeypointOrder, _field(described, "keypoint_order", str), "keypoint_order")
            if source.is_human
            else None
        )
        provenance = Provenance.from_json(_field(described, "provenance", dict))
    return Recording(
        id=identifier,
        task=task,
        source=source,
        cameras={camera: _camera(directory / camera, known) for camera, known in intrinsics.items()},
        motion=_robot(directory / "robot.npz") if order is None else _hands(directory / "hands.npz", order),
        provenance=provenance,
    )


def damaged_image(directory: Path) -> Path | None:
    """The first JPEG file of a recording whose header is whole, so that it loads, but whose picture is not."""
    for camera in Camera:
        for path in _image_files(directory / camera):
            try:
                simplejpeg.decode_jpeg(path.read_bytes(), min_width=16, min_height=16, min_factor=1.5)
            except ValueError:
                return path
    return None


def _description(path: Path) -> dict[str, Any]:
    try:
        described = json.loads(path.read_bytes())
        canonical(described)  # NaN or half a surrogate pair could never be written to a store
    except FileNotFoundError:
        raise RecordingError(f"{path} is missing; see docs/formats.md") from None
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{path}: not JSON ({error})") from error
    except OSError as error:
        raise RecordingError(f"{path} cannot be read ({error})") from error
    if not isinstance(described, dict) or (described.get("format"), described.get("schema")) != (FORMAT, SCHEMA):
        raise RecordingError(f'{path}: wants "format": "{FORMAT}" and "schema": {SCHEMA}; see docs/formats.md')
    return described


def _field(described: dict[str, Any], name: str, kind: type[Kind], absent: Kind | None = None) -> Kind:
    """A field of the description, of the type that JSON gives it."""
    value = described.get(name, absent)
    if value is None:
        raise RecordingError(f"{name} is missing; see docs/formats.md")
    if not isinstance(value, kind):
        words = {str: "text", list: "a list", dict: "an object"}[kind]
        raise RecordingError(f"{name} must be {words}, got {value!r}")
    return value


def _one_of(words: type[Word], value: object, name: str) -> Word:
    if value not in list(words):
        raise RecordingError(f"{name}: {value!r} is not one of {', '.join(words)}")
    return words(value)


def _camera(directory: Path, known: Intrinsics) -> RawCamera:
    frames = _frames(directory, known)
    timestamps_s = _numbers(directory / "timestamps_s.npy", "the array", _array(directory / "timestamps_s.npy"))
    depth = directory / "depth_mm.npy"
    with _naming(directory):
        return RawCamera(
            frames=frames,
            timestamps_s=timestamps_s,
            intrinsics=known,
            depth_mm=_depth(depth) if depth.exists() else None,
        )


def _frames(directory: Path, known: Intrinsics) -> JpegFrames:
    """JPEG files are taken byte for byte; a video is decoded and encoded once."""
    video = directory / "rgb.mp4"
    if video.exists():
        frames = JpegFrames.encode(_video(video, known))
        if not len(frames):
            raise RecordingError(f"{video} holds no picture; export it again")
        return frames
    images = _image_files(directory)
    if not images:
        raise RecordingError(f"{directory}: neither rgb/*.jpg nor rgb.mp4 there")
    return JpegFrames.pack([_jpeg(image, known) for image in images])


def _image_files(directory: Path) -> list[Path]:
    """In the order of the numbers in their names: frame_2 comes before frame_10."""
    numbered: dict[tuple[int, ...], Path] = {}
    for path in sorted((directory / "rgb").glob("*")):
        if path.name.startswith(".") or path.suffix.lower() not in JPEG_SUFFIXES:  # macOS leaves ._000000.jpg about
            continue
        numbers = tuple(map(int, re.findall("[0-9]+", path.stem)))
        if not numbers:
            raise RecordingError(
                f"{path} has no number in its name to order it by; name frames 000000.jpg, 000001.jpg ..."
            )
        if numbers in numbered:
            raise RecordingError(f"{path} and {numbered[numbers].name} have the same number; remove or renumber one")
        numbered[numbers] = path
    return [numbered[numbers] for numbers in sorted(numbered)]


def _jpeg(path: Path, known: Intrinsics) -> bytes:
    with _reading(path):
        encoded = path.read_bytes()
        try:
            height, width, *_ = simplejpeg.decode_jpeg_header(encoded)
        except ValueError:
            raise RecordingError(f"{path} is not a JPEG picture; export it again as JPEG") from None
    if JPEG_END not in encoded:
        raise RecordingError(f"{path} is cut short: the end of the JPEG is missing; copy it again")
    _require_size(f"{path}", (int(width), int(height)), known)
    return encoded


def _video(path: Path, known: Intrinsics) -> Iterator[ndarray]:
    """One picture at a time: a minute of video would fill gigabytes."""
    import av
    from av.error import FFmpegError

    try:
        with av.open(str(path)) as container:
            for number, frame in enumerate(container.decode(video=0)):
                _require_size(f"{path}, frame {number},", (frame.width, frame.height), known)
                yield frame.to_ndarray(format="rgb24")
    except (FFmpegError, IndexError, ValueError) as error:
        raise RecordingError(f"{path} cannot be decoded ({error})") from error


def _require_size(what: str, size_wh: tuple[int, int], known: Intrinsics) -> None:
    if size_wh != (known.width, known.height):
        raise RecordingError(
            f"{what} has {size_wh[0]} x {size_wh[1]} pixels, but its camera {known.width} x {known.height} "
            f"(width x height) in {DESCRIPTION}"
        )


def _hands(path: Path, order: KeypointOrder) -> HandTracks:
    streams = _streams(path, ("timestamps_s", "keypoints_m", "wrist_rotation", "confidence"))
    with _naming(path):
        return HandTracks(order=order, **streams)


def _robot(path: Path) -> RobotLog:
    streams = _streams(path, ("timestamps_s", "state", "action", "effector_m"))
    with _naming(path):
        return RobotLog(**streams)


def _depth(path: Path) -> ndarray:
    """Mapped: only the frames that are chosen are read."""
    depth_mm = _array(path, mapped=True)
    if depth_mm.dtype != np.uint16 or depth_mm.ndim != 3:
        raise RecordingError(f"{path.name} must be uint16 of shape (N, h, w), got {depth_mm.dtype} {depth_mm.shape}")
    return depth_mm


def _streams(path: Path, names: tuple[str, ...]) -> dict[str, ndarray]:
    with _reading(path):
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, NpzFile):
            raise RecordingError(f"{path} holds a single array; write {', '.join(names)} with np.savez")
        with archive:
            missing = [name for name in names if name not in archive]
            if missing:
                raise RecordingError(f"{path} lacks {', '.join(missing)}; it holds {', '.join(archive)}")
            return {name: _numbers(path, name, archive[name]) for name in names}


def _array(path: Path, mapped: bool = False) -> ndarray:
    with _reading(path):
        array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    if not isinstance(array, ndarray):
        raise RecordingError(f"{path} is an archive of arrays; write one array with np.save")
    return array


def _numbers(path: Path, name: str, array: ndarray) -> ndarray:
    if array.dtype.kind not in "fiub":
        raise RecordingError(f"{path}: {name} must hold numbers, it holds {array.dtype}")
    return array.astype(np.float64)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Whatever a damaged file makes its reader raise, said with the file's name."""
    try:
        yield
    except FileNotFoundError:
        raise RecordingError(f"{path} is missing; see docs/formats.md") from None
    except DAMAGE as error:
        raise RecordingError(
            f"{path} cannot be read ({error or type(error).__name__}); copy or export it again"
        ) from error


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except EgoRecoveryError as error:
        raise RecordingError(f"{path}: {error}") from error
