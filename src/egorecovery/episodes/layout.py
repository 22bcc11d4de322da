"""An episode as a Zarr v3 group. Plain arrays are one uncompressed chunk, so reading them is a memory map."""

import math
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from struct import Struct
from typing import Any

import numpy as np
from numpy import ndarray

from egorecovery.episodes.episode import CameraStream, Episode, Intrinsics, Provenance
from egorecovery.episodes.frames import JpegFrames
from egorecovery.episodes.vocabulary import RATE_HZ, Camera, EpisodeId, Side, Source, Task, episode_id
from egorecovery.errors import EpisodeError, StoreDamaged
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.containment import files_below, inside, is_file, open_file
from egorecovery.storage.typed_json import from_json, to_json

GROUP = "episode.zarr"  # inside the episode's directory, beside its manifest
STREAMS = ("timestamps_s", "state", "action", "effector_m", "reliable")
OPTIONAL_STREAMS = ("effector_state", "effector_action")  # younger than the first stores
BLOSC = Struct("<BBBBIII")  # version, its codec's, flags, bytes of an item, unpacked, of a block, packed
ZSTD = 4  # in the upper three bits of the flags
MOST_DEPTH_PIXELS = 4096 * 4096  # of one map
DEPTH = "depth_mm"  # of a camera; compressed, and chunks of zeros are left out
DTYPES = {"bool": "?", "uint8": "u1", "uint16": "<u2", "int64": "<i8", "float32": "<f4", "float64": "<f8"}


def write_group(directory: Path, episode: Episode) -> None:
    """All arrays and attributes of an episode, not yet synced. The manifest comes after."""
    import zarr  # 150 ms that readers never pay

    group = zarr.create_group(directory / GROUP, zarr_format=3, attributes=describe(episode))
    for name in (*STREAMS, *OPTIONAL_STREAMS):
        if getattr(episode, name) is not None:
            _put_plain(group, name, getattr(episode, name))
    for camera, stream in episode.cameras.items():
        into = group.create_group(f"cameras/{camera}")
        _put_plain(into, "jpeg", stream.frames.packed)
        _put_plain(into, "offsets", stream.frames.offsets)
        _put_plain(into, "timestamps_s", stream.timestamps_s)
        if stream.depth_mm is not None:
            _put_depth(into, stream.depth_mm)


def _put_plain(group: Any, name: str, array: ndarray) -> None:
    # Empty chunks are written too: an all-zero stream is data, and the reader maps the file.
    config = {"write_empty_chunks": True}
    group.create_array(name, data=array, chunks=array.shape, compressors=None, filters=None, config=config)


def _put_depth(group: Any, depth_mm: ndarray) -> None:
    from zarr.codecs import BloscCodec, BloscShuffle

    codec = BloscCodec(cname="zstd", clevel=3, shuffle=BloscShuffle.bitshuffle)
    # 16 frames a chunk: random access stays cheap and the directory small.
    chunks = (min(16, len(depth_mm)), *depth_mm.shape[1:])
    group.create_array(DEPTH, data=depth_mm, chunks=chunks, compressors=codec)


def describe(episode: Episode) -> dict[str, Any]:
    """The group's attributes: everything about an episode that is not an array."""
    return {
        "id": episode.id,
        "task": episode.task.name,
        "active": [str(side) for side in episode.task.active],
        "source": str(episode.source),
        "frames": len(episode),
        "rate_hz": RATE_HZ,
        "cameras": {
            str(camera): {**to_json(stream.intrinsics), "depth": stream.depth_mm is not None}
            for camera, stream in episode.cameras.items()
        },
        "provenance": to_json(episode.provenance),
    }


def watched(names: tuple[str, ...]) -> tuple[str, ...]:
    """Of an episode's files and folders those by which it shows that what is read has changed, half of them.

    All files are, and the folders in which another stream or camera would be read. In the folder of an array nothing is
    read but its header and its one chunk, whatever is added; only depth has chunks that may be missing.
    """
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    cameras = f"{GROUP}/cameras"
    read = {".", GROUP, cameras, *(f"{cameras}/{camera}" for camera in Camera)}
    return tuple(name for name in names if name not in folders or name in read or DEPTH in name.split("/"))


