"""The operator's keys: any key stops the robot; at rest 'r' re-arms and 'q' ends. Shows the gate meter."""

import math
import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from egorecovery.robot.controller import Controller
from egorecovery.robot.gate_meter import WIDTH, meter_line
from egorecovery.robot.guard import Cause, Fault, Phase

DRAW_S = 0.1
QUIET_S = 1.0  # without a key before re-arming; longer than the delay before a held key repeats
KEYS = f"wait {QUIET_S:g} s, then r re-arms the robot, q ends"
Write = Callable[[str], object]


class Operator:
    """A thread that reads keys. No thread waits for another."""

    def __init__(self, controller: Controller, now_s: Callable[[], float], keys: int, write: Write) -> None:
        self._controller, self._now_s, self._keys, self._write = controller, now_s, keys, write
        self._over = threading.Event()
        self._last_phase: Phase | None = None
        self._pressed_s = -math.inf
        self.wants_end = threading.Event()
        self._thread = threading.Thread(target=self._attend, name="person", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._write("\n")

    def _attend(self) -> None:
        while not self._over.is_set():
            ready, _, _ = select.select([self._keys], [], [], DRAW_S)
            if ready:
                self._press(self._read())
            self._draw()

    def _read(self) -> bytes:
        """Writes to the terminal, or nothing if it is gone."""
        try:
            return os.read(self._keys, 64)
        except OSError:
            return b""

    def _press(self, keys: bytes) -> None:
        """Handles a key. While the robot is not at rest, every key stops it, and so does the loss of the terminal.

        At rest only a single 'r' re-arms: not the last byte of a function key, a key that is held down, or one of many
        keys that someone hits to stop the robot.
        """
        now_s = self._now_s()
        quiet_s, self._pressed_s = now_s - self._pressed_s, now_s
        if self._controller.phase is not Phase.STOPPED:
            self._controller.stop(Fault(Cause.PERSON, "the stop key"), now_s)
        elif keys.lower() in (b"", b"q"):
            self.wants_end.set()
        elif keys.lower() == b"r" and quiet_s >= QUIET_S:
            self._controller.rearm("a person at the keyboard", now_s)

    def _draw(self) -> None:
        status = self._controller.status
        if status.phase is Phase.STOPPED and self._last_phase is not Phase.STOPPED and status.fault is not None:
            stopped = f"stopped ({status.fault.cause}): {status.fault.reason}".ljust(WIDTH)  # over the meter's line
            keys = "" if status.fault.cause is Cause.FINISHED else f"{KEYS}\n"  # nothing is left to be re-armed
            self._write(f"\r{stopped}\n{keys}")
        self._last_phase = status.phase
        self._write("\r" + meter_line(status))


@contextmanager
def single_keys(keys: int) -> Iterator[None]:
    """Delivers keys as they are pressed, without Enter. Ctrl-C keeps its meaning.

    Ctrl-Z and Ctrl-S become ordinary keys: one would suspend a program whose robot moves, the other would block the
    terminal and with it the stop key.
    """
    before = termios.tcgetattr(keys)
    tty.setcbreak(keys)
    attributes = termios.tcgetattr(keys)
    attributes[0] &= ~termios.IXON
    attributes[6][termios.VSUSP] = b"\x00"
    termios.tcsetattr(keys, termios.TCSADRAIN, attributes)
    try:
        yield
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)


@contextmanager
def operator_at(
    controller: Controller, now_s: Callable[[], float], terminal: int | None = None, write: Write | None = None
) -> Iterator[Operator | None]:
    """The operator at the terminal; None without a terminal."""
    keys = _standard_input() if terminal is None else terminal
    if keys is None or not os.isatty(keys):
        yield None
        return
    with single_keys(keys):
        person = Operator(controller, now_s, keys, write or _to_terminal)
        person.start()
        try:
            yield person
        finally:
            person.close()


def _standard_input() -> int | None:
    """The standard input; None if it is closed or not a file, as under some supervisors."""
    try:
        return sys.stdin.fileno() if sys.stdin is not None else None
    except (OSError, ValueError):
        return None


def _to_terminal(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
