"""Copies of videos without traces of their origin, which every browser plays frame by frame.

A copy holds the pictures only: no sound, metadata, data streams or encoder messages. Video that browsers play directly
(H.264, 8 bit, constant rate) is copied packet by packet without loss. Other video is encoded again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from egorecovery.capture.video_file import opened_video
from egorecovery.episodes.pictures import GAP_PX
from egorecovery.errors import RecordingError
from egorecovery.evaluation.video import PANEL_PX
from egorecovery.storage.typed_json import between
from egorecovery.studio.scoring.errors import ScoringError

PLAYABLE_PIXELS = ("yuv420p", "yuvj420p")
ENCODING = {"crf": "18", "preset": "veryfast", "bf": "0"}  # hard to tell from the original
FASTEST_HZ = 60  # upper limit for videos with a variable rate, which are resampled to a constant one
NO_MESSAGES = "filter_units=remove_types=6"  # SEI units, in which encoders and recorders store text
WHITE = 225  # of 255, after compression
_Positive = Annotated[int, between(1, 10**9)]


@dataclass(frozen=True, kw_only=True)
class VideoFacts:
    """Facts that a player needs."""

    frames: _Positive
    rate_hz: Annotated[float, between(0, 1e9, above_least=True)]
    width: _Positive
    height: _Positive

    @property
    def duration_s(self) -> float:
        return self.frames / self.rate_hz


@dataclass(frozen=True, kw_only=True)
class _Source:
    steady: bool  # frames are evenly spaced
    rate: Fraction
    playable: bool
    rotation: int  # degrees


def neutral_copy(source: Path, target: Path, crop_top_px: int = 0) -> VideoFacts:
    """Writes `target`, an mp4. `crop_top_px` rows are cut off, because text in the pictures would be visible."""
    from av.error import FFmpegError

    try:
        original = _look(source)
        if original.playable and original.steady and not original.rotation and not crop_top_px:
            return _copy(source, target, original.rate)
        return _encode(source, target, original, crop_top_px)
    except (FFmpegError, OSError, RecordingError, ValueError) as error:
        target.unlink(missing_ok=True)
        raise ScoringError(f"{source} cannot be read as a video ({error}); export it again, as mp4 say") from error


def panel_rows(film: Path) -> int:
    """Rows at the top of a rollout's video with policy, gate and outcome. Refused if they cannot be identified."""
    from av.error import FFmpegError

    try:
        with opened_video(film, named=True) as container:
            picture = next(container.decode(video=0)).to_ndarray(format="gray")
    except (FFmpegError, OSError, RecordingError, StopIteration, IndexError) as error:
        raise ScoringError(f"{film} cannot be read as a video ({error}); film the rollout again") from error
    edge = picture[PANEL_PX - 3 : PANEL_PX + 1]  # nothing is drawn there
    if len(picture) < PANEL_PX + GAP_PX + 16 or np.percentile(edge, 2) < WHITE:
        raise ScoringError(
            f"{film} does not have the panel of {PANEL_PX} rows above its cameras that this version draws, so what "
            "names the method cannot be cut off; film the rollout again with `evaluate --film`"
        )
    return PANEL_PX + GAP_PX


def _look(source: Path) -> _Source:
    """Facts about a video. Reads all packets, which is fast, and decodes one frame."""

    with opened_video(source, named=True) as container:
        video = _video(container, source)
        playable = video.codec_context.name == "h264" and video.codec_context.pix_fmt in PLAYABLE_PIXELS
        average, tick_s = video.average_rate or video.guessed_rate, video.time_base
        packets = [packet for packet in container.demux(video) if packet.size]
        times = sorted(packet.pts for packet in packets if packet.pts is not None)
    with opened_video(source, named=True) as container:
        first = next(container.decode(_video(container, source)), None)
    if first is None:
        raise ScoringError(f"{source} has no picture that can be decoded; was its recording cut off? export it again")
    if len(times) < 2 or len(times) != len(packets) or not average:
        return _Source(steady=False, rate=Fraction(average or 25), playable=playable, rotation=first.rotation)
    steps = np.diff(times)
    if steps.max() - steps.min() <= 1:  # tick: rounding
        return _Source(steady=True, rate=Fraction(average), playable=playable, rotation=first.rotation)
    usual = 1 / (int(max(np.median(steps), 1)) * tick_s)  # median, because pauses would lower the mean
    return _Source(steady=False, rate=usual, playable=playable, rotation=first.rotation)


