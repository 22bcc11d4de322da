"""Pictures of real recordings without arms and hands, for policies with `policy.hidden_embodiment`.

A segmentation tool provides masks of arms and hands, and the fingertips (docs/formats.md, `embodiment.npz`). Masked
pixels are filled from their surroundings, and fingertips are drawn as dots, for people and robots alike.
"""

# N frames, H W a picture's height and width, S sides (left, right), F fingertips of a side, X its x and y

from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
from jaxtyping import Bool, Float, UInt8
from numpy import ndarray
from scipy.ndimage import binary_dilation, distance_transform_edt, gaussian_filter

from egorecovery.capture.recording import Recording
from egorecovery.episodes import JpegFrames, Side
from egorecovery.episodes.vocabulary import HIDDEN_EMBODIMENT
from egorecovery.errors import RecordingError
from egorecovery.storage.bounded_npz import read_npz
from egorecovery.storage.containment import exists, inside

MASKS = "embodiment.npz"  # in the folder of each camera
DOT_RGB = {Side.LEFT: (0.10, 0.45, 0.90), Side.RIGHT: (0.90, 0.35, 0.10)}
DOT_RADIUS = 3.5 / 96  # of the picture's height, as in the workcell's head view
GROWN = 0.01  # of the height: masks are grown, because segmentations leave a rim of skin or metal
BLUR = 0.02  # of the height: blurred fill has no edges from which a policy could infer the shape


@dataclass(frozen=True, kw_only=True, eq=False)
class EmbodimentMasks:
    """Masks of arms and hands in the pictures of one camera."""

    masks: Bool[ndarray, "N H W"]
    fingertips_px: Float[ndarray, "N S F X"]  # pixels from the upper left corner; NaN out of view

    @classmethod
    def read(cls, path: Path, frames: JpegFrames) -> "EmbodimentMasks":
        """Reads the masks of these frames. Another number or size of pictures is refused."""
        if not exists(path):
            raise RecordingError(
                f"{path} is missing: segment arms and hands, and write their masks there (docs/formats.md), or import "
                "without --hide-embodiment"
            )
        arrays, (height, width) = read_npz(path, RecordingError), frames.size_hw
        wanted = {
            "mask_packed": (len(frames), height, -(-width // 8)),
            "fingertips_px": (len(frames), len(Side), 2, 2),
        }
        for name, shape in wanted.items():
            if name not in arrays:
                raise RecordingError(f"{path} lacks {name}; it holds {', '.join(arrays) or 'nothing'}")
            if arrays[name].shape != shape:
                raise RecordingError(
                    f"{path}: {name} must have shape {shape} for {len(frames)} pictures of {width} x {height}, it has "
                    f"{arrays[name].shape}"
                )
        if arrays["mask_packed"].dtype != np.uint8:
            raise RecordingError(f"{path}: mask_packed must be uint8, from np.packbits(mask, axis=-1)")
        masks = np.unpackbits(arrays["mask_packed"], axis=-1, count=width).astype(bool)
        full = np.flatnonzero(masks.all(axis=(1, 2)))
        if len(full):
            raise RecordingError(
                f"{path}: the mask of frame {full[0]} covers the whole picture: nothing is left to see"
            )
        return cls(masks=masks, fingertips_px=arrays["fingertips_px"].astype(np.float64))


def without_embodiment(recording: Recording, directory: Path) -> Recording:
    """The recording without arms and hands in its pictures, with a mark in its details."""
    cameras = {}
    for camera, raw in recording.cameras.items():
        embodiment = EmbodimentMasks.read(inside(directory, camera, MASKS), raw.frames)
        hidden = (
            hide(raw.frames[index], embodiment.masks[index], embodiment.fingertips_px[index])
            for index in range(len(raw.frames))
        )
        cameras[camera] = replace(raw, frames=JpegFrames.encode(hidden))
    details = {**recording.provenance.details, HIDDEN_EMBODIMENT: True}
    return replace(recording, cameras=cameras, provenance=replace(recording.provenance, details=details))


def hide(
    picture: UInt8[ndarray, "H W 3"], mask: Bool[ndarray, "H W"], fingertips_px: Float[ndarray, "S F X"]
) -> UInt8[ndarray, "H W 3"]:
    """Fills masked pixels with the blurred colours of the nearest others, then draws the dots."""
    height = len(picture)
    shown = picture.copy()
    if mask.any():
        grown = cast(ndarray, binary_dilation(mask, iterations=max(1, round(GROWN * height))))
        covered = mask if grown.all() else grown
        rows, columns = cast(ndarray, distance_transform_edt(covered, return_distances=False, return_indices=True))
        filled = picture[rows, columns].astype(np.float32)
        blurred = gaussian_filter(filled, sigma=(BLUR * height, BLUR * height, 0))
        shown[covered] = np.rint(blurred[covered]).astype(np.uint8)
    for side, tips_px in zip(Side, fingertips_px, strict=True):
        for tip_px in tips_px:
            if np.isfinite(tip_px).all():
                shown[_disc(shown.shape[:2], tip_px, DOT_RADIUS * height)] = np.rint(255 * np.array(DOT_RGB[side]))
    return shown


def _disc(size_hw: tuple[int, ...], centre_px: Float[ndarray, " X"], radius_px: float) -> Bool[ndarray, "H W"]:
    rows, columns = np.ogrid[: size_hw[0], : size_hw[1]]
    return (columns + 0.5 - centre_px[0]) ** 2 + (rows + 0.5 - centre_px[1]) ** 2 <= radius_px**2
