"""Sensors without hardware. They play existing clips, in real time or as fast as items are taken."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Generic

from numpy import ndarray

from egorecovery.capture.recording import RobotLog
from egorecovery.capture.replay_clip import ClipPlace, ReplayClip
from egorecovery.capture.sensor import CameraDriver, CameraFrame, Item, RobotDriver, RobotSample, Sensor
from egorecovery.episodes import Camera
from egorecovery.errors import CaptureError

Start = float | None  # the moment from which to play a clip; None: return to the live picture


class Closed(Exception):
    """The replay must end."""


class ReplayClips:
    """Clips in a cyclic sequence, which all sensors of a recorder share and advance in step."""

    def __init__(self, places: Sequence[ClipPlace]) -> None:
        self._places = places
        self._lock = threading.Lock()
        self._loaded: tuple[int, ReplayClip] | None = None

    def clip(self, number: int) -> ReplayClip:
        at = number % len(self._places)
        with self._lock:
            if self._loaded is None or self._loaded[0] != at:
                self._loaded = at, self._places[at].load()
            return self._loaded[1]


class Replay(Sensor[Item], Generic[Item]):
    """Repeats the clip, like a live camera. `begin` starts the next clip from its beginning."""

    replayed = True

    def __init__(self, clips: ReplayClips, described: str, *, at_full_speed: bool) -> None:
        self.described, self.at_full_speed = described, at_full_speed
        self._clips = clips
        self._number = 0
        self._starts: queue.SimpleQueue[Start | type[Closed]] = queue.SimpleQueue()
        self._ended = threading.Event()

    @property
    def clip(self) -> ReplayClip:
        """The clip that was started last, or the first one."""
        return self._clips.clip(max(self._number - 1, 0))

    @property
    def at_end(self) -> bool:
        return self._ended.is_set()

    def begin(self, start_s: float) -> None:
        self._ended.clear()
        self._number += 1
        self._starts.put(start_s)

    def rest(self) -> None:
        self._ended.clear()
        self._starts.put(None)

    def close(self) -> None:
        self._starts.put(Closed)

    def items(self) -> Iterator[Item]:
        start_s: Start = None
        try:
            while True:
                try:
                    if start_s is None:
                        yield from self._live()
                    else:
                        yield from self._play(start_s)
                except _NewStart as new:
                    start_s = new.start_s
        except Closed:
            return

    def _live(self) -> Iterator[Item]:
        clip = self.clip
        while True:
            began_s = time.monotonic()
            for moment_s, make in self._items(clip):
                self._wait_until(began_s + moment_s)
                yield make(began_s + moment_s)
                if self.at_full_speed:  # one picture shows that it works; more would fill the queue
                    self._wait_until(float("inf"))
            self._wait_until(began_s + clip.duration_s + 0.04)

    def _play(self, start_s: float) -> Iterator[Item]:
        clip = self.clip
        for moment_s, make in self._items(clip):
            if not self.at_full_speed:
                self._wait_until(start_s + moment_s)
            yield make(start_s + moment_s)
        if not self.at_full_speed:
            self._wait_until(start_s + clip.duration_s)
        self._ended.set()
        self._wait_until(float("inf"))

    def _wait_until(self, moment_s: float) -> None:
        """Waits until a moment. Ends early if a clip starts or the replay is closed."""
        wait_s = moment_s - time.monotonic()
        try:
            start_s = self._starts.get(timeout=None if wait_s == float("inf") else max(0.0, wait_s))
        except queue.Empty:
            return
        if isinstance(start_s, type):
            raise Closed
        raise _NewStart(start_s)

    def _items(self, clip: ReplayClip) -> Iterator[tuple[float, Callable[[float], Item]]]:
        raise NotImplementedError


class _NewStart(Exception):
    def __init__(self, start_s: Start) -> None:
        super().__init__()
        self.start_s = start_s


class ReplayCamera(Replay[CameraFrame], CameraDriver):
    """One camera of the clips."""

    def __init__(self, clips: ReplayClips, camera: Camera, described: str, *, at_full_speed: bool) -> None:
        super().__init__(clips, described, at_full_speed=at_full_speed)
        self._camera = camera
        raw = clips.clip(0).cameras.get(camera)
        if raw is None:
            there = ", ".join(clips.clip(0).cameras) or "none"
            raise CaptureError(f"{described}: the clip has no camera {camera}; it has {there}")
        self.intrinsics = raw.intrinsics
        self.rate_hz = _rate_hz(raw.timestamps_s)

    def _items(self, clip: ReplayClip) -> Iterator[tuple[float, Callable[[float], CameraFrame]]]:
        raw = clip.cameras[self._camera]
        for frame, moment_s in enumerate(raw.timestamps_s):
            depth_mm = None if raw.depth_mm is None else raw.depth_mm[frame]
            jpeg = raw.frames.encoded(frame).tobytes()
            yield (
                float(moment_s),
                lambda captured_s, jpeg=jpeg, depth_mm=depth_mm: CameraFrame(
                    captured_s=captured_s, jpeg=jpeg, depth_mm=depth_mm
                ),
            )


class ReplayRobot(Replay[RobotSample], RobotDriver):
    """The robot's log of the clips."""

    def __init__(self, clips: ReplayClips, described: str, *, at_full_speed: bool) -> None:
        super().__init__(clips, described, at_full_speed=at_full_speed)
        motion = clips.clip(0).motion
        if not isinstance(motion, RobotLog):
            raise CaptureError(f"{described}: the clip is a person's, there is no robot log in it")
        self.rate_hz = _rate_hz(motion.timestamps_s)

    def _items(self, clip: ReplayClip) -> Iterator[tuple[float, Callable[[float], RobotSample]]]:
        log = clip.motion
        assert isinstance(log, RobotLog)
        for row, moment_s in enumerate(log.timestamps_s):
            values: dict[str, ndarray] = {
                name: stream[row]
                for name in ("state", "action", "effector_m", "effector_state", "effector_action")
                if (stream := getattr(log, name)) is not None
            }
            yield float(moment_s), lambda captured_s, values=values: RobotSample(captured_s=captured_s, **values)


def _rate_hz(timestamps_s: ndarray) -> float:
    span_s = float(timestamps_s[-1] - timestamps_s[0])
    return (len(timestamps_s) - 1) / span_s if span_s > 0 else 25.0
