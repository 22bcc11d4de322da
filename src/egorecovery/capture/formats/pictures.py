"""Pictures of other data sets: size limits before decoding, and contact sheets to look at before an import."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import simplejpeg
from jaxtyping import UInt8
from numpy import ndarray

from egorecovery.capture.recording import RawCamera
from egorecovery.capture.recording_images import PICTURE_PIXELS
from egorecovery.episodes import Camera, Intrinsics
from egorecovery.episodes.pictures import below, beside, write_png
from egorecovery.errors import RecordingError

JPEG_START, JPEG_END = b"\xff\xd8", b"\xff\xd9"
SHEET_COLUMNS, SHEET_HEIGHT_PX = 4, 160


def whole_jpeg(encoded: bytes, where: str) -> bytes:
    """The bytes without padding. Refused unless they are one whole JPEG picture of acceptable size."""
    encoded = encoded.rstrip(b"\0")
    if not encoded.startswith(JPEG_START):
        raise RecordingError(f"{where} is not a JPEG picture ({len(encoded)} bytes)")
    if not encoded.endswith(JPEG_END):
        raise RecordingError(f"{where} is cut short: the end of the JPEG is missing; copy or record it again")
    jpeg_size_hw(encoded, where)
    return encoded


def jpeg_size_hw(encoded: bytes, where: str) -> tuple[int, int]:
    try:
        height, width, *_ = simplejpeg.decode_jpeg_header(encoded)
    except ValueError as error:
        raise RecordingError(f"{where} is not a JPEG picture ({error})") from None
    require_size((int(height), int(width)), where)
    return int(height), int(width)


def require_size(size_hw: tuple[int, int], where: str) -> None:
    if min(size_hw) < 1 or size_hw[0] * size_hw[1] > PICTURE_PIXELS:
        raise RecordingError(
            f"{where} declares {size_hw[1]} x {size_hw[0]} pixels, at most {PICTURE_PIXELS / 1e6:.0f} million are read"
        )


def same_sizes(pictures: Iterable[bytes], where: str) -> Iterator[bytes]:
    """The pictures of one camera. A picture that differs in size from the first is refused."""
    first_hw: tuple[int, int] | None = None
    for number, encoded in enumerate(pictures):
        size_hw = jpeg_size_hw(encoded, f"{where}, frame {number}")
        if size_hw != (first_hw or size_hw):
            raise RecordingError(f"{where}, frame {number} is {size_hw} (height, width), the first is {first_hw}")
        first_hw = size_hw
        yield encoded


def swapped(encoded: bytes, where: str) -> bytes:
    """The picture with red and blue exchanged. It is decoded and encoded again, nearly without loss."""
    try:
        bgr = simplejpeg.decode_jpeg(encoded, colorspace="BGR")
    except ValueError as error:
        raise RecordingError(f"{where} cannot be decoded ({error})") from None
    return simplejpeg.encode_jpeg(bgr, quality=95, colorspace="RGB", colorsubsampling="444")


def guessed_intrinsics(size_hw: tuple[int, int]) -> Intrinsics:
    """A pinhole of 53 degrees across, for data without calibration. Training does not use it."""
    height, width = size_hw
    return Intrinsics(width=width, height=height, fx=float(width), fy=float(width), cx=width / 2, cy=height / 2)


def colour_sheet(cameras: Mapping[Camera, RawCamera]) -> UInt8[ndarray, "H W 3"]:
    """Writes a contact sheet, one row per camera: pictures as imported, a white bar, then red and blue exchanged."""
    rows = []
    for raw in cameras.values():
        chosen = np.unique(np.linspace(0, len(raw.frames) - 1, SHEET_COLUMNS).round().astype(int))
        step = max(1, raw.frames.size_hw[0] // SHEET_HEIGHT_PX)
        images = [raw.frames[int(frame)][::step, ::step] for frame in chosen]
        bar = np.full((images[0].shape[0], 12, 3), 255, np.uint8)
        rows.append(beside([*images, bar, *(image[..., ::-1] for image in images)]))
    return below(rows)


def write_colour_sheet(cameras: Mapping[Camera, RawCamera], path: Path) -> None:
    if not cameras:
        raise RecordingError(f"{path}: the data set has no pictures to show")
    write_png(colour_sheet(cameras), path)
