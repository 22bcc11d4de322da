"""A camera's frames as JPEG, packed end to end: one buffer and its offsets, decoded on demand."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import simplejpeg
from jaxtyping import Int64, UInt8
from numpy import ndarray

from egorecovery.errors import EpisodeError, StoreDamaged

JPEG_QUALITY = 90
# Small pictures keep chroma at full resolution: task objects are told apart by colour and are about 10 pixels wide at
# 96x96. Larger ones halve it, as cameras and video do, and decode a third faster.
SMALL_PX = 160


@dataclass(frozen=True, eq=False)
class JpegFrames:
    """T encoded frames of one size. Indexing decodes; `packed` may be a memory map, so slices cost no copy."""

    packed: UInt8[ndarray, " bytes"]
    offsets: Int64[ndarray, " frames_and_end"]

    def __post_init__(self) -> None:
        offsets = self.offsets
        if offsets.ndim != 1 or len(offsets) < 1 or offsets[0] != 0 or np.any(np.diff(offsets) <= 0):
            raise EpisodeError("JPEG offsets must start at 0 and increase: the frame index is damaged")
        if offsets[-1] != len(self.packed):
            raise EpisodeError(f"JPEG offsets end at {offsets[-1]}, but there are {len(self.packed)} bytes")

    @classmethod
    def encode(cls, images: Iterable[UInt8[ndarray, "H W 3"]], quality: int = JPEG_QUALITY) -> "JpegFrames":
        """RGB images to JPEG."""
        return cls.pack([_encode(np.ascontiguousarray(image), quality) for image in images])

    @classmethod
    def pack(cls, encoded: Sequence[bytes]) -> "JpegFrames":
        """Frames that are JPEG already, byte for byte."""
        lengths = np.fromiter((len(frame) for frame in encoded), np.int64, count=len(encoded))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def encoded(self, frame: int) -> UInt8[ndarray, " bytes"]:
        """The JPEG bytes of one frame, without a copy."""
        return self.packed[self.offsets[frame] : self.offsets[frame + 1]]

    @property
    def size_hw(self) -> tuple[int, int]:
        height, width, *_ = simplejpeg.decode_jpeg_header(self.encoded(0))
        return int(height), int(width)

    def __getitem__(self, frame: int) -> UInt8[ndarray, "H W 3"]:
        if not -len(self) <= frame < len(self):
            raise IndexError(f"frame {frame} of {len(self)}")
        image = np.empty((*self.size_hw, 3), np.uint8)
        self.decode_into(frame % len(self), image)
        return image

    def decode(self, frames: Sequence[int] | ndarray | None = None) -> UInt8[ndarray, "N H W 3"]:
        """Several frames (all by default) into one array."""
        chosen = range(len(self)) if frames is None else frames
        images = np.empty((len(chosen), *self.size_hw, 3), np.uint8)
        for image, frame in zip(images, chosen, strict=True):
            self.decode_into(int(frame), image)
        return images

    def decode_into(self, frame: int, image: UInt8[ndarray, "H W 3"]) -> None:
        """One frame into an array that is there already."""
        if not 0 <= frame < len(self):
            raise IndexError(f"frame {frame} of {len(self)}")
        try:
            simplejpeg.decode_jpeg(self.encoded(frame), fastdct=True, fastupsample=True, buffer=image)
        except ValueError as error:
            raise StoreDamaged(f"frame {frame} is not a readable JPEG ({error}); run 'egorecovery verify'") from error

    def shrunk(self, frame: int, least_hw: tuple[int, int]) -> UInt8[ndarray, "h w 3"]:
        """One frame at half its size, where that is whole pixels and at least so many.

        The decoder leaves out the fine detail, which is most of its work. (At a quarter it is off by one grey level.)
        """
        half_hw = [length // 2 for length in self.size_hw]
        if any(length % 2 for length in self.size_hw) or half_hw[0] < least_hw[0] or half_hw[1] < least_hw[1]:
            return self[frame]
        try:
            return simplejpeg.decode_jpeg(
                self.encoded(frame),
                fastdct=True,
                fastupsample=True,
                min_height=half_hw[0],
                min_width=half_hw[1],
                min_factor=2,
            )
        except ValueError as error:
            raise StoreDamaged(f"frame {frame} is not a readable JPEG ({error}); run 'egorecovery verify'") from error

    def select(self, frames: Sequence[int] | ndarray) -> "JpegFrames":
        """These frames in this order, still encoded (nearest-frame resampling repeats or drops some)."""
        return self.pack([self.encoded(int(frame)).tobytes() for frame in frames])


def _encode(image: UInt8[ndarray, "H W 3"], quality: int) -> bytes:
    subsampling = "444" if min(image.shape[:2]) < SMALL_PX else "420"
    return simplejpeg.encode_jpeg(image, quality=quality, colorspace="RGB", colorsubsampling=subsampling)
