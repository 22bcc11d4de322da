"""State and action of a robot during recording, as JSON lines from the user's program."""

import shlex
import subprocess
from collections.abc import Iterator
from typing import IO

import numpy as np

from egorecovery.capture.clocks import DeviceClock
from egorecovery.capture.sensor import RobotDriver, RobotSample
from egorecovery.episodes.vocabulary import EFFECTOR_DIM, EFFECTORS, STATE_DIM
from egorecovery.errors import CaptureError
from egorecovery.storage.bounded_json import BadJson, parse_json

SHAPES = {"state": (STATE_DIM,), "action": (STATE_DIM,), "effector_m": (EFFECTORS, 3)}
OPTIONAL_SHAPES = {"effector_state": (EFFECTOR_DIM,), "effector_action": (EFFECTOR_DIM,)}
LONGEST_LINE = 64 * 1024
END_S = 5.0


class RobotCommand(RobotDriver):
    """Runs `command` and reads one sample per line from its stdout.

    `captured_s` is `time.monotonic()` or `time.time()` of this machine, or the controller's own clock.
    """

    def __init__(self, command: str, rate_hz: float) -> None:
        self.described, self.rate_hz = f"command:{command}", rate_hz
        try:
            words = shlex.split(command)
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        except (OSError, ValueError, IndexError) as error:
            raise CaptureError(f"robot: {command!r} cannot be run ({error})") from error
        assert self._process.stdout is not None
        self._lines: IO[bytes] = self._process.stdout
        self._clock = DeviceClock("robot")
        self._closed = False

    def items(self) -> Iterator[RobotSample]:
        number = 0
        while not self._closed:
            line = self._lines.readline(LONGEST_LINE + 1)
            if not line:
                break
            number += 1
            sample = parse_sample(line, f"robot: line {number} of {self.described}")
            yield RobotSample(**{**vars(sample), "captured_s": self._clock.monotonic_s(sample.captured_s)})
        if not self._closed:
            raise CaptureError(f"robot: {self.described} ended after {number} lines (exit code {self._exit_code()})")

    def _exit_code(self) -> int | None:
        try:
            return self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        self._closed = True
        self._process.terminate()
        if self._exit_code() is None:
            self._process.kill()
            self._process.wait()


def parse_sample(line: bytes, where: str) -> RobotSample:
    """One sample, with checked shapes and numbers."""
    if len(line) > LONGEST_LINE:
        raise CaptureError(f"{where}: longer than {LONGEST_LINE} bytes")
    try:
        record = parse_json(line)
    except BadJson as error:
        raise CaptureError(f"{where}: {error}") from error
    if not isinstance(record, dict):
        raise CaptureError(f"{where}: must be an object with captured_s, {', '.join(SHAPES)}")
    captured_s = record.get("captured_s")
    if isinstance(captured_s, bool) or not isinstance(captured_s, int | float) or not abs(captured_s) < 1e15:
        raise CaptureError(f"{where}: captured_s must be a number of seconds, got {captured_s!r}")
    wanted = {**SHAPES, **{name: shape for name, shape in OPTIONAL_SHAPES.items() if name in record}}
    values = {}
    for name, shape in wanted.items():
        try:
            array = np.asarray(record.get(name), dtype=float)
        except (OverflowError, TypeError, ValueError):
            array = np.empty(0)
        if array.shape != shape or not np.isfinite(array).all():
            raise CaptureError(f"{where}: {name} must be finite numbers of shape {shape}, got {record.get(name)!r:.80}")
        values[name] = array
    return RobotSample(captured_s=float(captured_s), **values)
