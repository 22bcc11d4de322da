"""What every robot must be able to do, whoever built it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Joints = NDArray[np.float64]  # one number per joint, in the order of `Robot.joint_names`
Image = NDArray[np.uint8]  # (H, W, 3), red first


@dataclass(frozen=True, eq=False)
class Measurement:
    """Where the joints are."""

    captured_s: float  # on the robot's clock, when the sensors were read, not when the message arrived
    joints: Joints


@dataclass(frozen=True, eq=False)
class Observation:
    """What a policy is shown."""

    captured_s: float  # of the oldest of its parts
    joints: Joints
    images: Mapping[str, Image]


@runtime_checkable
class Robot(Protocol):
    """A robot that follows absolute joint targets, sent to it `rate_hz` times a second.

    One thread calls `measure`, `command` and `hold`, another one `read`; `stop` comes from any thread, at any time.
    None of them may wait for a sensor: each answers from what arrived last, with the time at which it was captured.
    Times are those of one monotonic clock (`clock.MonotonicClock`; never the wall clock, which jumps).
    """

    @property
    def rate_hz(self) -> float: ...
    @property
    def joint_names(self) -> tuple[str, ...]: ...

    def measure(self) -> Measurement:
        """The joints alone, in every control cycle."""
        ...

    def read(self) -> Observation:
        """Joints and pictures, for a request to the policy."""
        ...

    def command(self, joints: Joints) -> None:
        """Targets for this control cycle. They are inside the limits already."""
        ...

    def hold(self) -> None:
        """Stay at the last command; called in every control cycle while stopped."""
        ...

    def stop(self) -> None:
        """The driver's own stop, for when commands can no longer be sent; must not raise."""
        ...
