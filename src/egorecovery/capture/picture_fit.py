"""Fits a camera's picture to the policy's square. Import, training, server and robot share this rule."""

# H W a picture's height and width, S side of the square, N M new rows and columns, K old rows that make a new one

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, cast, get_args

import numpy as np
from jaxtyping import Float32, Int64, UInt8, UInt16
from numpy import ndarray

from egorecovery.episodes.episode import Intrinsics
from egorecovery.episodes.vocabulary import PICTURE_FIT
from egorecovery.errors import EpisodeError
from egorecovery.storage.typed_json import from_json, to_json

Fit = Literal["letterbox", "crop", "exact"]
FITS: tuple[Fit, ...] = get_args(Fit)
_PIXEL = np.dtype((np.void, 12))  # three float32
_SHARES = 256  # 255 grey levels times as many shares are just below 2 ** 16
_FINE = 16  # rows per new row; for more, 256 shares are too coarse
LARGEST_PX = 4096  # of a square; a policy's are 64 to 512


@dataclass(frozen=True, kw_only=True)
class _Placed:
    """The part of a picture that is used, and the part of the square that it fills."""

    left: int
    top: int
    width: int  # of the used part, in pixels of the picture
    height: int
    into_left: int
    into_top: int
    into_width: int  # of the part that is filled, in pixels of the square
    into_height: int


