"""The interface that a robot driver implements."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Joints = NDArray[np.float64]  # one number per joint, in the order of `Robot.joint_names`
Image = NDArray[np.uint8]  # (H, W, 3), red first


@dataclass(frozen=True, eq=False)
class Measurement:
    """Measured joints."""

    captured_s: float  # on the robot's clock, when the sensors were read, not when the message arrived
    joints: Joints


@dataclass(frozen=True, eq=False)
class Observation:
    """Joints and pictures for the policy."""

    captured_s: float  # of its oldest part
    joints: Joints
    images: Mapping[str, Image]


@runtime_checkable
class Robot(Protocol):
    """A robot that follows absolute joint targets, sent `rate_hz` times per second.

    One thread calls `measure`, `command` and `hold`, another one `read`. Any thread may call `stop` at any time. No
    method may wait for a sensor: each returns the latest data with their capture time. Times come from one monotonic
    clock (`clock.MonotonicClock`), never from the wall clock, which jumps.
    """

    @property
    def rate_hz(self) -> float: ...
    @property
    def joint_names(self) -> tuple[str, ...]: ...

    def measure(self) -> Measurement:
        """The joints only. Called in every control cycle."""
        ...

    def read(self) -> Observation:
        """Joints and pictures, for a request to the policy."""
        ...

    def command(self, joints: Joints) -> None:
        """Sends the targets of this control cycle. They are within the limits."""
        ...

    def hold(self) -> None:
        """Keeps the last command. Called in every control cycle while stopped."""
        ...

    def stop(self) -> None:
        """The driver's own stop, for when commands can no longer be sent. It must not raise."""
        ...
