"""Where a step's pictures come from: all of them on the device, or a few steps ahead from the store."""

# F frames of the table, B batch, V views, S picture side

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from numpy import ndarray
from torch import Tensor

from egorecovery.episodes import Camera, EpisodeId, EpisodeStore
from egorecovery.episodes.reading import FrameReader
from egorecovery.errors import RecipeError

Progress = Callable[[int, int], None]
AHEAD = 3  # steps decoded before they are asked for
DECODE_AT_ONCE = 512  # frames: enough for all threads, little memory


@runtime_checkable
class Pictures(Protocol):
    """Gives a batch a table of frames and the rows of it to use."""

    def of(self, frame_B: Int64[ndarray, " B"], step: int) -> tuple[Tensor, Tensor]: ...
    def close(self) -> None: ...


def decode(
    store: EpisodeStore,
    samples: Sequence[tuple[EpisodeId, int]],
    cameras: tuple[Camera, ...],
    image_size: int,
    device: torch.device,
    progress: Progress = lambda done, total: None,
) -> UInt8[Tensor, "F V S S 3"]:
    """All pictures of a table, decoded once."""
    require_size(store, samples, cameras, image_size)
    frames = torch.empty((len(samples), len(cameras), image_size, image_size, 3), dtype=torch.uint8, device=device)
    with FrameReader(store, cameras) as reader:
        for first in range(0, len(samples), DECODE_AT_ONCE):
            part = samples[first : first + DECODE_AT_ONCE]
            frames[first : first + len(part)] = torch.from_numpy(reader.read(part)).to(device)
            progress(first + len(part), len(samples))
    return frames


def require_size(
    store: EpisodeStore, samples: Sequence[tuple[EpisodeId, int]], cameras: tuple[Camera, ...], image_size: int
) -> None:
    for episode in dict.fromkeys(episode for episode, _ in samples):
        for camera in cameras:
            size_hw = store.frames(episode, camera).size_hw
            if size_hw != (image_size, image_size):
                again = f"import or simulate again with --image-size {image_size}, into another store"
                square = f"train with --set policy.image_size {size_hw[0]}, or " if size_hw[0] == size_hw[1] else ""
                raise RecipeError(
                    f"{store.root}: {episode} has {camera} pictures of {size_hw[1]} x {size_hw[0]}, the recipe wants "
                    f"{image_size} x {image_size}; {square}{again}"
                )


class ResidentImages:
    """The whole table on the device: a step touches no host memory."""

    def __init__(self, frames_FVSS3: Tensor) -> None:
        self.frames_FVSS3 = frames_FVSS3

    def of(self, frame_B: Int64[ndarray, " B"], step: int) -> tuple[Tensor, Tensor]:
        return self.frames_FVSS3, torch.from_numpy(frame_B)

    def close(self) -> None:
        pass


class StreamedImages:
    """Decodes the next steps' samples while this one runs: for pools that do not fit on the device."""

    def __init__(
        self,
        store: EpisodeStore,
        samples: Sequence[tuple[EpisodeId, int]],
        cameras: tuple[Camera, ...],
        image_size: int,
        device: torch.device,
        frames_of_step: Callable[[int], Int64[ndarray, " B"]],
    ) -> None:
        require_size(store, samples, cameras, image_size)
        self._samples = samples
        self._device = device
        self._frames_of_step = frames_of_step
        self._reader = FrameReader(store, cameras)
        self._ahead = ThreadPoolExecutor(1)
        self._pending: dict[int, Future[Tensor]] = {}

    def of(self, frame_B: Int64[ndarray, " B"], step: int) -> tuple[Tensor, Tensor]:
        for wanted in range(step, step + AHEAD):
            if wanted not in self._pending:
                rows = frame_B if wanted == step else self._frames_of_step(wanted)
                self._pending[wanted] = self._ahead.submit(self._decode, rows)
        pictures = self._pending.pop(step).result().to(self._device, non_blocking=True)
        return pictures, torch.arange(len(frame_B))

    def _decode(self, frame_B: Int64[ndarray, " B"]) -> Tensor:
        pictures = torch.from_numpy(self._reader.read([self._samples[row] for row in np.asarray(frame_B)]))
        return pictures.pin_memory() if self._device.type == "cuda" else pictures

    def close(self) -> None:
        for future in self._pending.values():
            future.cancel()
        self._ahead.shutdown()
        self._reader.close()
