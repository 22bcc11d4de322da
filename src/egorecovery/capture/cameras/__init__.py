"""Camera drivers, which implement `capture/sensor.py`. A driver's library is imported when it is opened."""

from pathlib import Path

from egorecovery.capture.cameras.spec import CameraSpec
from egorecovery.capture.replay import ReplayCamera, ReplayClips, ReplayRobot
from egorecovery.capture.replay_clip import find_clips
from egorecovery.capture.robot_stream import RobotCommand
from egorecovery.capture.sensor import CameraDriver, RobotDriver
from egorecovery.episodes import Camera, Source
from egorecovery.errors import CaptureError

USUAL_ROBOT_HZ = 50.0


class SensorOpener:
    """Opens cameras and robot streams named on the command line. Replays of one target share their clips."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._replays: dict[str, ReplayClips] = {}

    def camera(self, spec: CameraSpec) -> CameraDriver:
        if spec.driver == "uvc":
            from egorecovery.capture.cameras.uvc import UvcCamera

            return UvcCamera(spec)
        if spec.driver == "realsense":
            from egorecovery.capture.cameras.realsense import RealsenseCamera

            return RealsenseCamera(spec)
        if spec.driver == "orbbec":
            from egorecovery.capture.cameras.orbbec import OrbbecCamera

            return OrbbecCamera(spec)
        played = spec.options.get("camera", spec.camera)
        if played not in list(Camera):
            raise CaptureError(f"{spec.camera}: camera={played} is not one of {', '.join(Camera)}")
        at_full_speed = _is_at_full_speed(str(spec.camera), spec.options.get("speed", "1"))
        return ReplayCamera(self._clips(spec.target), Camera(played), spec.described, at_full_speed=at_full_speed)

    def robot(self, text: str, rate_hz: float = USUAL_ROBOT_HZ) -> RobotDriver:
        """`command:PROGRAM ARGUMENTS`, or `replay:STORE/ID`."""
        driver, _, target = text.partition(":")
        if driver == "command" and target.strip():
            return RobotCommand(target, rate_hz)
        if driver != "replay":
            raise CaptureError(f"robot {text!r}: write 'command:PROGRAM ARGUMENTS' or replay:STORE/ID")
        place, _, setting = target.partition(",")
        return ReplayRobot(
            self._clips(place), text, at_full_speed=_is_at_full_speed("robot", setting.removeprefix("speed=") or "1")
        )

    def _clips(self, target: str) -> ReplayClips:
        if target not in self._replays:
            self._replays[target] = ReplayClips(find_clips(Path(target), self._source))
        return self._replays[target]


def _is_at_full_speed(name: str, speed: str) -> bool:
    if speed not in ("1", "max"):
        raise CaptureError(f"{name}: speed={speed} must be 1 (real time) or max")
    return speed == "max"