@contextmanager
def explaining_damage(path: Path) -> Iterator[None]:
    """What a header or attribute with a flipped byte can do, said as damage."""
    try:
        yield
    except (EpisodeError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise StoreDamaged(f"{path}: not readable ({error!r}); run 'egorecovery verify'") from error


def read_attributes(directory: Path) -> dict[str, Any]:
    header = inside(directory, GROUP, "zarr.json")
    with explaining_damage(header):
        return dict(_read_json(header)["attributes"])


def read_group(directory: Path) -> Episode:
    """The episode, with every plain array and JPEG buffer mapped rather than read."""
    attributes = read_attributes(directory)
    with explaining_damage(directory):
        return Episode(
            id=require_own_id(directory, attributes["id"]),
            task=Task(attributes["task"], tuple(Side(side) for side in attributes["active"])),
            source=Source(attributes["source"]),
            cameras={
                Camera(name): _read_camera(inside(directory, GROUP, "cameras", Camera(name)), facts)
                for name, facts in attributes["cameras"].items()
            },
            provenance=from_json(Provenance, attributes["provenance"], "provenance", EpisodeError),
            **{name: read_stream(directory, name) for name in STREAMS},
            **{name: read_stream(directory, name) for name in OPTIONAL_STREAMS if has_stream(directory, name)},
        )


def require_own_id(directory: Path, identifier: object) -> EpisodeId:
    """The id that an episode says of itself must be that of its folder: nothing is ever done by another."""
    if identifier != directory.name:
        raise StoreDamaged(
            f"{directory}: its id is {str(identifier)[:128]!r}, not its folder's name: it was renamed, or is another "
            "episode; rename it back, or restore it from a copy"
        )
    return episode_id(directory.name)


def read_stream(directory: Path, name: str) -> ndarray:
    """One of `STREAMS` or `OPTIONAL_STREAMS`, mapped."""
    return read_plain(inside(directory, GROUP, name))


def has_stream(directory: Path, name: str) -> bool:
    return is_file(inside(directory, GROUP, name) / "zarr.json")


def read_frames(directory: Path, camera: Camera) -> JpegFrames:
    """One camera's frames, mapped."""
    folder = inside(directory, GROUP, "cameras", camera)
    with explaining_damage(folder):
        return JpegFrames(read_plain(folder / "jpeg"), read_plain(folder / "offsets"))


def _read_camera(directory: Path, facts: Mapping[str, Any]) -> CameraStream:
    intrinsics = {name: value for name, value in facts.items() if name != "depth"}
    frames = JpegFrames(read_plain(directory / "jpeg"), read_plain(directory / "offsets"))
    return CameraStream(
        frames=frames,
        timestamps_s=read_plain(directory / "timestamps_s"),
        intrinsics=Intrinsics.from_json(intrinsics, "intrinsics"),
        depth_mm=_read_depth(directory / DEPTH, len(frames)) if facts["depth"] else None,
    )


def _read_depth(directory: Path, frames: int) -> ndarray:
    """As many maps as there are frames: a header's word alone must not decide what is allocated."""
    import zarr

    files = files_below(directory)  # regular all of them: zarr would follow links
    header = read_json(directory / "zarr.json")
    with explaining_damage(directory / "zarr.json"):
        count, height, width = map(int, header["shape"])
        chunk = math.prod(map(int, header["chunk_grid"]["configuration"]["chunk_shape"]))
    if count != frames or not 0 < height * width <= MOST_DEPTH_PIXELS or chunk > 16 * height * width:
        raise StoreDamaged(
            f"{directory}: {count} maps of {height} x {width} for {frames} frames, in chunks of {chunk} values; run "
            "'egorecovery verify'"
        )
    _require_own_compression(directory, files, header, values=chunk)
    try:
        return np.asarray(zarr.open_array(directory, mode="r")[:])
    except (KeyError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise StoreDamaged(f"{directory}: cannot be decoded ({error}); run 'egorecovery verify'") from error


def _require_own_compression(directory: Path, files: Iterable[str], header: Mapping[str, Any], values: int) -> None:
    """Blosc trusts the sizes in a chunk's first bytes: wrong ones end the process, so they are refused."""
    with explaining_damage(directory / "zarr.json"):
        codecs = [codec["name"] for codec in header["codecs"]]
        if (codecs, header["data_type"]) != (["bytes", "blosc"], "uint16"):
            raise StoreDamaged(f"{directory}: {header['data_type']} by {codecs} is no depth; run 'egorecovery verify'")
    for path in (directory / name for name in files if name != "zarr.json"):
        with os.fdopen(open_file(path), "rb") as stream:
            start = stream.read(BLOSC.size)
            size = os.fstat(stream.fileno()).st_size
        if len(start) < BLOSC.size:
            raise StoreDamaged(f"{path}: too short for a compressed chunk; run 'egorecovery verify'")
        _, _, flags, item, unpacked, block, packed = BLOSC.unpack(start)
        ours = flags >> 5 == ZSTD and not flags & 0b1000 and item == 2 and unpacked == 2 * values and packed == size
        if not (ours and 0 < block <= unpacked):
            raise StoreDamaged(f"{path}: not compressed as we compress depth; run 'egorecovery verify'")


def read_plain(directory: Path) -> ndarray:
    """Maps an array that `write_group` laid out; refuses any other layout rather than misread it."""
    with explaining_damage(directory / "zarr.json"):
        header = _read_json(inside(directory, "zarr.json"))
        shape = tuple(map(int, header["shape"]))
        dtype = np.dtype(DTYPES[header["data_type"]])
        codecs = header["codecs"]
        plain = [codec["name"] for codec in codecs] == ["bytes"]
        big = dtype.itemsize > 1 and any(codec.get("configuration", {}).get("endian") == "big" for codec in codecs)
        whole = tuple(header["chunk_grid"]["configuration"]["chunk_shape"]) == shape
    if not (plain and whole):
        raise StoreDamaged(f"{directory}: expected one uncompressed chunk; run 'egorecovery verify'")
    if big:
        raise StoreDamaged(f"{directory}: big-endian arrays are not read; write it as little-endian again")
    chunk = inside(directory, "c", *("0" for _ in shape))
    try:
        descriptor = open_file(chunk)
        try:  # np.memmap costs twice as much: it resolves and stats the path again
            mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise StoreDamaged(f"{chunk}: cannot be mapped ({error}); run 'egorecovery verify'") from error
    if len(mapped) != dtype.itemsize * math.prod(shape):
        raise StoreDamaged(f"{chunk}: has {len(mapped)} bytes, its header says {shape} {dtype}")
    return np.frombuffer(mapped, dtype).reshape(shape)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return read_json(path, advice="run 'egorecovery verify'")
    except FileNotFoundError:
        raise StoreDamaged(f"{path} is missing; run 'egorecovery verify'") from None
