"""Messages with the fields that the examples use."""

from types import SimpleNamespace


class JointState:
    def __init__(self):
        self.header, self.name, self.position = SimpleNamespace(stamp=None), [], []


class Image:
    def __init__(self):
        self.header = SimpleNamespace(stamp=None)
        self.height = self.width = self.step = 0
        self.encoding, self.data = "", b""
