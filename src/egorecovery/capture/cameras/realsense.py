"""Intel RealSense cameras through `pyrealsense2` (extra `realsense`)."""

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import simplejpeg

from egorecovery.capture.cameras.spec import CameraSpec
from egorecovery.capture.clocks import DeviceClock
from egorecovery.capture.sensor import CameraDriver, CameraFrame
from egorecovery.episodes import Intrinsics
from egorecovery.episodes.frames import JPEG_QUALITY
from egorecovery.errors import CaptureError

USUAL_SIZE_WH = (640, 480)
LOST_MS = 5000  # without a picture for this long the camera counts as lost


class RealsenseCamera(CameraDriver):
    """Colour, with depth projected into it. `target` is a serial number; empty for the only camera.

    Times are the SDK's global ones: the device's own stamps, mapped by the SDK to the system clock.
    """

    def __init__(self, spec: CameraSpec, sdk: Any = None) -> None:
        self._rs = rs = sdk or _sdk()
        self.described, self.rate_hz = spec.described, spec.fps()
        width, height = spec.size_wh(USUAL_SIZE_WH)
        self._pipeline, config = rs.pipeline(), rs.config()
        if spec.target:
            config.enable_device(spec.target)
        config.enable_stream(rs.stream.color, width, height, rs.format.rgb8, int(self.rate_hz))
        self._align = None
        if spec.switch("depth", usual=True):
            config.enable_stream(rs.stream.depth, width, height, rs.format.z16, int(self.rate_hz))
            self._align = rs.align(rs.stream.color)
        try:
            profile = self._pipeline.start(config)
        except RuntimeError as error:
            raise CaptureError(
                f"{spec.camera}: RealSense {spec.target or 'camera'} cannot be started ({error}); is it connected to "
                f"USB 3, and does it offer {width}x{height} at {self.rate_hz:g}? 'rs-enumerate-devices' lists both"
            ) from error
        self._depth_scale_m = 0.001
        for sensor in profile.get_device().query_sensors():
            if sensor.supports(rs.option.global_time_enabled):
                sensor.set_option(rs.option.global_time_enabled, 1)
            if sensor.is_depth_sensor():
                self._depth_scale_m = float(sensor.as_depth_sensor().get_depth_scale())
        known = profile.get_stream(rs.stream.color).as_video_stream_profile().get_intrinsics()
        self.intrinsics = Intrinsics(
            width=known.width, height=known.height, fx=known.fx, fy=known.fy, cx=known.ppx, cy=known.ppy
        )
        self._clock = DeviceClock(self.described)
        self._last_number = -1
        self._closed = False

    def items(self) -> Iterator[CameraFrame]:
        try:
            while not self._closed:
                frames = self._pipeline.wait_for_frames(LOST_MS)
                if self._align is not None:
                    frames = self._align.process(frames)
                colour = frames.get_color_frame()
                if not colour or colour.get_frame_number() == self._last_number:  # a set may repeat the slower stream
                    continue
                self._last_number = colour.get_frame_number()
                yield self._shot(colour, frames.get_depth_frame() if self._align is not None else None)
        except RuntimeError as error:
            if not self._closed:
                raise CaptureError(f"{self.described} stopped delivering ({error}); is it still plugged in?") from error
        finally:
            self._pipeline.stop()

    def _shot(self, colour: Any, depth: Any) -> CameraFrame:
        image = np.ascontiguousarray(np.asanyarray(colour.get_data()))
        depth_mm = None
        if depth:
            scaled = np.asanyarray(depth.get_data()).astype(np.float32) * (self._depth_scale_m * 1000)
            depth_mm = np.clip(np.rint(scaled), 0, 65535).astype(np.uint16)
        return CameraFrame(
            captured_s=self._clock.monotonic_s(float(colour.get_timestamp()) / 1000),
            jpeg=simplejpeg.encode_jpeg(image, quality=JPEG_QUALITY, colorsubsampling="422"),
            depth_mm=depth_mm,
        )

    def close(self) -> None:
        self._closed = True


def _sdk() -> Any:
    try:
        return importlib.import_module("pyrealsense2")
    except ImportError as error:
        raise CaptureError(
            f"RealSense cameras need pyrealsense2, which cannot be imported ({error}): install the extra, "
            f"pip install 'egorecovery[realsense]', and the system's libusb-1.0"
        ) from error
