"""The interface of cameras and robots for recording."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from jaxtyping import Float, UInt16
from numpy import ndarray

from egorecovery.episodes import Intrinsics


@dataclass(frozen=True, kw_only=True, eq=False)
class CameraFrame:
    """One picture from a camera."""

    captured_s: float  # capture time on this machine's monotonic clock
    jpeg: bytes
    depth_mm: UInt16[ndarray, "h w"] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class RobotSample:
    """One sample of a robot's log."""

    captured_s: float  # measurement time on this machine's monotonic clock
    state: Float[ndarray, "14"]
    action: Float[ndarray, "14"]
    effector_m: Float[ndarray, "2 3"]
    effector_state: Float[ndarray, "20"] | None = None  # in effector space, where known
    effector_action: Float[ndarray, "20"] | None = None


Item = TypeVar("Item", CameraFrame, RobotSample)


class Sensor(ABC, Generic[Item]):
    """A source of items between opening and closing."""

    described: str  # driver and device, for the operator and the recording's details
    rate_hz: float  # nominal; missing items are counted against it
    replayed = False  # plays an existing clip
    at_full_speed = False  # delivers as fast as items are taken, so that none may be dropped

    @abstractmethod
    def items(self) -> Iterator[Item]:
        """Items, with blocking waits, until `close`. A lost device raises `CaptureError`."""

    @abstractmethod
    def close(self) -> None:
        """Closes the device. May be called from another thread, and twice."""

    def begin(self, start_s: float) -> None:
        """Called when the recording of a clip starts."""

    def rest(self) -> None:
        """Called when the clip has ended."""

    @property
    def at_end(self) -> bool:
        """Whether a replayed clip has ended. Always False for a camera."""
        return False


class CameraDriver(Sensor[CameraFrame]):
    """An open camera."""

    intrinsics: Intrinsics
    guessed_intrinsics = False  # neither device nor user provided intrinsics


RobotDriver = Sensor[RobotSample]
