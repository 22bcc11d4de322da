"""Sources of the operator's actions: a keyboard or pedal, or a script."""

import os
import queue
import select
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO, runtime_checkable

from egorecovery.capture.operator_loop import Action, KeyMap, State
from egorecovery.errors import CaptureError

CONTROL = {" ": "space", "\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace"}
# Codes that terminals send for special keys, after the escape byte.
SEQUENCES = {
    **{"[A": "up", "[B": "down", "[C": "right", "[D": "left", "[H": "home", "[F": "end", "[5~": "pageup"},
    **{"[6~": "pagedown", "OP": "f1", "OQ": "f2", "OR": "f3", "OS": "f4", "[15~": "f5", "[17~": "f6"},
    **{"[18~": "f7", "[19~": "f8", "[20~": "f9", "[21~": "f10", "[23~": "f11", "[24~": "f12"},
    **{"[1~": "home", "[4~": "end", "OA": "up", "OB": "down", "OC": "right", "OD": "left"},
}


# A held key repeats, first after up to 0.6 s. A foot resting on the pedal must not stop and accept a clip.
REPEATS_S = 0.65


class Controls(Protocol):
    """A source of actions with a timeout."""

    def next(self, state: State, wait_s: float) -> Action | None:
        """The next action; None if there is none within the time. `EOFError` if no more will come for an open clip."""
        ...


class Keyboard:
    """Single keys of the terminal, without enter. A pedal that types a key works too."""

    def __init__(self, keys: KeyMap, descriptor: int) -> None:
        self._keys, self._descriptor = keys, descriptor
        self._waiting: list[str] = []
        self._held = HeldKeys()

    def next(self, state: State, wait_s: float) -> Action | None:
        if not self._waiting and select.select([self._descriptor], [], [], wait_s)[0]:
            typed = os.read(self._descriptor, 64)
            if not typed:
                return Action.QUIT  # the terminal is gone
            names = key_names(typed.decode(errors="replace"))
            self._waiting = [name for name in names if self._held.pressed(name, time.monotonic())]
        return self._keys.action(self._waiting.pop(0), state) if self._waiting else None


class HeldKeys:
    """Distinguishes presses from repetitions of a held key."""

    def __init__(self) -> None:
        self._last, self._last_s = "", 0.0

    def pressed(self, key: str, now_s: float) -> bool:
        repeated = key == self._last and now_s - self._last_s < REPEATS_S
        self._last, self._last_s = key, now_s
        return not repeated


def key_names(typed: str) -> list[str]:
    """Names of typed keys, such as 'space' or 'f5'. Unknown sequences are left out."""
    names = []
    while typed:
        if typed[0] == "\x1b" and len(typed) > 1 and typed[1] in "[O":
            known = next((code for code in SEQUENCES if typed[1:].startswith(code)), None)
            if known is None:
                break
            names.append(SEQUENCES[known])
            typed = typed[1 + len(known) :]
        else:
            names.append("escape" if typed[0] == "\x1b" else CONTROL.get(typed[0], typed[0]))
            typed = typed[1:]
    return names


@contextmanager
def keyboard(keys: KeyMap) -> Iterator[Keyboard]:
    """Disables the terminal's echo, and restores its settings at the end."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield Keyboard(keys, descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@runtime_checkable
class Lines(Protocol):
    """A text file, or a pipe that may have no line yet."""

    def readline(self) -> str | None:
        """The next line; None if there is none yet, empty at the end."""
        ...


class PipedLines:
    """Lines of a pipe. Reading never blocks, because the recorder must keep checking its streams."""

    def __init__(self, stream: TextIO) -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: TextIO) -> None:
        while line := stream.readline():
            self._lines.put(line)
        self._lines.put("")

    def readline(self) -> str | None:
        try:
            return self._lines.get_nowait()
        except queue.Empty:
            return None


class Script:
    """A script. Each line is an action, `wait SECONDS`, `wait ready` (streams deliver) or `wait end` (of a replay).

    The end of the script ends the session: by `EOFError` while a clip is open, whose verdict is then the recorder's.
    """

    def __init__(self, lines: "Lines", name: str) -> None:
        self._lines, self._name = lines, name
        self._number = 0
        self._until_s = 0.0
        self._until_not: State | None = None

    def next(self, state: State, wait_s: float) -> Action | None:
        if time.monotonic() < self._until_s or state is self._until_not:
            time.sleep(min(wait_s, 0.005))
            return None
        self._until_not = None
        line = self._lines.readline()
        if line is None:
            time.sleep(min(wait_s, 0.005))
            return None
        self._number += 1
        words = line.split("#")[0].split()
        if not line:
            if state in (State.RECORDING, State.JUDGING):
                raise EOFError(self._name)
            return Action.QUIT
        if not words:
            return None
        if words[0] == "wait" and len(words) == 2:
            self._wait(words[1])
            return None
        if words[0] not in list(Action) or len(words) > 1:
            raise CaptureError(
                f"{self._name} line {self._number}: {line.strip()!r} is none of {', '.join(Action)}, "
                f"wait SECONDS, wait ready, wait end"
            )
        return Action(words[0])

    def _wait(self, what: str) -> None:
        if what in ("ready", "end"):
            self._until_not = State.SYNCHRONISING if what == "ready" else State.RECORDING
            return
        try:
            self._until_s = time.monotonic() + float(what)
        except ValueError:
            raise CaptureError(
                f"{self._name} line {self._number}: wait {what}: a number of seconds, 'ready' or 'end' is wanted"
            ) from None
