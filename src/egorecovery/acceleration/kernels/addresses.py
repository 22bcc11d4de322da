"""Tables of addresses, for kernels that work on many tensors in one launch.

A CUDA graph keeps every tensor where it was at capture, so a table that was written then stays right; its copy to the
device is part of the graph and reads host memory that must stay as it was.
"""

from collections.abc import Sequence
from typing import Any, no_type_check

import torch
from torch import Tensor

from egorecovery.acceleration.kernels.dispatch import jit, tl

FLUSHES = 2  # of a step, during its backward pass and at its end: as many tables may have the same shape


class Addresses:
    """Host memory of one step's tables. Pinned memory is taken before a capture, where nothing may be allocated."""

    def __init__(self) -> None:
        self._spare: list[Tensor] = []
        self._captured: list[Tensor] = []  # read at every replay

    def on_device(self, rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
        table = torch.tensor(rows, dtype=torch.int64)
        if device.type != "cuda":
            return table
        if not torch.cuda.is_current_stream_capturing():
            self._provide(table)
            return table.pin_memory().to(device, non_blocking=True)  # from other memory the host would wait
        pinned = self._take(table)
        self._captured.append(pinned)
        return torch.empty_like(table, device=device).copy_(pinned.copy_(table), non_blocking=True)

    def _provide(self, like: Tensor) -> None:
        """A warm-up run asks for the same tables as the capture that follows it."""
        if sum(spare.shape == like.shape for spare in self._spare) < FLUSHES:
            self._spare.append(torch.empty_like(like, pin_memory=True))

    def _take(self, like: Tensor) -> Tensor:
        buffer = next((spare for spare in self._spare if spare.shape == like.shape), None)
        assert buffer is not None, "a step was captured that was never run"
        self._spare = [spare for spare in self._spare if spare is not buffer]
        return buffer


def triton_dtype(dtype: torch.dtype) -> Any:
    return {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16, torch.float32: tl.float32}[dtype]


@jit
@no_type_check
def tensor_at(entry_ptr, DTYPE: tl.constexpr):
    """The tensor whose address stands in a table; tensors begin at multiples of 16 bytes."""
    address = tl.multiple_of(tl.load(entry_ptr), 16)
    return tl.multiple_of(address.to(tl.pointer_type(DTYPE)), 16)
