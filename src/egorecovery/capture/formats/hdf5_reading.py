"""Reads untrusted HDF5 files: no links to other files, and sizes are checked before memory is allocated."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy import ndarray

from egorecovery.episodes.vocabulary import STATE_DIM
from egorecovery.errors import RecordingError

if TYPE_CHECKING:
    import h5py

MAX_STREAM_BYTES = 256 * 2**20  # of one stream of numbers; an hour of 14 doubles at 50 Hz is 20 MB
MAX_CHUNK_BYTES = 64 * 2**20  # h5py holds one chunk in memory; ALOHA writes one picture per chunk
SLACK_BYTES = 4096  # a deflate stream of noise is a little larger than the noise
DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3  # numbers of HDF5 filters


@contextmanager
def opened(path: Path) -> Iterator["h5py.File"]:
    """Opens the file. Errors of a damaged file are raised with its name."""
    try:
        import h5py
    except ImportError:
        raise RecordingError(f"{path}: HDF5 needs h5py; install it with pip install 'egorecovery[formats]'") from None
    if not path.exists() and not path.is_symlink():
        raise RecordingError(f"{path} does not exist; mend the path")
    if path.is_symlink() or not path.is_file():
        raise RecordingError(f"{path} is not a regular file; give the file itself, not a link to it")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError, ValueError, MemoryError) as error:
        raise RecordingError(f"{path} cannot be read as HDF5 ({error}); copy or record it again") from error


def names_in(file: "h5py.File", group: str) -> list[str]:
    """Names in a group of the file; empty if there is no such group."""
    import h5py

    item = _follow(file, group)
    if item is None:
        return []
    if not isinstance(item, h5py.Group):
        raise RecordingError(f"{file.filename}: {group} is an array, a group is wanted there")
    names: list[object] = list(item)
    if not all(isinstance(name, str) for name in names):
        raise RecordingError(f"{file.filename}: {group} holds a name that is no text; copy or record it again")
    return sorted(map(str, names))


def dataset(file: "h5py.File", name: str) -> "h5py.Dataset | None":
    """An array of plain numbers or bytes stored entirely in the file; None if there is no such array."""
    import h5py

    array = _follow(file, name)
    if array is None:
        return None
    where = f"{file.filename}: {name}"
    if not isinstance(array, h5py.Dataset):
        raise RecordingError(f"{where} is no array")
    if array.is_virtual or array.external:
        raise RecordingError(f"{where} keeps its numbers in other files; only what the file itself holds is read")
    if array.dtype.hasobject and array.ndim == 1:
        raise RecordingError(
            f"{where} has rows of different lengths, which are not read; pad them with zeros to the longest, as in "
            "ALOHA's compressed files: an array of uint8, one picture per row"
        )
    if array.dtype.hasobject or array.dtype.kind not in "fiubS":
        raise RecordingError(f"{where} must hold numbers or bytes of fixed length, it holds {array.dtype}")
    if not array.shape:
        raise RecordingError(f"{where} is a single value, an array over time is wanted")
    _require_stored(array, where)
    return array


def numbers(file: "h5py.File", name: str, columns: int) -> ndarray:
    """A stream of shape (N, columns) as float64."""
    array = dataset(file, name)
    where = f"{file.filename}: {name}"
    if array is None:
        raise RecordingError(f"{where} is missing; {_kind_of(file)}")
    if array.dtype.kind not in "fiu":
        raise RecordingError(f"{where} must hold numbers, it holds {array.dtype}")
    if array.ndim != 2 or array.shape[1] != columns:
        raise RecordingError(f"{where} has shape {array.shape}, {_wanted(columns)}")
    if array.nbytes > MAX_STREAM_BYTES:
        raise RecordingError(f"{where} has {array.nbytes / 2**20:.0f} MB, at most {MAX_STREAM_BYTES // 2**20} expected")
    return np.asarray(array[:], np.float64)


def _wanted(columns: int) -> str:
    arms = "; two arms are wanted, six joints and a gripper each: write these columns" if columns == STATE_DIM else ""
    return f"(frames, {columns}) wanted{arms}"


def _kind_of(file: "h5py.File") -> str:
    """What a file without joints may be."""
    if any(name.startswith("demo_") for name in names_in(file, "data")):
        return (
            "it is a robomimic file, whose demonstrations have other names: write each demo_N as a file of its own, "
            "with observations/qpos, observations/images and action (docs/formats_other.md)"
        )
    return f"is this an ALOHA file? It holds {', '.join(sorted(map(str, file))[:8]) or 'nothing'}"


def _follow(file: "h5py.File", name: str) -> object:
    """Follows a path along hard links only. A soft or external link could lead anywhere."""
    import h5py

    here: object = file
    for part in name.strip("/").split("/"):
        if not isinstance(here, h5py.Group) or here.get(part, getlink=True) is None:
            return None
        if not isinstance(here.get(part, getlink=True), h5py.HardLink):
            raise RecordingError(f"{file.filename}: {name} is a link to something else; copy what it links to")
        here = here[part]
    return here


def _require_stored(array: "h5py.Dataset", where: str) -> None:
    """Refuses arrays whose declared bytes are missing, because HDF5 would fill in any amount."""
    if array.chunks is None:
        if array.id.get_storage_size() < array.nbytes:
            raise RecordingError(
                f"{where} declares {array.nbytes} bytes, the file holds {array.id.get_storage_size()}; record it again"
            )
        return
    wanted = int(np.prod([-(-size // chunk) for size, chunk in zip(array.shape, array.chunks, strict=True)]))
    chunk_bytes = int(np.prod(array.chunks)) * array.dtype.itemsize
    if chunk_bytes > MAX_CHUNK_BYTES:
        raise RecordingError(f"{where} has chunks of {chunk_bytes / 2**20:.0f} MB, at most 64 are read")
    if array.id.get_num_chunks() != wanted:
        raise RecordingError(
            f"{where} declares {wanted} chunks, the file holds {array.id.get_num_chunks()}: it was written in part"
        )
    _require_bounded(array, chunk_bytes, where)


def _require_bounded(array: "h5py.Dataset", chunk_bytes: int, where: str) -> None:
    """Refuses chunks that inflate beyond the declared size. HDF5 itself does not limit it."""
    properties = array.id.get_create_plist()
    filters = [properties.get_filter(index)[0] for index in range(properties.get_nfilters())]
    unknown = [number for number in filters if number not in (DEFLATE, SHUFFLE, FLETCHER32)]
    if unknown or filters.count(DEFLATE) > 1:
        what = f"HDF5 filter {unknown[0]}, which would need a plugin" if unknown else "gzip, twice"
        raise RecordingError(f"{where} is compressed by {what}; write it with h5repack -f GZIP=1 or -f NONE")
    if DEFLATE not in filters:
        return
    for index in range(array.id.get_num_chunks()):
        mask, raw = array.id.read_direct_chunk(array.id.get_chunk_info(index).chunk_offset)
        if mask >> filters.index(DEFLATE) & 1:  # this chunk is stored uncompressed
            continue
        try:
            inflated = zlib.decompressobj().decompress(raw, chunk_bytes + SLACK_BYTES)
        except zlib.error as error:
            raise RecordingError(f"{where}: chunk {index} cannot be inflated ({error}); copy it again") from None
        if len(inflated) >= chunk_bytes + SLACK_BYTES:
            raise RecordingError(f"{where}: chunk {index} inflates to more than the {chunk_bytes} bytes of a chunk")
