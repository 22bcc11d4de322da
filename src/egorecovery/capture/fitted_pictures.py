"""Fits pictures to the required square on their way into a recording or an episode, and encodes them as JPEG."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Float, UInt8, UInt16
from numpy import ndarray

from egorecovery.capture.picture_fit import PictureFit
from egorecovery.capture.recording import RawCamera
from egorecovery.episodes import CameraStream, Intrinsics, JpegFrames


def raw_camera(
    images: Iterable[UInt8[ndarray, "H W 3"]],
    timestamps_s: Float[ndarray, " N"],
    intrinsics: Intrinsics,
    fit: PictureFit | None = None,
    depth_mm: UInt16[ndarray, "N h w"] | None = None,
) -> RawCamera:
    """A camera of decoded pictures, which are fitted one at a time."""
    pictures = map(fit.apply, images) if fit else images
    return RawCamera(
        frames=JpegFrames.encode(pictures),
        timestamps_s=timestamps_s,
        intrinsics=fit.intrinsics(intrinsics) if fit else intrinsics,
        depth_mm=depth_mm if depth_mm is None else _depth(depth_mm, fit),
    )


def fitted(stream: CameraStream, fit: PictureFit | None) -> CameraStream:
    """A stream with fitted pictures. Pictures of the right size stay byte for byte."""
    if fit is None:
        return stream
    depth_mm = None if stream.depth_mm is None else _depth(stream.depth_mm, fit)
    if fit.fits(*stream.frames.size_hw):
        return replace(stream, depth_mm=depth_mm)
    return CameraStream(
        frames=JpegFrames.encode(_each_once(stream.frames, fit)),
        timestamps_s=stream.timestamps_s,
        intrinsics=fit.intrinsics(stream.intrinsics),
        depth_mm=depth_mm,
    )


def _each_once(frames: JpegFrames, fit: PictureFit) -> Iterator[UInt8[ndarray, "S S 3"]]:
    """Fitted pictures. A frame that repeats, because the camera is slower than the grid, is decoded once."""
    least_hw = fit.least_hw(*frames.size_hw)
    encoded, picture = frames.encoded(0), fit.apply(frames.shrunk(0, least_hw))
    for index in range(len(frames)):
        if not np.array_equal(encoded, frames.encoded(index)):
            encoded, picture = frames.encoded(index), fit.apply(frames.shrunk(index, least_hw))
        yield picture


def _depth(depth_mm: UInt16[ndarray, "N h w"], fit: PictureFit | None) -> UInt16[ndarray, "N _ _"]:
    if fit is None:
        return np.asarray(depth_mm)
    return np.stack([fit.apply_depth(map_mm) for map_mm in np.asarray(depth_mm)])
