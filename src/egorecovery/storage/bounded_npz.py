"""npz archives from untrusted sources: every array's size is checked against its header before it is read."""

import os
import struct
import zlib
from io import BytesIO
from math import prod
from pathlib import Path
from tokenize import TokenError
from zipfile import BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy import ndarray
from numpy.lib import format as npy

from egorecovery.errors import EgoRecoveryError, UnsafeFile
from egorecovery.storage.containment import open_file

MAX_MEMBERS = 64
MAX_BYTES = 512 * 2**20  # of all arrays together; ten minutes of two hands at 30 Hz are 20 MB
MAX_HEADER_BYTES = 4096
# Exceptions that numpy, zipfile and libjpeg raise for truncated, overwritten or foreign files.
DAMAGE = (
    *(ValueError, TypeError, KeyError, IndexError, OverflowError, SyntaxError, TokenError),  # headers
    *(OSError, EOFError, RuntimeError, MemoryError, BadZipFile, zlib.error, struct.error),  # contents
)


class BadArchive(ValueError):
    """An archive that this module does not read. The message says why."""


def read_npz(path: Path, kind: type[EgoRecoveryError]) -> dict[str, ndarray]:
    """All arrays of an archive: numbers and short texts. Anything else raises `kind`."""
    try:
        with os.fdopen(open_file(path), "rb") as stream, ZipFile(stream) as archive:
            members = archive.infolist()
            _check_members(members, path)
            return {member.filename.removesuffix(".npy"): _array(archive, member, path) for member in members}
    except FileNotFoundError:
        raise kind(f"{path} is missing") from None
    except (BadArchive, UnsafeFile) as error:
        raise kind(str(error)) from None
    except DAMAGE as error:
        raise kind(f"{path} is not an npz archive ({error}); write it with np.savez") from error


def _check_members(members: list[ZipInfo], path: Path) -> None:
    if len(members) > MAX_MEMBERS or sum(member.file_size for member in members) > MAX_BYTES:
        declared_mb = sum(member.file_size for member in members) / 2**20
        raise BadArchive(
            f"{path} declares {len(members)} arrays of {declared_mb:.0f} MB; at most {MAX_MEMBERS} arrays and "
            f"{MAX_BYTES / 2**20:.0f} MB are read"
        )
    for member in members:
        name = member.filename
        if not name.endswith(".npy") or not name.removesuffix(".npy").isidentifier():
            raise BadArchive(f"{path} holds {name!r}; expected plain arrays as np.savez writes them")
    if len({member.filename for member in members}) != len(members):
        raise BadArchive(f"{path} holds two arrays of the same name")


def _array(archive: ZipFile, member: ZipInfo, path: Path) -> ndarray:
    where = f"{path}: {member.filename.removesuffix('.npy')}"
    stream = BytesIO(archive.read(member))
    shape, fortran, dtype = _header(stream, where)
    if dtype.hasobject or dtype.kind not in "fiubU" or dtype.itemsize > MAX_HEADER_BYTES:
        raise BadArchive(f"{where} holds {dtype}; only numbers and short texts are read")
    wanted = prod(shape) * dtype.itemsize
    if wanted > member.file_size:
        raise BadArchive(
            f"{where} declares shape {shape} ({wanted} bytes), the archive has {member.file_size} bytes of it"
        )
    raw = stream.read(wanted)
    if len(raw) != wanted:
        raise BadArchive(f"{where} is cut short: {len(raw)} of {wanted} bytes; write it again")
    return np.frombuffer(raw, dtype).reshape(shape, order="F" if fortran else "C")


def _header(stream: BytesIO, where: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, memory order and type. numpy's header reader evaluates no code."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise BadArchive(f"{where} is npy version {version}; write it again with np.savez")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(stream, max_header_size=MAX_HEADER_BYTES)
    if not all(0 <= size < 2**40 for size in shape):
        raise BadArchive(f"{where} declares shape {shape!r}")
    return shape, fortran, dtype
