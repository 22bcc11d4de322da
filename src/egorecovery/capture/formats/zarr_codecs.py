"""Zarr codecs that stop at the declared size of a chunk. The usual ones inflate without a limit."""

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec
from zarr.codecs.vlen_utf8 import VLenBytesCodec
from zarr.registry import register_codec

from egorecovery.errors import RecordingError

MAX_ITEM_BYTES = 8
MAX_BLOB_BYTES = 16 * 2**20  # of a chunk of pictures; EgoVerse keeps one picture per chunk
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def allowed_bytes(chunk_spec: Any) -> int:
    """The largest size of a chunk, with room for lengths and checksums."""
    if chunk_spec.dtype.to_native_dtype().hasobject:
        return MAX_BLOB_BYTES
    return prod(chunk_spec.shape) * MAX_ITEM_BYTES + 64


def require_within(size: int | None, chunk_spec: Any) -> None:
    if size is None or size > allowed_bytes(chunk_spec):
        count = "an unknown number of" if size is None else f"{size}"
        raise RecordingError(f"a chunk inflates to {count} bytes, at most {allowed_bytes(chunk_spec)} are expected")


class BoundedZstd(ZstdCodec):
    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        require_within(zstd_content_bytes(chunk_bytes.to_bytes()), chunk_spec)
        return super()._decode_sync(chunk_bytes, chunk_spec)


class BoundedGzip(GzipCodec):
    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        limit = allowed_bytes(chunk_spec)
        inflated = zlib.decompressobj(wbits=31).decompress(chunk_bytes.to_bytes(), limit + 1)
        require_within(len(inflated), chunk_spec)
        return chunk_spec.prototype.buffer.from_bytes(inflated)


class BoundedBlosc(BloscCodec):
    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        raw = chunk_bytes.to_bytes()
        require_within(struct.unpack_from("<I", raw, 4)[0] if len(raw) >= 16 else None, chunk_spec)
        return super()._decode_sync(chunk_bytes, chunk_spec)

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        return self._decode_sync(chunk_bytes, chunk_spec)


class BoundedBlobs(VLenBytesCodec):
    """Decodes variable-length blobs. Number and lengths are checked against the chunk."""

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        raw, count = chunk_bytes.to_bytes(), prod(chunk_spec.shape)
        blobs = np.empty(count, object)
        position = 4
        if len(raw) < position or struct.unpack_from("<I", raw)[0] != count:
            raise RecordingError(f"a chunk of {count} pictures does not hold {count}")
        for index in range(count):
            size = struct.unpack_from("<I", raw, position)[0] if position + 4 <= len(raw) else len(raw)
            if position + 4 + size > len(raw):
                raise RecordingError(f"picture {index} of a chunk reaches beyond its end")
            blobs[index] = raw[position + 4 : position + 4 + size]
            position += 4 + size
        return chunk_spec.prototype.nd_buffer.from_numpy_array(blobs.reshape(chunk_spec.shape))


def zstd_content_bytes(frame: bytes) -> int | None:
    """The inflated size by the frame's header; None if it is not stated."""
    if len(frame) < 6 or frame[:4] != ZSTD_MAGIC:
        return None
    flags = frame[4]
    single_segment, size_code = flags >> 5 & 1, flags >> 6
    start = 5 + (1 - single_segment) + (0, 1, 2, 4)[flags & 3]
    width = (single_segment, 2, 4, 8)[size_code]
    if width == 0 or len(frame) < start + width:
        return None
    return int.from_bytes(frame[start : start + width], "little") + (256 if width == 2 else 0)


BOUNDED = {"zstd": BoundedZstd, "gzip": BoundedGzip, "blosc": BoundedBlosc, "vlen-bytes": BoundedBlobs}
for _name, _codec in BOUNDED.items():
    register_codec(_name, _codec)  # in addition to zarr's own; the configuration selects one


@contextmanager
def bounded_codecs() -> Iterator[None]:
    """Arrays opened and read in this block use the bounded codecs."""
    chosen = {f"codecs.{name}": f"{codec.__module__}.{codec.__qualname__}" for name, codec in BOUNDED.items()}
    with zarr.config.set(chosen):
        yield
