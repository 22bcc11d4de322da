"""A hand tracker that runs as a subprocess: pictures to its stdin, answers from its stdout."""

import math
import queue
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import pack
from threading import Thread
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from egorecovery.errors import RecordingError
from egorecovery.storage.bounded_json import BadJson, parse_json

WORKER = Path(__file__).with_name("mediapipe_worker.py")
START_S, ANSWER_S = 120.0, 30.0  # a first import of MediaPipe on a slow disk takes half a minute
MAX_LINE_BYTES = 64 * 1024
MAX_HANDS = 4
POINTS = 21


@dataclass(frozen=True, kw_only=True, eq=False)
class FoundHand:
    """A hand in one picture."""

    label: str  # "Left" or "Right", by the tracker's convention
    score: float
    pixels: Float[ndarray, "21 2"]
    metres: Float[ndarray, "21 3"]  # relative to the hand's centre, in the camera's axes


@dataclass(eq=False)
class HandTracker:
    """A running tracker. It handles one picture at a time."""

    version: str
    _process: "subprocess.Popen[bytes]"
    _lines: "queue.Queue[bytes]"
    _errors: BinaryIO

    @classmethod
    @contextmanager
    def started(cls, command: Sequence[str]) -> "Iterator[HandTracker]":
        """Ends the process."""
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(
                    list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0
                )
            except OSError as error:
                raise RecordingError(f"the hand tracker {command[0]} cannot be started ({error})") from None
            lines: queue.Queue[bytes] = queue.Queue()
            Thread(target=_read_lines, args=(process.stdout, lines), daemon=True).start()
            tracker = cls("", process, lines, errors)
            try:
                tracker.version = str(tracker._answer(START_S, "start").get("ready"))[:40]
                yield tracker
            finally:
                process.kill()
                process.wait()

    def find(self, jpeg: bytes) -> list[FoundHand]:
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(pack("<I", len(jpeg)) + jpeg)
        except OSError:
            raise self._failed("ended") from None
        records = self._answer(ANSWER_S, "answer").get("hands")
        if not isinstance(records, list) or len(records) > MAX_HANDS:
            raise self._failed("gave a malformed answer")
        return [self._hand(record) for record in records]

    def _hand(self, record: Any) -> FoundHand:
        try:
            hand = FoundHand(
                label=record["label"],
                score=float(record["score"]),
                pixels=np.array(record["pixels"], np.float64),
                metres=np.array(record["metres"], np.float64),
            )
        except (KeyError, OverflowError, TypeError, ValueError):
            raise self._failed("described a malformed hand") from None
        good = hand.label in ("Left", "Right") and 0 <= hand.score <= 1 + 1e-6 and math.isfinite(hand.score)
        good = good and hand.pixels.shape == (POINTS, 2) and hand.metres.shape == (POINTS, 3)
        if not good or not (np.isfinite(hand.pixels).all() and np.isfinite(hand.metres).all()):
            raise self._failed("described a malformed hand")
        return hand

    def _answer(self, within_s: float, what: str) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=within_s)
        except queue.Empty:
            raise self._failed(f"did not {what} within {within_s:.0f} s") from None
        if not line:
            raise self._failed("ended")
        try:
            answer = parse_json(line)
        except BadJson:
            answer = None
        if not isinstance(answer, dict):
            raise self._failed("gave a malformed answer")
        return answer

    def _failed(self, why: str) -> RecordingError:
        self._process.kill()
        self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        last = f"; its last message: {lines[-1][:200]}" if lines else ""
        return RecordingError(f"the hand tracker {why}{last} (docs/hand_tracks.md says how to install it)")


def mediapipe_command(python: Path, model: Path | None) -> list[str]:
    """The worker's command. -I keeps our working directory and PYTHONPATH out of the other environment."""
    return [str(python), "-I", str(WORKER), *([str(model.absolute())] if model else [])]


def _read_lines(stream: BinaryIO, lines: "queue.Queue[bytes]") -> None:
    """Reads lines in a thread, so that waiting can time out. An endless line is cut and fails as JSON."""
    while line := stream.readline(MAX_LINE_BYTES):
        lines.put(line)
    lines.put(b"")
