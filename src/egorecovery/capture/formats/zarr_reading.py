"""Reads untrusted Zarr v3 groups: plain arrays by name, whose metadata are checked before zarr opens them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from egorecovery.errors import RecordingError
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.containment import special_files

MAX_METADATA_BYTES = 8 * 2**20
MAX_STREAM_BYTES = 256 * 2**20  # of one array of numbers, padding included
MAX_FRAMES = 200_000  # an hour at 50 Hz
MAX_CHUNK_BYTES = 64 * 2**20
FRAMES_AT_ONCE = 8  # pictures that are inflated together
NUMBERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
BLOBS = ("variable_length_bytes", "bytes")  # zarr has called it both
CODECS = ("bytes", "vlen-bytes", "zstd", "gzip", "blosc", "crc32c", "sharding_indexed")
SQUEEZING = ("zstd", "gzip", "blosc")
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True)
class ZarrGroup:
    """A group on disk and its attributes."""

    path: Path
    attributes: dict[str, Any]

    @classmethod
    def at(cls, path: Path) -> "ZarrGroup":
        header = _header(path)
        if header.get("node_type") != "group" or not isinstance(header.get("attributes"), dict):
            raise RecordingError(f"{path / 'zarr.json'} describes no group with attributes")
        return cls(path, header["attributes"])

    def names(self) -> list[str]:
        """Names of the arrays directly in the group."""
        return sorted(p.parent.name for p in self.path.glob("*/zarr.json") if PLAIN_NAME.fullmatch(p.parent.name))

    def __contains__(self, name: str) -> bool:
        return PLAIN_NAME.fullmatch(name) is not None and (self.path / name / "zarr.json").is_file()

    def numbers(self, name: str, frames: int, *shape: int) -> ndarray:
        """The first frames of a stream, in its own type. The rest is padding."""
        header = self._array_header(name, NUMBERS)
        declared = header["shape"]
        if declared[0] < frames or tuple(declared[1:]) != shape:
            raise RecordingError(f"{self.path / name} has shape {tuple(declared)}, {(frames, *shape)} or longer wanted")
        if prod(declared) * 8 > MAX_STREAM_BYTES:
            raise RecordingError(f"{self.path / name} declares {prod(declared)} numbers; that is no episode")
        with self._opened(name) as array:
            return np.asarray(array[:frames])

    def width(self, name: str) -> tuple[int, ...]:
        """The shape of one frame of a stream."""
        return tuple(self._array_header(name, NUMBERS)["shape"][1:])

    def is_pictures(self, name: str) -> bool:
        return self._array_header(name, (*NUMBERS, *BLOBS))["data_type"] in BLOBS

    def blobs(self, name: str, frames: int) -> Iterator[bytes]:
        """The first frames of an array of encoded pictures."""
        header = self._array_header(name, BLOBS)
        if len(header["shape"]) != 1 or header["shape"][0] < frames:
            raise RecordingError(f"{self.path / name} has shape {tuple(header['shape'])}, ({frames},) or longer wanted")
        for start in range(0, frames, FRAMES_AT_ONCE):
            with self._opened(name) as array:
                blobs = array[start : min(start + FRAMES_AT_ONCE, frames)]
            yield from (bytes(blob) for blob in blobs)

    def _array_header(self, name: str, kinds: tuple[str, ...]) -> dict[str, Any]:
        if not PLAIN_NAME.fullmatch(name):
            raise RecordingError(f"{self.path}: {name!r} is no plain name of an array")
        header = _header(self.path / name)
        _check_array(header, kinds, self.path / name)
        return header

    @contextmanager
    def _opened(self, name: str) -> Iterator[Any]:
        import zarr  # takes 150 ms, which other formats are spared

        from egorecovery.capture.formats.zarr_codecs import bounded_codecs

        folder = self.path / name
        if strange := special_files(folder):
            raise RecordingError(f"{strange[0]} is a link or a special file; copy what it points to")
        try:
            with bounded_codecs():
                yield zarr.open_array(folder, mode="r", zarr_format=3)
        except RecordingError as error:
            raise RecordingError(f"{folder}: {error}") from error
        except (KeyError, OSError, RuntimeError, TypeError, ValueError, MemoryError, NotImplementedError) as error:
            raise RecordingError(f"{folder} cannot be read ({error}); copy it again") from error


def _header(folder: Path) -> dict[str, Any]:
    path = folder / "zarr.json"
    if folder.is_symlink() or path.is_symlink():
        raise RecordingError(f"{folder} is or holds a link; give the folder itself")
    try:
        header = read_json(path, RecordingError, "copy it again", largest=MAX_METADATA_BYTES)
    except FileNotFoundError:
        raise RecordingError(f"{path} is missing; a Zarr v3 group or array is wanted") from None
    except OSError as error:
        raise RecordingError(f"{path} cannot be read ({error})") from error
    if header.get("zarr_format") != 3:
        raise RecordingError(f"{path} is not Zarr version 3")
    return header


def _check_array(header: dict[str, Any], kinds: tuple[str, ...], where: Path) -> None:
    shape, grid = header.get("shape"), header.get("chunk_grid")
    if not isinstance(shape, list) or not shape or not all(_is_count(size) for size in shape):
        raise RecordingError(f"{where}: the shape is {shape!r}, a list of whole numbers is wanted")
    if shape[0] > MAX_FRAMES:
        raise RecordingError(f"{where} declares {shape[0]} frames, at most {MAX_FRAMES} are read")
    if header.get("data_type") not in kinds:
        raise RecordingError(f"{where} holds {header.get('data_type')!r}; {' or '.join(kinds)} wanted")
    if header.get("storage_transformers"):
        raise RecordingError(f"{where} has storage transformers, which are not known")
    inner = grid.get("configuration") if isinstance(grid, dict) else None
    chunk = inner.get("chunk_shape") if isinstance(inner, dict) else None
    _check_chunk(chunk, header, where)
    _check_codecs(header.get("codecs"), header, where, within=())


def _check_chunk(chunk: object, header: dict[str, Any], where: Path) -> None:
    if not isinstance(chunk, list) or len(chunk) != len(header["shape"]) or not all(_is_count(s, 1) for s in chunk):
        raise RecordingError(f"{where}: chunks have the shape {chunk!r}, one size per axis of {header['shape']} wanted")
    if prod(chunk) * 8 > MAX_CHUNK_BYTES:
        raise RecordingError(f"{where} has chunks of {prod(chunk)} numbers, at most {MAX_CHUNK_BYTES // 8} are read")


def _check_codecs(codecs: object, header: dict[str, Any], where: Path, within: tuple[str, ...]) -> None:
    """Allows only codecs that are pure data formats. Some of zarr's codecs would unpickle their input."""
    if not isinstance(codecs, list) or not all(isinstance(codec, dict) for codec in codecs):
        raise RecordingError(f"{where}: codecs must be a list of objects")
    names = [codec.get("name") for codec in codecs]
    for name, codec in zip(names, codecs, strict=True):
        if name not in CODECS or name in within:
            raise RecordingError(f"{where} uses the codec {name!r}; only {', '.join(CODECS)} are read")
        if name == "sharding_indexed":
            configuration = codec.get("configuration")
            configuration = configuration if isinstance(configuration, dict) else {}
            _check_chunk(configuration.get("chunk_shape"), header, where)
            for inner in ("codecs", "index_codecs"):
                _check_codecs(configuration.get(inner), header, where, within=("sharding_indexed",))
    if sum(name in SQUEEZING for name in names) > 1:
        raise RecordingError(f"{where} is compressed more than once; write it with one codec")


def _is_count(value: object, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**40
