"""Stands in for rospy in tests of the examples: topics inside one process, arms that follow, three cameras."""

import threading
import time
from types import SimpleNamespace

import numpy as np
from sensor_msgs.msg import Image, JointState

_listeners: dict[str, list] = {}
_started = threading.Event()
ARM = [0.1, 0.4, -0.3, 0.0, 0.2, -0.1]
arms = {side: [*ARM, 0.035, 0.035] for side in ("left", "right")}
FLAVOUR = {"left": 10, "right": 20, "high": 30}


class Time:
    @staticmethod
    def now():
        return stamp(time.time())


def stamp(seconds):
    return SimpleNamespace(to_sec=lambda: seconds)


def get_time():
    return time.time()


def init_node(name, **_):
    if not _started.is_set():
        _started.set()
        threading.Thread(target=_play, daemon=True).start()


class Subscriber:
    def __init__(self, topic, kind, callback, **_):
        _listeners.setdefault(topic, []).append(callback)


class Publisher:
    def __init__(self, topic, kind, queue_size):
        self.topic, self.open = topic, True

    def publish(self, message):
        assert self.open
        say(self.topic, message)
        side = self.topic.rsplit("_", 1)[-1]
        if self.topic.startswith("/master/"):
            arms[side] = [*map(float, message.position), 0.0][:8]

    def unregister(self):
        self.open = False


def say(topic, message):
    for listener in _listeners.get(topic, []):
        listener(message)


def joint_state(topic, position):
    message = JointState()
    message.header.stamp = stamp(time.time())
    message.position = position
    say(topic, message)


def _play():
    """States and pictures, 100 times a second; red is what tells one camera from another."""
    while True:
        for side, position in arms.items():
            joint_state(f"/puppet/joint_{side}", position[:7])
            joint_state(f"/puppet_{side}/joint_states", position)
        for (name, red), letter in zip(FLAVOUR.items(), "lrf", strict=True):
            message = Image()
            message.header.stamp = stamp(time.time() - 0.01)
            message.height, message.width, message.encoding, message.step = 4, 6, "bgr8", 20  # rows are padded
            rows = np.zeros((4, 20), np.uint8)
            rows[:, 2:18:3] = red
            message.data = rows.tobytes()
            camera = "high" if name == "high" else f"{name}_wrist"
            say(f"/usb_cam_{camera}/image_raw", message)
            say(f"/camera_{letter}/color/image_raw", message)
        time.sleep(0.01)
