"""A robot's script in a pseudo terminal, with a person's keys."""

import json
import os
import pty
import select
import subprocess
import sys

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

    def end(self):
        code = self.process.wait(30)
        os.close(self._file)
        return code

    def events(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]
