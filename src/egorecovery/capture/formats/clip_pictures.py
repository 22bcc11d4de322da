"""Pictures of a clip without recording.json: a video per camera, or a folder of numbered JPEG files."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from av.container import InputContainer
from av.error import FFmpegError
from jaxtyping import Float, UInt8, UInt16
from numpy import ndarray

from egorecovery.capture.fitted_pictures import raw_camera
from egorecovery.capture.formats.pictures import guessed_intrinsics, require_size, same_sizes, whole_jpeg
from egorecovery.capture.formats.placement import read_json
from egorecovery.capture.picture_fit import PictureFit
from egorecovery.capture.recording import RawCamera
from egorecovery.capture.recording_images import PICTURE_BYTES, image_files, reading
from egorecovery.capture.video_file import opened_video
from egorecovery.episodes import Intrinsics, JpegFrames
from egorecovery.errors import EpisodeError, RecordingError
from egorecovery.storage.containment import read_bytes, require_regular

MAX_FRAMES = 200_000
VIDEOS = (".mp4", ".mov", ".mkv")


@dataclass(frozen=True)
class ClipCamera:
    """One camera: a video file, or a folder with rgb/*.jpg and timestamps_s.npy."""

    path: Path

    def load(self, fit: PictureFit | None) -> RawCamera:
        return self._video(fit) if self.path.is_file() else self._folder()

    def _folder(self) -> RawCamera:
        encoded = (whole_jpeg(_bytes(image), str(image)) for image in image_files(self.path))
        frames = JpegFrames.pack(list(same_sizes(encoded, str(self.path))))
        if not len(frames):
            raise RecordingError(f"{self.path}: no pictures in rgb/")
        return RawCamera(
            frames=frames,
            timestamps_s=self._clock(len(frames)),
            intrinsics=self._known(*frames.size_hw),
            depth_mm=self._depth(self.path / "depth_mm.npy"),
        )

    @property
    def has_clock(self) -> bool:
        """Whether a file holds the capture times. Otherwise they come from the video's container."""
        return self._clock_path.is_file()

    @property
    def _folder_of_its_own(self) -> Path | None:
        """The camera's own folder, such as head of head/rgb.mp4; None for head.mp4."""
        if self.path.is_dir():
            return self.path
        return self.path.parent if self.path.stem == "rgb" else None

    @property
    def _clock_path(self) -> Path:
        return (self._folder_of_its_own or self.path) / "timestamps_s.npy"

    def _video(self, fit: PictureFit | None) -> RawCamera:
        """A camera from a video. Phone videos have no constant rate, so each frame has its own time."""
        times_s = video_times_s(self.path)
        times_s = self._clock(len(times_s)) if self.has_clock else times_s
        known = self._known(*video_size_hw(self.path))
        own = self._folder_of_its_own
        depth_mm = self._depth(own / "depth_mm.npy") if own else None
        return raw_camera(video_pictures(self.path), times_s, known, fit, depth_mm)

    def _clock(self, frames: int) -> Float[ndarray, " N"]:
        path = self._clock_path
        if not path.is_file():
            raise RecordingError(f"{path} is missing: when was each of the {frames} pictures taken, in seconds?")
        times_s = _mapped(path)
        if times_s.dtype.kind not in "fiu" or times_s.shape != (frames,):
            raise RecordingError(f"{path} must hold {frames} times, one per picture, it holds {times_s.shape}")
        return np.asarray(times_s, np.float64)

    def _depth(self, path: Path) -> UInt16[ndarray, "N h w"] | None:
        if not path.is_file():
            return None
        depth_mm = _mapped(path)
        if depth_mm.dtype != np.uint16 or depth_mm.ndim != 3:
            raise RecordingError(f"{path} must be uint16 of shape (N, h, w), it is {depth_mm.dtype} {depth_mm.shape}")
        return depth_mm

    def _known(self, height: int, width: int) -> Intrinsics:
        path = self.path / "intrinsics.json" if self.path.is_dir() else self.path.with_suffix(".json")
        if not path.is_file():
            return guessed_intrinsics((height, width))
        try:
            known = Intrinsics.from_json(read_json(path), "intrinsics")
        except EpisodeError as error:
            raise RecordingError(f"{path}: {error}") from None
        if (known.height, known.width) != (height, width):
            raise RecordingError(f"{path} is of {known.width} x {known.height} pixels, pictures are {width} x {height}")
        return known


def video_size_hw(path: Path) -> tuple[int, int]:
    with _opened(path) as container:
        video = container.streams.video[0]
        require_size((video.height, video.width), str(path))
        return video.height, video.width


def video_times_s(path: Path) -> Float[ndarray, " N"]:
    """Times of a video's frames in display order, from its packets, without decoding."""
    with _opened(path) as container, _decoding(path):
        video = container.streams.video[0]
        shown = [packet.pts for packet in container.demux(video) if packet.pts is not None and not packet.is_discard]
        if not shown or video.time_base is None:
            raise RecordingError(f"{path} holds no pictures")
        if len(shown) > MAX_FRAMES:
            raise RecordingError(f"{path} holds {len(shown)} pictures, at most {MAX_FRAMES} are read")
        return np.sort(np.array(shown, np.float64)) * float(video.time_base)


def video_pictures(path: Path) -> Iterator[UInt8[ndarray, "H W 3"]]:
    """Decoded pictures, one at a time, because a minute of video has gigabytes."""
    size_hw = video_size_hw(path)
    with _opened(path) as container, _decoding(path):
        for number, frame in enumerate(container.decode(video=0)):
            if (frame.height, frame.width) != size_hw:
                raise RecordingError(f"{path}: frame {number} has another size than the first; record it again")
            yield frame.to_ndarray(format="rgb24")


@contextmanager
def _opened(path: Path) -> Iterator[InputContainer]:
    if path.suffix.lower() not in VIDEOS:
        raise RecordingError(f"{path} is not one of {', '.join(VIDEOS)}")
    with _decoding(path), opened_video(path) as container:
        if not container.streams.video:
            raise RecordingError(f"{path} has no video in it")
        yield container


@contextmanager
def _decoding(path: Path) -> Iterator[None]:
    try:
        yield
    except (FFmpegError, IndexError, ValueError) as error:
        raise RecordingError(f"{path} cannot be decoded as video ({error}); copy or export it again") from error


def _mapped(path: Path) -> ndarray:
    """A memory-mapped array. One that declares more data than the file holds cannot be mapped."""
    with reading(path):
        require_regular(path)
        array = np.load(path, allow_pickle=False, mmap_mode="r")
    if not isinstance(array, ndarray):
        raise RecordingError(f"{path} is an archive; write one array with np.save")
    return array


def _bytes(path: Path) -> bytes:
    with reading(path):
        return read_bytes(path, PICTURE_BYTES)
