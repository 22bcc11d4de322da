"""Orbbec cameras. Their SDK pins conflicting libraries, so it runs in a separate process and environment."""

import math
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from egorecovery.capture.cameras.frame_pipe import Message, read_message
from egorecovery.capture.cameras.spec import CameraSpec
from egorecovery.capture.clocks import DeviceClock
from egorecovery.capture.sensor import CameraDriver, CameraFrame
from egorecovery.episodes import Intrinsics
from egorecovery.errors import CaptureError, EpisodeError

USUAL_SIZE_WH = (640, 480)
HOST = Path(__file__).with_name("orbbec_host.py")
FIRST_PICTURE_S = 30.0  # loading the SDK and starting the streams takes a few seconds
END_S = 5.0


class OrbbecCamera(CameraDriver):
    """`target` is a serial number; empty for the only camera. `python=` names the interpreter that has the SDK."""

    def __init__(self, spec: CameraSpec) -> None:
        self.described, self.rate_hz = spec.described, spec.fps()
        self._process = _start(spec, self.rate_hz)
        assert self._process.stdout is not None
        self._messages: IO[bytes] = self._process.stdout
        self._closed = False
        starting = threading.Timer(FIRST_PICTURE_S, self._process.kill)
        starting.start()
        try:
            self.intrinsics, self._synchronised = self._described()
        except CaptureError as error:
            self.close()
            raise CaptureError(f"{spec.camera}: {error}") from error
        finally:
            starting.cancel()
        self._clock = DeviceClock(self.described)

    def _described(self) -> tuple[Intrinsics, bool]:
        message = read_message(self._messages, self.described)
        if message is None:
            raise CaptureError(
                f"{self.described}: the camera process ended before it described a camera; run it by hand to see why: "
                f"{' '.join(map(str, self._process.args)) if isinstance(self._process.args, list) else ''}"
            )
        self._refuse_error(message)
        try:
            return Intrinsics.from_json(message.header.get("intrinsics"), "intrinsics"), bool(
                message.header.get("synchronised")
            )
        except EpisodeError as error:
            raise CaptureError(f"{self.described}: the camera process described no camera ({error})") from error

    def items(self) -> Iterator[CameraFrame]:
        try:
            while not self._closed:
                message = read_message(self._messages, self.described)
                if message is None:
                    break
                self._refuse_error(message)
                yield self._shot(message)
        except (CaptureError, OSError, ValueError) as error:
            if not self._closed:  # closing breaks the pipe, which is not the camera's fault
                raise CaptureError(str(error)) from error
        if not self._closed:
            raise CaptureError(f"{self.described}: the camera process ended; is the camera still plugged in?")

    def _refuse_error(self, message: Message) -> None:
        if "error" in message.header:
            raise CaptureError(f"{self.described}: {message.header['error']}")

    def _shot(self, message: Message) -> CameraFrame:
        header, payload = message.header, message.payload
        try:
            stamped_s, jpeg_bytes = float(header["stamped_s"]), int(header["jpeg"])
            shape_hw = tuple(int(side) for side in header["depth"]) if "depth" in header else None
        except (KeyError, TypeError, ValueError, OverflowError):
            raise CaptureError(f"{self.described}: a picture's header makes no sense: {header}") from None
        depth_bytes = 0 if shape_hw is None else 2 * math.prod(shape_hw)
        sides = () if shape_hw is None else shape_hw
        whole = jpeg_bytes > 0 and jpeg_bytes + depth_bytes == len(payload)
        if not (math.isfinite(stamped_s) and whole and len(sides) in (0, 2) and all(side > 0 for side in sides)):
            raise CaptureError(f"{self.described}: a picture of {len(payload)} bytes does not fit its header {header}")
        depth_mm = None if shape_hw is None else np.frombuffer(payload, "<u2", offset=jpeg_bytes).reshape(shape_hw)
        return CameraFrame(captured_s=self._clock.monotonic_s(stamped_s), jpeg=payload[:jpeg_bytes], depth_mm=depth_mm)

    def close(self) -> None:
        self._closed = True
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _start(spec: CameraSpec, rate_hz: float) -> "subprocess.Popen[bytes]":
    python = spec.options.get("python")
    if python is None:
        raise CaptureError(
            f"{spec.camera}: name the Python that has pyorbbecsdk2, as in orbbec:SERIAL,python=/opt/orbbec/bin/python; "
            f"docs/collect.md says how to make that environment"
        )
    width, height = spec.size_wh(USUAL_SIZE_WH)
    python = str(Path(python).absolute()) if os.sep in python else python
    command: Sequence[str] = [python, str(HOST), "--width", str(width), "--height", str(height)]
    command = [*command, "--fps", f"{rate_hz:.0f}", *(["--serial", spec.target] if spec.target else [])]
    if spec.switch("depth", usual=True):
        command = [*command, "--depth"]
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=tempfile.gettempdir(),  # the SDK writes a folder of logs where it runs
        )
    except OSError as error:
        raise CaptureError(f"{spec.camera}: {python} cannot be run ({error})") from error
