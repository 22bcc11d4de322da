"""The newest message of each ROS topic with the time it was captured, and its picture as an array; ROS 1 (rospy).

Not tested with ROS: nothing here has run beside a real roscore. Tested against stand-ins for rospy and its messages:
tests/test_robot_examples.py.
"""

import threading
import time
from typing import Any

import numpy as np
import rospy

PICTURE_CHANNELS = {"rgb8": [0, 1, 2], "bgr8": [2, 1, 0]}


class LatestMessage:
    """What a topic said last. ROS calls back in a thread of its own."""

    def __init__(self, topic: str, kind: type) -> None:
        self.topic = topic
        self._newest: tuple[float, Any] | None = None  # replaced whole: no reader sees half of it
        self._arrived = threading.Event()
        rospy.Subscriber(topic, kind, self._arrive, queue_size=1, tcp_nodelay=True)

    def _arrive(self, message: Any) -> None:
        self._newest = (captured_s(message), message)
        self._arrived.set()

    def wait(self, timeout_s: float) -> None:
        """Until something has been said; before the robot starts, never while it runs."""
        if not self._arrived.wait(timeout_s):
            raise SystemExit(f"{self.topic}: no message within {timeout_s:g} s; is its node running?")

    @property
    def newest(self) -> tuple[float, Any]:
        """When it was captured, and the message."""
        assert self._newest is not None, f"{self.topic}: wait() first"
        return self._newest


def captured_s(message: Any) -> float:
    """A message's stamp on this computer's monotonic clock.

    Stamps are of ROS's wall clock, so the computer that set them must have the same time as this one (chrony or PTP).
    A message without a stamp is refused: when it arrived is not when it was captured.
    """
    stamp = message.header.stamp.to_sec()
    if stamp == 0.0:
        raise ValueError("this topic's messages have no stamp: set header.stamp where they are captured")
    return time.monotonic() - (rospy.get_time() - stamp)


def picture(message: Any) -> np.ndarray:
    """A sensor_msgs/Image as (H, W, 3), red first."""
    if message.encoding not in PICTURE_CHANNELS:
        raise ValueError(f"pictures must be {' or '.join(PICTURE_CHANNELS)}, got {message.encoding}")
    rows = np.frombuffer(message.data, np.uint8).reshape(message.height, message.step)
    pixels = rows[:, : message.width * 3].reshape(message.height, message.width, 3)
    return np.ascontiguousarray(pixels[:, :, PICTURE_CHANNELS[message.encoding]])
