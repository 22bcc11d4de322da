"""Episodes of ACT, ALOHA and Mobile ALOHA: one HDF5 file per episode, without clock, calibration or colour order."""

# N samples

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from egorecovery.capture.fitted_pictures import raw_camera
from egorecovery.capture.formats import hdf5_reading
from egorecovery.capture.formats.grippers import COLUMNS, GripperRange, GripperRanges, normalised, ranges_of
from egorecovery.capture.formats.importer import trailing_number
from egorecovery.capture.formats.pictures import (
    guessed_intrinsics,
    jpeg_size_hw,
    require_size,
    same_sizes,
    swapped,
    whole_jpeg,
)
from egorecovery.capture.picture_fit import PictureFit
from egorecovery.capture.recording import RawCamera, RobotLog
from egorecovery.episodes import JpegFrames
from egorecovery.episodes.vocabulary import STATE_DIM
from egorecovery.errors import RecordingError
from egorecovery.kinematics import unpack

if TYPE_CHECKING:
    import h5py

    from egorecovery.kinematics.arms import Arms

SUFFIXES = (".hdf5", ".h5")
IMAGES = "observations/images"
MAX_FRAMES = 200_000  # an hour at 50 Hz
STILL = 1e-3  # a base whose commands stay below this has not been driven

ChannelOrder = Literal["rgb", "bgr"]


@dataclass(frozen=True, kw_only=True)
class AlohaReading:
    """Facts that the files do not contain."""

    rate_hz: float = 50.0  # ACT's recorder runs at DT = 0.02 s
    channel_order: ChannelOrder = "rgb"  # bgr: red and blue are exchanged, in arrays or before JPEG encoding
    grippers: GripperRanges

    def __post_init__(self) -> None:
        if not 1 <= self.rate_hz <= 1000:
            raise RecordingError(f"rate_hz must lie between 1 and 1000, got {self.rate_hz:g}")


@dataclass(frozen=True, kw_only=True)
class AlohaFile:
    """One episode without its pictures."""

    path: Path
    frames: int
    cameras: Mapping[str, tuple[int, int]]  # height and width by their names in the file, depth left out
    compressed: bool
    simulated: bool
    base_moves: bool  # a Mobile ALOHA whose base was driven
    lowest: dict[str, float]  # gripper reading, by stream
    highest: dict[str, float]


def find_files(paths: Sequence[Path]) -> list[Path]:
    """HDF5 files among these paths, or directly inside them. Links are not followed."""
    files: list[Path] = []
    for path in paths:
        inside = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES) if path.is_dir() else [path]
        if not inside:
            deeper = sorted({p.parent.name for ending in SUFFIXES for p in path.glob(f"*/*{ending}")})
            where = f"; its folders {', '.join(deeper[:5])} have some: name those" if deeper else ""
            raise RecordingError(
                f"{path}: no {' or '.join(SUFFIXES)} file there; an ALOHA episode is one HDF5 file{where}"
            )
        files += inside
    return sorted(files, key=_by_number)


def _by_number(path: Path) -> tuple[Path, str, int, str]:
    """A sort key that puts episode_2 before episode_10."""
    number = trailing_number(path)
    return path.parent, path.stem.rstrip("0123456789"), -1 if number is None else number, path.name


def look_at(path: Path) -> AlohaFile:
    """Shapes, cameras and gripper readings; refuses a file that is no ALOHA episode."""
    with hdf5_reading.opened(path) as file:
        state, action = _joints(file, "observations/qpos"), _joints(file, "action")
        if len(state) != len(action):
            raise RecordingError(
                f"{path}: observations/qpos has {len(state)} samples, action {len(action)}; an action per sample is "
                "wanted: cut the longer one, or record it again"
            )
        stored = {name: _pictures(file, name, len(state)) for name in _names(file)}
        return AlohaFile(
            path=path,
            frames=len(state),
            cameras={name: _size_hw(array, f"{path}: {IMAGES}/{name}") for name, array in stored.items()},
            compressed=any(_is_compressed(array) for array in stored.values()),
            simulated=bool(np.any(file.attrs.get("sim", False))),
            base_moves=_base_moves(file),
            lowest={"state": float(state[:, COLUMNS].min()), "action": float(action[:, COLUMNS].min())},
            highest={"state": float(state[:, COLUMNS].max()), "action": float(action[:, COLUMNS].max())},
        )


def _base_moves(file: "h5py.File") -> bool:
    """Whether the base of a Mobile ALOHA was driven. A standing base is recorded too."""
    base = hdf5_reading.dataset(file, "base_action")
    return base is not None and base.nbytes <= hdf5_reading.MAX_STREAM_BYTES and bool((np.abs(base[:]) > STILL).any())


def gripper_ranges(files: Sequence[AlohaFile], given: GripperRanges) -> dict[str, GripperRange]:
    """Gripper ranges of a data set: from the lowest to the highest reading of state and of action."""
    lowest = {name: min(file.lowest[name] for file in files) for name in ("state", "action")}
    highest = {name: max(file.highest[name] for file in files) for name in ("state", "action")}
    return ranges_of(lowest, highest, given)


def read_log(path: Path, reading: AlohaReading, arms: "Arms") -> RobotLog:
    """Joints as recorded, grippers from 0 to 1, effectors by forward kinematics of both."""
    with hdf5_reading.opened(path) as file:
        state = normalised(_joints(file, "observations/qpos"), reading.grippers["state"])
        action = normalised(_joints(file, "action"), reading.grippers["action"])
    effector_state = arms.effector_vectors(state)
    return RobotLog(
        timestamps_s=np.arange(len(state)) / reading.rate_hz,
        state=state,
        action=action,
        effector_m=unpack(effector_state).position_m,
        effector_state=effector_state,
        effector_action=arms.effector_vectors(action),
    )


