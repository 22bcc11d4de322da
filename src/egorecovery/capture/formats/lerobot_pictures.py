"""Pictures of a LeRobot data set: from videos that several episodes share, or from images inside parquet."""

# N samples

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
from jaxtyping import Float, UInt8, UInt16
from numpy import ndarray

from egorecovery.capture.formats.lerobot_files import Feature, VideoSpan
from egorecovery.capture.formats.pictures import jpeg_size_hw, require_size
from egorecovery.capture.video_file import opened_video
from egorecovery.errors import RecordingError

NEAR = 0.3  # of a frame: a picture farther from a sample's time belongs to another sample
PNG_START = b"\x89PNG\r\n\x1a\n"
DEPTH_CODES = 4095  # 12 bits
MM_PER_M = 1000.0


def frames_of_video(
    path: Path, span: VideoSpan, feature: Feature, times_s: Float[ndarray, " N"], rate_hz: float
) -> Iterator[ndarray]:
    """The pictures at these times of an episode. Each is decoded once, in order."""
    from av.error import FFmpegError

    wanted = iter(span.from_s + times_s)
    target_s, yielded = next(wanted), 0
    try:
        with opened_video(path, named=True) as container:  # looked at by `lerobot_files.inside`
            stream = container.streams.video[0]
            stream.thread_type = "NONE"  # pictures are decoded by several processes
            require_size((stream.height, stream.width), str(path))
            _require_shape((stream.height, stream.width), feature, path)
            if span.from_s > 0 and stream.time_base:
                container.seek(int(span.from_s / stream.time_base), stream=stream)
            for frame in container.decode(stream):
                if frame.time is None or frame.time < target_s - NEAR / rate_hz:
                    continue
                if frame.time > target_s + NEAR / rate_hz:
                    break
                _require_shape((frame.height, frame.width), feature, path)
                yielded += 1
                yield _pixels(frame, feature, path)
                if yielded == len(times_s):
                    return
                target_s = next(wanted)
    except (FFmpegError, IndexError, ValueError, MemoryError) as error:
        raise RecordingError(f"{path} cannot be decoded ({error}); copy or download it again") from error
    raise RecordingError(
        f"{path}: there is no picture at {target_s:.3f} s, the time of sample {yielded} of {len(times_s)}; the video "
        f"is cut short or not the data set's; copy or download it again"
    )


def _pixels(frame: Any, feature: Feature, path: Path) -> ndarray:
    if not feature.is_depth:
        return frame.to_ndarray(format="rgb24")
    if frame.format.name not in ("gray12le", "yuv420p12le"):
        raise RecordingError(f"{path}: depth is in pixels of {frame.format.name}, gray12le is read")
    plane = frame.planes[0]
    rows = np.frombuffer(plane, np.uint16).reshape(plane.height, plane.line_size // 2)[:, : plane.width]
    return depth_of_codes(rows, feature.info)


def depth_of_codes(codes: UInt16[ndarray, "h w"], info: Mapping[str, Any]) -> UInt16[ndarray, "h w"]:
    """Millimetres from LeRobot's 12 bits, which span depth_min..depth_max, usually logarithmically."""
    given = {name: info.get(f"video.{name}", info.get(name)) for name in ("depth_min", "depth_max", "shift", "use_log")}
    lowest_m, highest_m = float(given["depth_min"] or 0.01), float(given["depth_max"] or 10.0)
    shift_m = 3.5 if given["shift"] is None else float(given["shift"])
    along = codes.astype(np.float64) / DEPTH_CODES
    if given["use_log"] is False:
        depth_m = lowest_m + along * (highest_m - lowest_m)
    else:
        first, last = np.log(lowest_m + shift_m), np.log(highest_m + shift_m)
        depth_m = np.exp(first + along * (last - first)) - shift_m
    return np.where(codes == 0, 0, np.rint(depth_m * MM_PER_M).clip(0, 65535)).astype(np.uint16)


def pictures_of_table(rows: Sequence[Any], feature: Feature, where: Path) -> Iterator[UInt8[ndarray, "H W 3"]]:
    """Images that are embedded in parquet, as {"bytes": ..., "path": ...}."""
    for number, row in enumerate(rows):
        place = f"{where}: {feature.name}, sample {number}"
        encoded = row.get("bytes") if isinstance(row, dict) else None
        if not isinstance(encoded, bytes):
            raise RecordingError(f"{place} is not embedded in the file; write the data set with embedded images")
        yield _decoded(encoded, feature, place)


def _decoded(encoded: bytes, feature: Feature, place: str) -> UInt8[ndarray, "H W 3"]:
    """Decodes an image after checking its size, because a few bytes can declare billions of pixels."""
    import av
    from av.error import FFmpegError

    is_png = encoded.startswith(PNG_START) and len(encoded) > 24
    if is_png:
        width, height = int.from_bytes(encoded[16:20]), int.from_bytes(encoded[20:24])
        require_size((height, width), place)
    else:
        height, width = jpeg_size_hw(encoded, place)
    _require_shape((height, width), feature, place)
    try:
        if not is_png:
            return simplejpeg.decode_jpeg(encoded)
        codec: Any = av.CodecContext.create("png", "r")
        return [*codec.decode(av.Packet(encoded)), *codec.decode(None)][0].to_ndarray(format="rgb24")
    except (FFmpegError, IndexError, ValueError) as error:
        raise RecordingError(f"{place} cannot be decoded ({error}); copy or download it again") from error


def _require_shape(size_hw: tuple[int, int], feature: Feature, where: object) -> None:
    if size_hw != feature.size_hw:
        raise RecordingError(
            f"{where} has pictures of {size_hw} (height, width), info.json says {feature.size_hw} for {feature.name}"
        )
