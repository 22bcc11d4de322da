"""The part of the Orbbec SDK that our host uses, with a camera that counts. ORBBEC_FAKE says how it misbehaves."""

import os
import time
from dataclasses import dataclass

import numpy as np
import simplejpeg

MISBEHAVIOUR = os.environ.get("ORBBEC_FAKE", "")
PICTURES = int(os.environ.get("ORBBEC_FAKE_PICTURES", "1000000"))


class OBSensorType:
    COLOR_SENSOR, DEPTH_SENSOR = "colour", "depth"


class OBFormat:
    MJPG = "mjpg"


class OBStreamType:
    COLOR_STREAM = "colour"


@dataclass
class Profile:
    width: int = 8
    height: int = 6


class Profiles:
    def get_video_stream_profile(self, width, height, picture_format, fps):
        assert (picture_format, fps) == (OBFormat.MJPG, 30)
        return Profile(width, height)

    def get_default_video_stream_profile(self):
        return Profile()


class Config:
    def __init__(self):
        self.profiles = []

    def enable_stream(self, profile):
        self.profiles.append(profile)


class Frame:
    def __init__(self, number, image):
        self._number, self._image = number, image

    def get_data(self):
        return np.frombuffer(self._image, np.uint8)

    def get_global_timestamp_us(self):
        return int(time.time() * 1e6)

    def get_timestamp_us(self):
        return self._number * 33_333

    def get_width(self):
        return 8

    def get_height(self):
        return 6

    def get_depth_scale(self):
        return 0.5


class Frames:
    def __init__(self, number, profile):
        picture = np.full((profile.height, profile.width, 3), number % 256, np.uint8)
        self._colour = Frame(number, simplejpeg.encode_jpeg(picture))
        self._depth = Frame(number, np.full((6, 8), 2 * number, np.uint16).tobytes())

    def get_color_frame(self):
        return self._colour

    def get_depth_frame(self):
        return self._depth

    def as_frame_set(self):
        return self


class AlignFilter:
    def __init__(self, align_to_stream):
        assert align_to_stream == OBStreamType.COLOR_STREAM

    def process(self, frames):
        return frames


class Pipeline:
    def __init__(self, device):
        self._number = 0
        print("the SDK logs to stdout", flush=True)

    def get_stream_profile_list(self, sensor):
        return Profiles()

    def enable_frame_sync(self):
        pass

    def start(self, config):
        self._profile = config.profiles[0]

    def wait_for_frames(self, wait_ms):
        self._number += 1
        if self._number > PICTURES:
            raise RuntimeError("USB disconnected")
        if MISBEHAVIOUR == "die" and self._number > 2:
            os._exit(9)
        return None if MISBEHAVIOUR == "silent" else Frames(self._number, self._profile)

    def get_camera_param(self):
        return CameraParam()

    def stop(self):
        pass


class CameraParam:
    @dataclass
    class Intrinsic:
        width: int = 32
        height: int = 24
        fx: float = 30.0
        fy: float = 31.0
        cx: float = 16.0
        cy: float = 12.0

    rgb_intrinsic = Intrinsic()


class Device:
    def is_global_timestamp_supported(self):
        return MISBEHAVIOUR != "own clock"

    def enable_global_timestamp(self, wanted):
        assert wanted


class Devices:
    def get_count(self):
        return 0 if MISBEHAVIOUR == "none" else 1

    def get_device_by_index(self, index):
        return Device()

    def get_device_by_serial_number(self, serial):
        if serial != "AB12":
            raise RuntimeError("no device has serial number " + serial)
        return Device()


class Context:
    def query_devices(self):
        return Devices()
