"""The one interface behind which every camera and robot stands while a clip is recorded."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from jaxtyping import Float, UInt16
from numpy import ndarray

from egorecovery.episodes import Intrinsics


@dataclass(frozen=True, kw_only=True, eq=False)
class Shot:
    """One picture of a camera."""

    captured_s: float  # when the sensor took it, on this machine's monotonic clock
    jpeg: bytes
    depth_mm: UInt16[ndarray, "h w"] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotSample:
    """One line of a robot's log."""

    captured_s: float  # when the controller measured it, on this machine's monotonic clock
    state: Float[ndarray, "14"]
    action: Float[ndarray, "14"]
    effector_m: Float[ndarray, "2 3"]
    effector_state: Float[ndarray, "20"] | None = None  # in effector space, where known
    effector_action: Float[ndarray, "20"] | None = None


Item = TypeVar("Item", Shot, RobotSample)


class Sensor(ABC, Generic[Item]):
    """Delivers items from when it is opened until it is closed."""

    described: str  # the driver and its device, for the operator and for the recording's details
    rate_hz: float  # nominal; missing items are counted against it
    replayed = False  # a clip that exists already: nobody demonstrates anything
    at_full_speed = False  # delivers as fast as its items are taken, so whoever takes them must not drop any

    @abstractmethod
    def items(self) -> Iterator[Item]:
        """Blocks between items and ends after `close`. A lost device is a `CaptureError`."""

    @abstractmethod
    def close(self) -> None:
        """May be called from another thread, and twice."""

    def begin(self, start_s: float) -> None:
        """A clip starts to be recorded."""

    def rest(self) -> None:
        """The clip has ended."""

    @property
    def at_end(self) -> bool:
        """Whether a replayed clip has come to its end. A camera never does."""
        return False


class CameraDriver(Sensor[Shot]):
    """A camera that is open."""

    intrinsics: Intrinsics
    guessed_intrinsics = False  # the device knows none and the user gave none


RobotDriver = Sensor[RobotSample]
