"""Videos that several episodes share, one picture after the other, so that frame n is shown at n / rate."""

from pathlib import Path
from typing import Any, Literal

from jaxtyping import UInt8
from numpy import ndarray

VideoCodec = Literal["libx264", "libsvtav1"]
OPTIONS: dict[VideoCodec, dict[str, str]] = {  # every other picture is a key picture: training reads them in any order
    "libx264": {"crf": "18", "g": "2", "bf": "0", "preset": "veryfast"},
    "libsvtav1": {"crf": "30", "g": "2", "preset": "8"},
}


class Film:
    """One video file that is being written."""

    def __init__(self, path: Path, rate_hz: int, size_hw: tuple[int, int], codec: VideoCodec) -> None:
        import av

        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.frames = path, 0
        self._container = av.open(str(path), "w")
        self._stream: Any = self._container.add_stream(codec, rate=rate_hz, options=OPTIONS[codec])
        self._stream.height, self._stream.width = size_hw
        even = not (size_hw[0] % 2 or size_hw[1] % 2)
        self._stream.pix_fmt = "yuv420p" if even else "yuv444p"  # half as many colours need an even size
        self._stream.thread_count = 1

    def add(self, picture: UInt8[ndarray, "H W 3"]) -> None:
        import av

        frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
        frame.pts = self.frames
        self.frames += 1
        self._container.mux(self._stream.encode(frame))

    @property
    def facts(self) -> dict[str, object]:
        """The entries of info.json."""
        return {
            "video.height": self._stream.height,
            "video.width": self._stream.width,
            "video.codec": {"libx264": "h264", "libsvtav1": "av1"}[self._stream.codec.name],
            "video.pix_fmt": self._stream.pix_fmt,
            "video.is_depth_map": False,
            "video.fps": int(self._stream.average_rate),
            "video.channels": 3,
            "has_audio": False,
        }

    def close(self) -> None:
        self._container.mux(self._stream.encode())
        self._container.close()

    def abandon(self) -> None:
        """Closes the file as it is."""
        self._container.close()
