"""A robot's script in a pseudo terminal, with a person's keys."""

import json
import os
import pty
import select
import subprocess
import sys
import time

from egorecovery.robot.terminal import QUIET_S
from robot_limits import FOLDER


class Terminal:
    """A robot's script in a pseudo terminal, as a person has it."""

    def __init__(self, script, server, tmp_path, *more, limits="workcell.json", **options):
        self.log = tmp_path / "control.jsonl"
        ours, theirs = pty.openpty()
        command = [sys.executable, str(script), "--server", server.url, "--log", str(self.log)]
        self.process = subprocess.Popen(
            [*command, "--limits", str(FOLDER / limits), *more], stdin=theirs, stdout=theirs, stderr=theirs, **options
        )
        os.close(theirs)
        self.shown, self._file = "", ours

    def until(self, words):
        """What is shown from now on, up to some words."""
        begun = len(self.shown)
        while words not in self.shown[begun:]:
            assert select.select([self._file], [], [], 30)[0], self.shown
            try:
                self.shown += os.read(self._file, 4096).decode()
            except OSError:  # the terminal's other end is closed
                raise AssertionError(self.shown) from None
        return self.shown[begun:]

    def press(self, key):
        os.write(self._file, key)

    def rearm(self):
        """As a person does: waits a moment, presses, looks, and tries again."""
        for _ in range(10):
            os.write(self._file, b"r")
            quiet_from_s = time.monotonic()
            while (left_s := quiet_from_s + QUIET_S + 0.3 - time.monotonic()) > 0:
                if select.select([self._file], [], [], left_s)[0]:
                    self.shown += os.read(self._file, 4096).decode()
                if not self.shown[self.shown.rindex("\r") :].startswith("\rstopped"):
                    return
        raise AssertionError(self.shown)

    def end(self):
        code = self.process.wait(30)
        os.close(self._file)
        return code

    def events(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]
