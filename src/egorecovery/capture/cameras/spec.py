"""Camera descriptions on the command line: `NAME=DRIVER:TARGET,OPTION=VALUE`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from egorecovery.episodes import Camera, Intrinsics
from egorecovery.errors import CaptureError, EpisodeError
from egorecovery.storage.bounded_json import read_named_json

DRIVERS = {  # with their options
    "uvc": ("size", "fps", "format", "calibration"),
    "realsense": ("size", "fps", "depth"),
    "orbbec": ("size", "fps", "depth", "python"),
    "replay": ("speed", "camera"),
}
GUESSED_VIEW_RAD = math.radians(65.0)  # horizontal field of view of a typical webcam


@dataclass(frozen=True, kw_only=True)
class CameraSpec:
    """A device and its options."""

    camera: Camera
    driver: str
    target: str
    options: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> "CameraSpec":
        name, _, device = text.partition("=")
        driver, _, rest = device.partition(":")
        if name not in list(Camera) or driver not in DRIVERS:
            raise CaptureError(
                f"camera {text!r}: write NAME=DRIVER:TARGET, as in head=uvc:/dev/video0; "
                f"NAME is one of {', '.join(Camera)}, DRIVER one of {', '.join(DRIVERS)}"
            )
        target, *settings = rest.split(",")
        options: dict[str, str] = {}
        for setting in settings:
            option, _, value = setting.partition("=")
            options[option] = value
        for option, value in options.items():
            if option not in DRIVERS[driver] or not value:
                raise CaptureError(
                    f"camera {text!r}: option {option!r} is not known or has no value; {driver} has "
                    f"{', '.join(DRIVERS[driver])}, each written as OPTION=VALUE"
                )
        return cls(camera=Camera(name), driver=driver, target=target, options=options)

    @property
    def described(self) -> str:
        return f"{self.driver}:{self.target}" if self.target else self.driver

    def size_wh(self, usual: tuple[int, int]) -> tuple[int, int]:
        text = self.options.get("size", f"{usual[0]}x{usual[1]}")
        width, _, height = text.partition("x")
        if not (width.isdecimal() and height.isdecimal() and int(width) and int(height)):
            raise CaptureError(f"{self.camera}: size={text} must be WIDTHxHEIGHT, as in 640x480")
        return int(width), int(height)

    def fps(self, usual: float = 30.0) -> float:
        text = self.options.get("fps", str(usual))
        try:
            rate_hz = float(text)
        except ValueError:
            rate_hz = math.nan
        if not 1 <= rate_hz <= 1000:
            raise CaptureError(f"{self.camera}: fps={text} must be a number of pictures per second, as in fps=30")
        return rate_hz

    def switch(self, name: str, usual: bool) -> bool:
        text = self.options.get(name, "yes" if usual else "no")
        if text not in ("yes", "no"):
            raise CaptureError(f"{self.camera}: {name}={text} must be yes or no")
        return text == "yes"


def calibration(path: Path, size_wh: tuple[int, int]) -> Intrinsics:
    """Pinhole parameters measured by the user: a JSON object with width, height, fx, fy, cx, cy in pixels."""
    record = read_named_json(path, CaptureError, "calibrate the camera first (docs/collect.md)")
    try:
        known = Intrinsics.from_json(record, "calibration")
    except EpisodeError as error:
        raise CaptureError(f"{path}: no calibration ({error}); see docs/collect.md") from error
    if (known.width, known.height) != size_wh:
        raise CaptureError(
            f"{path} is for {known.width} x {known.height} pixels, the camera gives {size_wh[0]} x {size_wh[1]}; "
            f"set size={known.width}x{known.height} or calibrate at the camera's size"
        )
    return known


def guessed_intrinsics(size_wh: tuple[int, int]) -> Intrinsics:
    """Parameters of an uncalibrated camera. Sufficient for recording; hand trackers will be wrong in depth."""
    width, height = size_wh
    focal_px = width / 2 / math.tan(GUESSED_VIEW_RAD / 2)
    return Intrinsics(width=width, height=height, fx=focal_px, fy=focal_px, cx=width / 2, cy=height / 2)
