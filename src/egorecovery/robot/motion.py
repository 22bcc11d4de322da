"""A record of the wanted, commanded and measured joints of every control cycle."""

# T control cycles, J joints

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from egorecovery.errors import RobotError
from egorecovery.robot.guard import Cycle
from egorecovery.robot.robot import Joints, Measurement
from egorecovery.storage.atomic_io import write_file
from egorecovery.storage.bounded_npz import read_npz

MOST_CYCLES = 200_000  # an hour at 50 Hz, about 70 MB; a longer run keeps the last ones

OnCycle = Callable[[float, Measurement, Joints | None, Cycle], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedMotion:
    """The cycles of one run. In shadow mode `commanded` holds what would have been sent."""

    names: tuple[str, ...]
    rate_hz: float  # of the robot: limits are per control cycle, however long the cycles took
    time_s: NDArray[np.float64]  # (T,), the robot's monotonic clock
    phase: np.ndarray  # (T,), text
    wanted: NDArray[np.float64]  # (T, J), the policy's action; NaN where there was none
    commanded: NDArray[np.float64]  # inside the limits; NaN where nothing was sent
    measured: NDArray[np.float64]  # before the command of the same cycle


class MotionRecorder:
    """Records every control cycle. Arrays are made only when the motion is requested."""

    def __init__(self, names: tuple[str, ...], rate_hz: float) -> None:
        self._names, self._rate_hz = names, rate_hz
        self._cycles: deque[tuple[float, str, Joints | None, Joints | None, Joints]] = deque(maxlen=MOST_CYCLES)

    def __call__(self, now_s: float, measured: Measurement, wanted: Joints | None, cycle: Cycle) -> None:
        self._cycles.append((now_s, str(cycle.phase), wanted, cycle.command, measured.joints))

    @property
    def motion(self) -> RecordedMotion:
        unknown = np.full(len(self._names), np.nan)
        time_s, phase, wanted, commanded, measured = zip(*self._cycles, strict=True) if self._cycles else ([],) * 5
        wide = (len(time_s), len(self._names))
        return RecordedMotion(
            names=self._names,
            rate_hz=self._rate_hz,
            time_s=np.array(time_s, float),
            phase=np.array(phase, str),
            wanted=np.array([unknown if joints is None else joints for joints in wanted], float).reshape(wide),
            commanded=np.array([unknown if joints is None else joints for joints in commanded], float).reshape(wide),
            measured=np.array([_row(joints, unknown) for joints in measured], float).reshape(wide),
        )


def _row(measured: Joints, unknown: Joints) -> Joints:
    """Measured joints, NaN if a faulty driver returned another length."""
    return measured if np.shape(measured) == unknown.shape else unknown


def write_motion(motion: RecordedMotion, path: Path) -> None:
    """One .npz file of the fields of `RecordedMotion`."""
    packed = BytesIO()
    np.savez_compressed(
        packed,
        allow_pickle=False,
        **{**vars(motion), "names": np.array(motion.names, str), "rate_hz": np.float64(motion.rate_hz)},
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, packed.getvalue())
    except OSError as error:
        raise RobotError(f"{path}: the motion cannot be written: {error.strerror}") from None


def read_motion(path: Path) -> RecordedMotion:
    """Reads a file that a user named. Only what `write_motion` writes is accepted."""
    arrays = read_npz(Path(os.path.realpath(path)), RobotError)
    if arrays.keys() != RecordedMotion.__dataclass_fields__.keys():
        raise RobotError(f"{path}: is no motion that 'control --record' wrote (it holds {', '.join(arrays)})")
    cycles, joints = arrays["time_s"].shape[:1], arrays["names"].shape[:1]
    for name, kind, shape in (
        ("names", "U", joints),
        ("time_s", "f", cycles),
        ("phase", "U", cycles),
        ("rate_hz", "f", ()),
        *((name, "f", cycles + joints) for name in ("wanted", "commanded", "measured")),
    ):
        if arrays[name].dtype.kind != kind or arrays[name].shape != shape:
            raise RobotError(f"{path}: {name} is {arrays[name].dtype} of shape {arrays[name].shape}, wanted {shape}")
    names = tuple(str(name) for name in arrays["names"])
    return RecordedMotion(**{**arrays, "names": names, "rate_hz": float(arrays["rate_hz"])})
