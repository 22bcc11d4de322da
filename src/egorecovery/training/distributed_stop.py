"""How several processes stop after the same step."""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from egorecovery.training.runtime import Runtime

ANSWERED_S = 0.5  # about how long a request to stop may wait until all processes know of it


class Agreement:
    """Asked after every step whether to stop; says the same in all processes.

    To find out, every process has to wait for its device and for the others. So they do it only once per `ANSWERED_S`,
    counted in steps, which they share, unlike clocks.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._interval = self._steps_left = 1
        self._since_s = time.monotonic()

    def stopping(self, asked: Callable[[], bool]) -> bool:
        """Whether all are to stop after this step; `asked` says whether this process was asked to."""
        if self._runtime.ranks == 1:
            return asked()
        self._steps_left -= 1
        if self._steps_left:
            return False
        if self._runtime.device.type == "cuda":
            torch.cuda.synchronize(self._runtime.device)  # or the time would be that of queueing steps
        # The largest of both: any process's request, and the time of the slowest.
        largest = torch.tensor([float(asked()), time.monotonic() - self._since_s], device=self._runtime.device)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        stopping, took_s = largest.tolist()
        self._since_s = time.monotonic()
        self._interval = self._steps_left = next_interval(self._interval, took_s)
        return bool(stopping)


def next_interval(steps: int, took_s: float) -> int:
    """How many steps fit into `ANSWERED_S` if so many took so long; at most doubled, as these may have been quick."""
    return max(1, int(min(2 * steps, steps * ANSWERED_S / max(took_s, 1e-6))))
