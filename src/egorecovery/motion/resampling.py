"""From each sensor's own clock to the common 25 Hz grid."""

import numpy as np
from jaxtyping import Float, Float64, Int
from numpy import ndarray
from scipy.spatial.transform import Rotation, Slerp

from egorecovery.errors import MotionError


def common_grid(clocks_s: list[ndarray], rate_hz: float) -> Float64[ndarray, " T"]:
    """Grid times during which every stream is running."""
    start_s = max(float(clock[0]) for clock in clocks_s)
    stop_s = min(float(clock[-1]) for clock in clocks_s)
    if stop_s < start_s:
        raise MotionError(f"the streams do not overlap: the last starts at {start_s:.3f} s, one ends at {stop_s:.3f} s")
    frames = int(np.floor((stop_s - start_s) * rate_hz + 1e-6)) + 1
    return start_s + np.arange(frames) / rate_hz


def resample_linear(
    times_s: Float[ndarray, " N"], values: Float[ndarray, " N *rest"], grid_s: Float[ndarray, " T"]
) -> Float[ndarray, " T *rest"]:
    """Continuous channels. Grid times outside the recording hold its end values."""
    flat = values.reshape(len(values), -1)
    columns = [np.interp(grid_s, times_s, channel) for channel in flat.T]
    return np.stack(columns, axis=1).reshape(len(grid_s), *values.shape[1:])


def resample_rotations(
    times_s: Float[ndarray, " N"], quaternions: Float[ndarray, "N 4"], grid_s: Float[ndarray, " T"]
) -> Float[ndarray, "T 4"]:
    """Along the shortest arc between neighbours, so the result never passes through the wrong side of +-pi.

    Quaternions are x y z w, as scipy has them. Grid times outside the recording hold its end orientations.
    """
    if len(times_s) == 1:
        return np.repeat(quaternions, len(grid_s), axis=0)
    return Slerp(times_s, Rotation.from_quat(quaternions))(np.clip(grid_s, times_s[0], times_s[-1])).as_quat()


def nearest(times_s: Float[ndarray, " N"], grid_s: Float[ndarray, " T"]) -> Int[ndarray, " T"]:
    """The sample nearest to each grid time; of two equally near, the earlier."""
    after = np.clip(np.searchsorted(times_s, grid_s), 1, max(len(times_s) - 1, 1))
    if len(times_s) == 1:
        return np.zeros(len(grid_s), np.int64)
    before = after - 1
    return np.where(grid_s - times_s[before] <= times_s[after] - grid_s, before, after)