def _video(container: Any, source: Path) -> Any:
    if not container.streams.video:
        raise ScoringError(f"{source} has no pictures; wanted a video")
    return container.streams.video[0]


def _copy(source: Path, target: Path, rate: Fraction) -> VideoFacts:
    from av.bitstream import BitStreamFilterContext

    frames = 0
    with opened_video(source, named=True) as read, _neutral_mp4(target) as written:
        video = _video(read, source)
        copy = written.add_stream_from_template(video)
        copy.metadata.clear()
        clean = BitStreamFilterContext(NO_MESSAGES, video, copy)
        for packet in read.demux(video):
            frames += bool(packet.size)
            for kept in clean.filter(packet if packet.size else None):
                kept.stream = copy
                written.mux(kept)
        size = video.codec_context
        return VideoFacts(frames=frames, rate_hz=float(rate), width=size.width, height=size.height)


def _encode(source: Path, target: Path, original: _Source, crop_top_px: int) -> VideoFacts:
    from av.bitstream import BitStreamFilterContext

    rate = min(original.rate, Fraction(FASTEST_HZ)).limit_denominator(1001)
    frames = 0
    with opened_video(source, named=True) as read, _neutral_mp4(target) as written:
        options = {**ENCODING, "g": str(max(1, round(rate)))}  # a key frame per second keeps stepping back fast
        copy = written.add_stream("libx264", rate=rate, options=options)
        copy.pix_fmt = "yuv420p"
        clean = BitStreamFilterContext(NO_MESSAGES, copy, copy)

        def write(frame: Any) -> None:
            for packet in copy.encode(frame):
                for kept in clean.filter(packet):
                    kept.stream = copy
                    written.mux(kept)

        for frame in _steady_frames(read, _video(read, source), original, rate, crop_top_px):
            if frames == 0:
                copy.width, copy.height = frame.width, frame.height
            frame.pts, frame.time_base, frame.pict_type = frames, 1 / rate, 0
            write(frame)
            frames += 1
        write(None)
        return VideoFacts(frames=frames, rate_hz=float(rate), width=copy.width, height=copy.height)


def _steady_frames(read: Any, video: Any, original: _Source, rate: Fraction, crop_top_px: int) -> Iterator[Any]:
    """Frames upright, cropped to even sizes, at a constant rate."""
    from av.filter import Graph

    steps: list[tuple[str, str]] = [("transpose", turn) for turn in _turns(original.rotation)]
    top = crop_top_px + crop_top_px % 2
    steps.append(("crop", f"trunc(iw/2)*2:trunc((ih-{top})/2)*2:0:{top}"))
    steps += [] if original.steady else [("fps", f"{rate.numerator}/{rate.denominator}")]
    steps.append(("format", "yuv420p"))
    graph = Graph()
    chain = [graph.add_buffer(template=video), *(graph.add(name, how) for name, how in steps), graph.add("buffersink")]
    graph.link_nodes(*chain).configure()
    for frame in read.decode(video):
        graph.push(frame)
        yield from _pulled(graph)
    graph.push(None)
    yield from _pulled(graph)


def _pulled(graph: Any) -> Iterator[Any]:
    from av.error import EOFError as Drained

    while True:
        try:
            yield graph.pull()
        except (BlockingIOError, Drained):
            return


def _turns(rotation: int) -> list[str]:
    """The filter of quarter turns for a picture whose display is rotated counter-clockwise by these degrees."""
    quarters = round(rotation / 90) % 4
    return {0: [], 1: ["cclock"], 2: ["cclock", "cclock"], 3: ["clock"]}[quarters]


def _neutral_mp4(target: Path) -> Any:
    import av

    # bitexact leaves out the name of the writing library; faststart lets a player begin before it has all
    return av.open(str(target), "w", format="mp4", options={"movflags": "+faststart", "fflags": "+bitexact"})