def read_camera(path: Path, name: str, reading: AlohaReading, fit: PictureFit | None = None) -> RawCamera:
    """A camera of an episode. JPEG pictures in the right colours are taken byte for byte and fitted later."""
    with hdf5_reading.opened(path) as file:
        frames = len(_joints(file, "observations/qpos"))
        stored = _pictures(file, name, frames)
        clock_s = np.arange(frames) / reading.rate_hz
        known = guessed_intrinsics(_size_hw(stored, f"{path}: {IMAGES}/{name}"))
        if _is_compressed(stored):
            return RawCamera(frames=_jpegs(file, name, stored, reading), timestamps_s=clock_s, intrinsics=known)
        return raw_camera(_raw(stored, reading), clock_s, known, fit)


def _names(file: "h5py.File") -> list[str]:
    return [name for name in hdf5_reading.names_in(file, IMAGES) if "_depth" not in name]


def _size_hw(stored: "h5py.Dataset", where: str) -> tuple[int, int]:
    if not _is_compressed(stored):
        return stored.shape[1], stored.shape[2]
    return jpeg_size_hw(np.asarray(stored[0]).tobytes(), f"{where}, frame 0")


def _joints(file: "h5py.File", name: str) -> Float[ndarray, "N 14"]:
    joints = hdf5_reading.numbers(file, name, STATE_DIM)
    if not 2 <= len(joints) <= MAX_FRAMES:
        raise RecordingError(f"{file.filename}: {name} has {len(joints)} samples, between 2 and {MAX_FRAMES} expected")
    bad = np.asarray(~np.isfinite(joints).all(axis=1))
    if bad.any():
        raise RecordingError(
            f"{file.filename}: {name} is NaN or infinite in {bad.sum()} of {len(bad)} samples, "
            f"first at sample {int(np.argmax(bad))}; record it again or cut these samples"
        )
    return joints


def _pictures(file: "h5py.File", name: str, frames: int) -> "h5py.Dataset":
    """The array of one camera: (N, H, W, 3) uint8, or one padded JPEG per row."""
    where = f"{file.filename}: {IMAGES}/{name}"
    stored = hdf5_reading.dataset(file, f"{IMAGES}/{name}")
    if stored is None:
        raise RecordingError(f"{where} is missing")
    if len(stored) != frames:
        raise RecordingError(f"{where} has {len(stored)} pictures, observations/qpos {frames} samples")
    if _is_compressed(stored):
        return stored
    if stored.dtype != np.uint8 or stored.ndim != 4 or stored.shape[3] != 3:
        raise RecordingError(
            f"{where} is {stored.dtype} of shape {stored.shape}; uint8 pictures of shape (frames, height, width, 3) "
            f"or one JPEG per row are wanted{_turned(stored.shape)}"
        )
    require_size((stored.shape[1], stored.shape[2]), where)
    return stored


def _turned(shape: tuple[int, ...]) -> str:
    return "; put the channels last" if len(shape) == 4 and shape[1] == 3 else ""


def _is_compressed(stored: "h5py.Dataset") -> bool:
    return (stored.dtype == np.uint8 and stored.ndim == 2) or (stored.dtype.kind == "S" and stored.ndim == 1)


def _raw(stored: "h5py.Dataset", reading: AlohaReading) -> Iterator[UInt8[ndarray, "H W 3"]]:
    """Decoded pictures, one at a time, because a minute has gigabytes."""
    order = slice(None, None, -1 if reading.channel_order == "bgr" else 1)
    for frame in range(len(stored)):
        yield stored[frame][..., order]


def _jpegs(file: "h5py.File", name: str, stored: "h5py.Dataset", reading: AlohaReading) -> JpegFrames:
    where = f"{file.filename}: {IMAGES}/{name}"
    rows = (np.asarray(stored[number]).tobytes() for number in range(len(stored)))
    whole = (whole_jpeg(row, f"{where}, frame {number}") for number, row in enumerate(rows))
    pictures = list(same_sizes(whole, where))
    _require_lengths(file, [len(encoded) for encoded in pictures], where)
    if reading.channel_order == "bgr":
        pictures = [swapped(encoded, f"{where}, frame {number}") for number, encoded in enumerate(pictures)]
    return JpegFrames.pack(pictures)


def _require_lengths(file: "h5py.File", lengths: list[int], where: str) -> None:
    """Checks picture lengths against `compress_len`, if the file has it.

    It has one row per camera. Mobile ALOHA's recorder writes them in its own order of cameras, its compression script
    in the order of their names, and the file does not say which. A camera's row is therefore the one that matches.
    """
    if hdf5_reading.dataset(file, "compress_len") is None:
        return
    declared = hdf5_reading.numbers(file, "compress_len", len(lengths))
    differs = declared != np.array(lengths)
    if not len(declared) or differs.sum(axis=1).min() > 0:
        closest = differs[np.argmin(differs.sum(axis=1))] if len(declared) else np.ones(len(lengths), bool)
        raise RecordingError(
            f"{where}: no row of compress_len fits its pictures; the closest differs in {closest.sum()} of "
            f"{len(lengths)}, first at frame {int(np.argmax(closest))}; compress the file again"
        )