@dataclass(frozen=True)
class PictureFit:
    """Fits a picture of any size and shape to a square of `image_size` pixels.

    letterbox keeps the whole picture and fills the rest with black. crop keeps the central square. exact accepts only
    pictures of that size. Shrinking averages the area under each pixel; enlarging interpolates linearly. A picture of
    the right size is returned unchanged, so fitting is idempotent.
    """

    image_size: int
    fit: Fit

    def __post_init__(self) -> None:
        if self.fit not in FITS:
            raise EpisodeError(f"fit must be one of {', '.join(FITS)}, got {self.fit!r}")
        if not 1 <= self.image_size <= LARGEST_PX:
            raise EpisodeError(f"image_size must lie in 1..{LARGEST_PX} pixels, got {self.image_size}")

    @classmethod
    def parse(cls, text: str) -> "PictureFit":
        """Parses text like "letterbox:224", the form that `str` writes."""
        fit, _, size = text.partition(":")
        if fit not in FITS or not size.isdecimal():
            raise EpisodeError(f"picture fit {text!r}: write {'|'.join(FITS)}:SIZE, as in letterbox:224")
        return cls(int(size), cast(Fit, fit))

    @classmethod
    def from_json(cls, record: object) -> "PictureFit":
        return from_json(cls, record, PICTURE_FIT, EpisodeError)

    def to_json(self) -> dict[str, object]:
        return to_json(self)

    def __str__(self) -> str:
        return f"{self.fit}:{self.image_size}"

    def fits(self, height: int, width: int) -> bool:
        """Whether a picture of that size stays unchanged."""
        return (height, width) == (self.image_size, self.image_size)

    def enlarges(self, height: int, width: int) -> bool:
        """Whether a picture of that size has too few pixels and is enlarged."""
        placed = self._placed(height, width)
        return placed.into_width > placed.width or placed.into_height > placed.height

    def apply(self, picture: ndarray) -> UInt8[ndarray, "S S 3"]:
        """Fits a uint8 picture (H, W, 3)."""
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise EpisodeError(f"a picture is uint8 of shape (H, W, 3), got {picture.dtype} {picture.shape}")
        height, width = picture.shape[:2]
        if self.fits(height, width):
            return picture
        placed = self._placed(height, width)
        part = picture[placed.top : placed.top + placed.height, placed.left : placed.left + placed.width]
        weigh_rows = _shrunk_rows if 1 < placed.height / placed.into_height <= _FINE else _weighed_rows
        scaled = _weighed_columns(weigh_rows(part, placed.into_height), placed.into_width)
        return self._in_square(placed, np.rint(scaled, out=scaled).astype(np.uint8))

    def least_hw(self, height: int, width: int) -> tuple[int, int]:
        """The smallest size to which a JPEG decoder may shrink a picture: three times the fitted size.

        A decoder that shrinks skips most of its work, and averages like this class. The result differs by 0.05 to 0.2
        grey levels on average (640 x 480 into 64 and 96), less than its JPEG encoding does.
        """
        placed = self._placed(height, width)
        share = min(1.0, 3 * max(placed.into_width / placed.width, placed.into_height / placed.height))
        return int(np.ceil(height * share)), int(np.ceil(width * share))

    def apply_depth(self, depth_mm: ndarray) -> UInt16[ndarray, "S S"]:
        """Fits a uint16 depth map (H, W) by nearest neighbour, as averages across edges are wrong. 0 is no reading."""
        if depth_mm.ndim != 2 or depth_mm.dtype != np.uint16:
            raise EpisodeError(f"a depth map is uint16 of shape (H, W), got {depth_mm.dtype} {depth_mm.shape}")
        height, width = depth_mm.shape
        if self.fits(height, width):
            return depth_mm
        placed = self._placed(height, width)
        rows = placed.top + _nearest(placed.height, placed.into_height)
        columns = placed.left + _nearest(placed.width, placed.into_width)
        return self._in_square(placed, depth_mm[rows[:, None], columns])

    def intrinsics(self, of: Intrinsics) -> Intrinsics:
        """Intrinsics of the fitted picture. x = 0 is the left edge of the first pixel, not its centre."""
        if self.fits(of.height, of.width):
            return of
        placed = self._placed(of.height, of.width)
        x_scale, y_scale = placed.into_width / placed.width, placed.into_height / placed.height
        return Intrinsics(
            width=self.image_size,
            height=self.image_size,
            fx=of.fx * x_scale,
            fy=of.fy * y_scale,
            cx=(of.cx - placed.left) * x_scale + placed.into_left,
            cy=(of.cy - placed.top) * y_scale + placed.into_top,
        )

    def _placed(self, height: int, width: int) -> _Placed:
        side = self.image_size
        if min(height, width) < 1:
            raise EpisodeError(f"a picture of {width} x {height} pixels shows nothing")
        if self.fit == "letterbox":
            longer = max(height, width)
            # Halves round up, in whole numbers: the same on every machine.
            into_width, into_height = (max(1, (2 * side * edge + longer) // (2 * longer)) for edge in (width, height))
            into_left, into_top = (side - into_width) // 2, (side - into_height) // 2
            return _Placed(
                left=0,
                top=0,
                width=width,
                height=height,
                into_left=into_left,
                into_top=into_top,
                into_width=into_width,
                into_height=into_height,
            )
        if self.fit == "exact" and not self.fits(height, width):
            raise EpisodeError(
                f"the picture has {width} x {height} pixels, {side} x {side} wanted; choose letterbox or crop to fit it"
            )
        shorter = min(height, width)
        return _Placed(
            left=(width - shorter) // 2,
            top=(height - shorter) // 2,
            width=shorter,
            height=shorter,
            into_left=0,
            into_top=0,
            into_width=side,
            into_height=side,
        )

    def _in_square(self, placed: _Placed, part: ndarray) -> ndarray:
        if part.shape[:2] == (self.image_size, self.image_size):
            return part
        square = np.zeros((self.image_size, self.image_size, *part.shape[2:]), part.dtype)
        rows = slice(placed.into_top, placed.into_top + placed.into_height)
        columns = slice(placed.into_left, placed.into_left + placed.into_width)
        square[rows, columns] = part
        return square


def _shrunk_rows(picture: UInt8[ndarray, "H W 3"], into: int) -> Float32[ndarray, "N W 3"]:
    """The same with weights in 256ths, in 16-bit integers. Takes half the time; differs by at most one grey level."""
    height, width = picture.shape[:2]
    taps, shares = _whole_shares(height, into)
    rows = np.ascontiguousarray(picture).reshape(height, -1)
    total = np.zeros((into, width * 3), np.uint16)
    for tap, share in zip(taps.T, shares.T, strict=True):
        total += rows.take(tap, axis=0) * share[:, None]
    shrunk = total.astype(np.float32)
    shrunk *= np.float32(1 / _SHARES)
    return shrunk.reshape(into, width, 3)


def _weighed_rows(picture: UInt8[ndarray, "H W 3"], into: int) -> Float32[ndarray, "N W 3"]:
    """Each new row as a weighted sum of rows, in K passes over whole rows."""
    height, width = picture.shape[:2]
    taps, weights = _taps(height, into)
    rows = np.ascontiguousarray(picture).reshape(height, -1)
    total = np.zeros((into, width * 3), np.float32)
    for tap, weight in zip(taps.T, weights.T, strict=True):
        taken = rows.take(tap, axis=0).astype(np.float32)  # in two steps: numpy casts slowly while it multiplies
        taken *= weight[:, None]
        total += taken
    return total.reshape(into, width, 3)


def _weighed_columns(rows: Float32[ndarray, "N W 3"], into: int) -> Float32[ndarray, "N M 3"]:
    height, width = rows.shape[:2]
    taps, weights = _taps(width, into)
    pixels = rows.view(_PIXEL).reshape(height, width)  # moved as a whole, three numbers at a time
    total = np.zeros((height, into * 3), np.float32)
    for tap, weight in zip(taps.T, weights.T, strict=True):
        taken = pixels.take(tap, axis=1).view(np.float32)
        taken *= weight.repeat(3)
        total += taken
    return total.reshape(height, into, 3)


@lru_cache(maxsize=64)
def _taps(size: int, into: int) -> tuple[Int64[ndarray, "N K"], Float32[ndarray, "N K"]]:
    """Source pixels of each new pixel and their weights, which sum to one."""
    weigh = _area if into < size else _linear
    taps, weights = weigh(size, into)
    taps.setflags(write=False)
    weights.setflags(write=False)
    return taps, weights


@lru_cache(maxsize=64)
def _whole_shares(size: int, into: int) -> tuple[Int64[ndarray, "N K"], UInt16[ndarray, "N K"]]:
    """Integer weights that sum to 256, by largest remainders."""
    taps, weights = _taps(size, into)
    exact = weights.astype(np.float64) * _SHARES
    shares = np.floor(exact)
    lacking = (_SHARES - shares.sum(axis=1))[:, None]
    rank = np.argsort(np.argsort(shares - exact, axis=1, kind="stable"), axis=1, kind="stable")
    shares = (shares + (rank < lacking)).astype(np.uint16)
    shares.setflags(write=False)
    return taps, shares


def _area(size: int, into: int) -> tuple[ndarray, ndarray]:
    """Weights by overlap with the new pixel, for shrinking."""
    edges = np.arange(into + 1) * (size / into)
    first = np.floor(edges[:-1]).astype(np.int64)
    taps = first[:, None] + np.arange(int(np.ceil(size / into)) + 1)
    covered = np.minimum(edges[1:, None], taps + 1) - np.maximum(edges[:-1, None], taps)
    return _normalised(np.minimum(taps, size - 1), np.maximum(covered, 0))


def _linear(size: int, into: int) -> tuple[ndarray, ndarray]:
    """Weights of the two nearest pixel centres, for enlarging. Edge pixels extend to the edge."""
    centres = np.clip((np.arange(into) + 0.5) * (size / into) - 0.5, 0, size - 1)
    first = np.minimum(np.floor(centres).astype(np.int64), max(size - 2, 0))
    share = centres - first
    taps = np.minimum(first[:, None] + np.arange(2), size - 1)
    return _normalised(taps, np.stack([1 - share, share], axis=1))


def _normalised(taps: ndarray, weights: ndarray) -> tuple[ndarray, ndarray]:
    weights = weights / weights.sum(axis=1, keepdims=True)
    used = (weights > 1e-9).any(axis=0)  # whole ratios need one pixel less
    return taps[:, used], weights[:, used].astype(np.float32)


def _nearest(size: int, into: int) -> Int64[ndarray, " N"]:
    return np.minimum(((np.arange(into) + 0.5) * (size / into)).astype(np.int64), size - 1)
