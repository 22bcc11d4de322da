"""Looking at an episode: a contact sheet and a film, all cameras side by side."""

from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from egorecovery.episodes.episode import Episode
from egorecovery.episodes.vocabulary import RATE_HZ
from egorecovery.errors import EpisodeError

GAP_PX = 2
FILM_HEIGHT_PX = 240  # small pictures are enlarged: a 96-pixel film is hard to watch


def contact_sheet(episode: Episode, columns: int = 8) -> UInt8[ndarray, "H W 3"]:
    """Evenly spaced moments, first and last included: one row per camera."""
    frames = np.unique(np.linspace(0, len(episode) - 1, columns).round().astype(int))
    rows = [beside(list(stream.frames.decode(frames))) for stream in _streams(episode)]
    return below(rows)


def write_contact_sheet(episode: Episode, path: Path, columns: int = 8) -> None:
    write_png(contact_sheet(episode, columns), path)


def write_film(episode: Episode, path: Path) -> None:
    """H.264 at the speed it happened."""
    import av

    streams = [stream.frames for stream in _streams(episode)]
    zoom = max(1, round(FILM_HEIGHT_PX / streams[0].size_hw[0]))

    def tiled(frame: int) -> UInt8[ndarray, "H W 3"]:
        image = beside([frames[frame].repeat(zoom, axis=0).repeat(zoom, axis=1) for frames in streams])
        height, width = image.shape[0] // 2 * 2, image.shape[1] // 2 * 2  # the codec wants even sizes
        return np.ascontiguousarray(image[:height, :width])

    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=round(RATE_HZ), options={"crf": "20"})
        video.pix_fmt = "yuv420p"
        video.height, video.width = tiled(0).shape[:2]
        for frame in range(len(episode)):
            container.mux(video.encode(av.VideoFrame.from_ndarray(tiled(frame), format="rgb24")))
        container.mux(video.encode())


def _streams(episode: Episode):
    if not episode.cameras:
        raise EpisodeError(f"{episode.id} has no cameras: there is nothing to look at")
    return list(episode.cameras.values())


def beside(images: list[ndarray]) -> UInt8[ndarray, "H W 3"]:
    """From left to right, with a thin white gap."""
    height = max(image.shape[0] for image in images)
    padded = [np.pad(i, ((0, height - i.shape[0]), (0, GAP_PX), (0, 0)), constant_values=255) for i in images]
    return np.concatenate(padded, axis=1)[:, :-GAP_PX]


def below(images: list[ndarray]) -> UInt8[ndarray, "H W 3"]:
    """From top to bottom."""
    width = max(image.shape[1] for image in images)
    padded = [np.pad(i, ((0, GAP_PX), (0, width - i.shape[1]), (0, 0)), constant_values=255) for i in images]
    return np.concatenate(padded)[:-GAP_PX]


def write_png(image: UInt8[ndarray, "H W 3"], path: Path) -> None:
    import av

    with av.open(str(path), "w", format="image2") as container:
        stream = container.add_stream("png", rate=1)
        stream.height, stream.width, stream.pix_fmt = image.shape[0], image.shape[1], "rgb24"
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
