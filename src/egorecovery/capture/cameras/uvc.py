"""USB cameras by Video4Linux, through PyAV. Pictures that the camera compressed are kept byte for byte."""

import errno
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg

from egorecovery.capture.cameras.spec import CameraSpec, calibration, guessed_intrinsics
from egorecovery.capture.clocks import DeviceClock
from egorecovery.capture.sensor import CameraDriver, CameraFrame
from egorecovery.episodes.frames import JPEG_QUALITY
from egorecovery.errors import CaptureError

USUAL_SIZE_WH = (640, 480)
FIRST_PICTURE_S = 5.0  # timeout of the first picture
JPEG_START, JPEG_END = b"\xff\xd8", b"\xff\xd9"
NOT_ALLOWED = "may not be read by you; join the group 'video' (sudo usermod -aG video $USER) and log in again"
REMEDIES = {  # the kernel's error when a device cannot be opened, and its remedy
    errno.ENOENT: "is not there",
    errno.EACCES: NOT_ALLOWED,
    errno.EPERM: NOT_ALLOWED,
    errno.EBUSY: "is in use by another program; close that one",
    errno.ENOTTY: "is no camera",
    errno.ENODEV: "delivers no pictures; many cameras have a second device beside the one with pictures",
    errno.EINVAL: "does not offer what was asked for; 'v4l2-ctl --list-formats-ext -d DEVICE' lists formats and sizes",
}


class UvcCamera(CameraDriver):
    """A USB camera. The capture time is the kernel's timestamp, taken when the sensor's transfer begins."""

    def __init__(self, spec: CameraSpec, container_format: str = "v4l2", clock: DeviceClock | None = None) -> None:
        """Tests pass another `container_format` and `clock` to read a video instead of a device."""
        import av
        from av.error import FFmpegError

        self.described, self.rate_hz = spec.described, spec.fps()
        if not spec.target:
            raise CaptureError(f"{spec.camera}: name the device, as in {spec.camera}=uvc:/dev/video0; {_devices()}")
        width, height = spec.size_wh(USUAL_SIZE_WH)
        options = {"video_size": f"{width}x{height}", "framerate": f"{self.rate_hz:g}"}
        options["input_format"] = spec.options.get("format", "mjpeg")
        try:
            self._container: Any = av.open(
                spec.target,
                format=container_format,
                options=options if container_format == "v4l2" else {},
                timeout=(FIRST_PICTURE_S, FIRST_PICTURE_S),
            )
        except (FFmpegError, OSError, ValueError) as error:
            raise CaptureError(_cannot_open(spec, error)) from error
        self._stream = self._container.streams.video[0]
        if self._stream.average_rate:
            self.rate_hz = float(self._stream.average_rate)
        self._clock = clock or DeviceClock(self.described)
        self._closed = False
        self._shots = self._delivered()
        given = spec.options.get("calibration")
        self.guessed_intrinsics = given is None
        try:
            # The first picture's size is checked: ffmpeg may take a frame of an unexpected size for a field.
            self._first = next(self._shots, None)
            if self._first is None:
                raise CaptureError(f"{spec.camera}: {spec.target} delivers no picture")
            size_wh = _size_wh(self._first.jpeg)
            if "size" in spec.options and size_wh != (width, height):
                raise CaptureError(
                    f"{spec.camera}: {spec.target} gives {size_wh[0]}x{size_wh[1]}, {width}x{height} is asked for; "
                    f"'v4l2-ctl --list-formats-ext -d {spec.target}' lists what it offers"
                )
            self.intrinsics = guessed_intrinsics(size_wh) if given is None else calibration(Path(given), size_wh)
        except CaptureError:
            self._shots.close()
            raise

    def items(self) -> Iterator[CameraFrame]:
        if self._first is not None:
            first, self._first = self._first, None
            yield first
        yield from self._shots

    def _delivered(self) -> Generator[CameraFrame, None, None]:
        """A packet's memory is the driver's: it must be given back before the device is closed, or ffmpeg crashes."""
        from av.error import FFmpegError

        try:
            for packet in self._container.demux(self._stream):
                try:
                    frame = None if self._closed else self._frame_in(packet)
                except (CaptureError, FFmpegError, OSError) as error:
                    raise error.with_traceback(None) from None  # its traceback would hold the packet
                finally:
                    del packet
                if self._closed:
                    return
                if frame is not None:
                    yield frame
        except (FFmpegError, OSError) as error:
            if not self._closed:
                raise CaptureError(f"{self.described} stopped delivering ({error}); is it still plugged in?") from error
        finally:
            self._container.close()

    def _frame_in(self, packet: Any) -> CameraFrame | None:
        if packet.pts is None or not packet.size:  # the end of a video, or a corrupt buffer
            return None
        captured_s = self._clock.monotonic_s(float(packet.pts * packet.time_base))
        passed_through = self._stream.codec_context.name == "mjpeg"
        jpeg = _whole_jpeg(bytes(packet)) if passed_through else self._encoded(packet)
        return None if jpeg is None else CameraFrame(captured_s=captured_s, jpeg=jpeg)

    def _encoded(self, packet: Any) -> bytes | None:
        for frame in packet.decode():
            return simplejpeg.encode_jpeg(
                np.ascontiguousarray(frame.to_ndarray(format="rgb24")), quality=JPEG_QUALITY, colorsubsampling="422"
            )
        return None

    def close(self) -> None:
        """Asks the reading thread to close the container, because ffmpeg must not be closed while it reads."""
        self._closed = True


def _whole_jpeg(payload: bytes) -> bytes | None:
    """The picture without padding after its end. A torn picture has no end; it is left out and counts as dropped."""
    end = payload.rfind(JPEG_END)
    return payload[: end + 2] if payload.startswith(JPEG_START) and end > 0 else None


def _size_wh(jpeg: bytes) -> tuple[int, int]:
    try:
        height, width, *_ = simplejpeg.decode_jpeg_header(jpeg)
    except ValueError as error:
        raise CaptureError(f"the camera's first picture is no JPEG ({error}); try format=yuyv422") from None
    return int(width), int(height)


def _cannot_open(spec: CameraSpec, error: Exception) -> str:
    number = getattr(error, "errno", None)
    remedy = REMEDIES.get(number) if isinstance(number, int) else None
    return f"{spec.camera}: {spec.target} {remedy or f'cannot be opened as a camera ({error})'}; {_devices()}"


def _devices() -> str:
    there = sorted(str(path) for path in Path("/dev").glob("video*"))
    return f"video devices of this machine: {', '.join(there)}" if there else "this machine has no video device"
