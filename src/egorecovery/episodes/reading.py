"""Random frames of many episodes at once: what a training loader asks for."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from egorecovery.episodes.frames import JpegFrames
from egorecovery.episodes.store import EpisodeStore
from egorecovery.episodes.vocabulary import Camera
from egorecovery.errors import EpisodeError
from egorecovery.executors import cores


class FrameReader:
    """Keeps episodes mapped and decodes a batch on all cores (JPEG decoding runs outside the interpreter's lock)."""

    def __init__(
        self, store: EpisodeStore, cameras: Sequence[Camera] = tuple(Camera), threads: int | None = None
    ) -> None:
        self._store = store
        self._cameras = tuple(cameras)
        self._threads = threads or cores()
        self._pool = ThreadPoolExecutor(self._threads)
        self._streams: dict[str, tuple[JpegFrames, ...]] = {}
        self._size_hw: tuple[int, int] | None = None  # of the first picture

    def read(
        self, samples: Sequence[tuple[str, int]], out: UInt8[ndarray, "N C H W 3"] | None = None
    ) -> UInt8[ndarray, "N C H W 3"]:
        """The frames of (episode, frame) samples, all cameras; into `out` where given, which saves an allocation."""
        wanted = [(frames, frame) for episode, frame in samples for frames in self._open(episode)]
        if out is None:
            out = np.empty((len(samples), len(self._cameras), *(self._size_hw or (0, 0)), 3), np.uint8)
        if out.shape != (wanted_shape := (len(samples), len(self._cameras), *(self._size_hw or (0, 0)), 3)):
            raise EpisodeError(f"out must have shape {wanted_shape}, got {out.shape}")
        images = out.reshape(-1, *out.shape[2:])
        # One strided share a thread: a task per frame costs a fifth of the speed.
        shares = [(wanted[start :: self._threads], images[start :: self._threads]) for start in range(self._threads)]
        list(self._pool.map(_decode_share, shares))
        return out

    def _open(self, episode: str) -> tuple[JpegFrames, ...]:
        if episode not in self._streams:
            self._streams[episode] = tuple(self._frames(episode, camera) for camera in self._cameras)
        return self._streams[episode]

    def _frames(self, episode: str, camera: Camera) -> JpegFrames:
        """A batch is one array, so all pictures have one size."""
        cameras = self._store.card(episode).cameras
        if camera not in cameras:
            raise EpisodeError(f"{episode} has no camera {camera}; it has {', '.join(cameras) or 'none'}")
        frames = self._store.frames(episode, camera)
        self._size_hw = self._size_hw or frames.size_hw
        if frames.size_hw != self._size_hw:
            raise EpisodeError(
                f"{episode}: {camera} has pictures of {frames.size_hw} (height, width), others of {self._size_hw}; "
                f"read cameras of different sizes with a reader each"
            )
        return frames

    def close(self) -> None:
        self._pool.shutdown()
        self._streams.clear()

    def __enter__(self) -> "FrameReader":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def _decode_share(share: tuple[list[tuple[JpegFrames, int]], ndarray]) -> None:
    for (frames, frame), image in zip(*share, strict=True):
        frames.decode_into(frame, image)
