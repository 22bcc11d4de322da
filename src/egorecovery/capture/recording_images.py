"""The pictures of a raw recording: numbered JPEG files, or one video."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import simplejpeg
from numpy import ndarray

from egorecovery.capture.video_file import opened_video
from egorecovery.episodes import Camera, Intrinsics, JpegFrames
from egorecovery.errors import RecordingError, UnsafeFile
from egorecovery.storage.bounded_npz import DAMAGE
from egorecovery.storage.containment import exists, inside, names_in, read_bytes

PICTURE_BYTES = 64 << 20
PICTURE_PIXELS = 4096 * 4096  # more than robot cameras have; a few bytes of JPEG can declare four billion
VIDEO_FRAMES = 100_000  # an hour at 25 Hz
JPEG_SUFFIXES = (".jpg", ".jpeg")
JPEG_END = b"\xff\xd9"


def load_frames(directory: Path, known: Intrinsics) -> JpegFrames:
    """The pictures of a camera. JPEG files are taken byte for byte; a video is decoded and encoded once."""
    video = inside(directory, "rgb.mp4")
    if exists(video):
        frames = JpegFrames.encode(_video(video, known))
        if not len(frames):
            raise RecordingError(f"{video} holds no picture; export it again")
        return frames
    images = image_files(directory)
    if not images:
        raise RecordingError(f"{directory}: neither rgb/*.jpg nor rgb.mp4 there")
    return JpegFrames.pack([_jpeg(image, known) for image in images])


def image_files(directory: Path) -> list[Path]:
    """JPEG files ordered by the numbers in their names: frame_2 comes before frame_10."""
    numbered: dict[tuple[int, ...], Path] = {}
    home = inside(directory, "rgb")
    for path in (home / name for name in names_in(home)):
        if path.name.startswith(".") or path.suffix.lower() not in JPEG_SUFFIXES:  # macOS writes ._000000.jpg
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
    with reading(path):
        encoded = read_bytes(path, PICTURE_BYTES)
        try:
            height, width, *_ = simplejpeg.decode_jpeg_header(encoded)
        except ValueError:
            raise RecordingError(f"{path} is not a JPEG picture; export it again as JPEG") from None
    if JPEG_END not in encoded:
        raise RecordingError(f"{path} is cut short: the end of the JPEG is missing; copy it again")
    _require_size(f"{path}", (int(width), int(height)), known)
    return encoded


def _video(path: Path, known: Intrinsics) -> Iterator[ndarray]:
    """Pictures of a video, one at a time, because a minute has gigabytes."""
    from av.error import FFmpegError

    try:
        with opened_video(path) as container:
            for number, frame in enumerate(container.decode(video=0)):
                _require_size(f"{path}, frame {number},", (frame.width, frame.height), known)
                if number >= VIDEO_FRAMES:
                    raise RecordingError(f"{path} has more than {VIDEO_FRAMES:,} frames; cut it into clips")
                yield frame.to_ndarray(format="rgb24")
    except (FFmpegError, IndexError, ValueError) as error:
        raise RecordingError(f"{path} cannot be decoded ({error})") from error


def _require_size(what: str, size_wh: tuple[int, int], known: Intrinsics) -> None:
    if size_wh[0] * size_wh[1] > PICTURE_PIXELS:
        raise RecordingError(
            f"{what} declares {size_wh[0]} x {size_wh[1]} pixels, at most {PICTURE_PIXELS / 1e6:.0f} million are read"
        )
    if size_wh != (known.width, known.height):
        raise RecordingError(
            f"{what} has {size_wh[0]} x {size_wh[1]} pixels, but its camera {known.width} x {known.height} "
            f"(width x height) in recording.json"
        )


def damaged_image(directory: Path) -> Path | None:
    """The first JPEG file of a recording that has a valid header but a damaged picture."""
    for camera in Camera:
        for path in image_files(directory / camera):
            try:
                simplejpeg.decode_jpeg(read_bytes(path, PICTURE_BYTES), min_width=16, min_height=16, min_factor=1.5)
            except ValueError:
                return path
    return None


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raises readers' errors about a damaged file with the file's name."""
    try:
        yield
    except FileNotFoundError:
        raise RecordingError(f"{path} is missing; see docs/formats.md") from None
    except UnsafeFile as error:
        raise RecordingError(str(error)) from None
    except DAMAGE as error:
        raise RecordingError(
            f"{path} cannot be read ({error or type(error).__name__}); copy or export it again"
        ) from error
