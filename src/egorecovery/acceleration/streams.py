"""Concurrent CUDA streams, for work that need not wait for other work.

One view's convolutions or one decoder's products fill only a part of a large GPU. On streams of their own the parts
share it, forward and, because autograd runs each operation on the stream of its forward, backward too.
"""

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")
HIGH_PRIORITY = -1  # of streams that a step waits for: deferred weight gradients take what these leave

_streams: dict[tuple[torch.device, int | str], torch.cuda.Stream] = {}


def run_concurrently(parts: Sequence[Callable[[], Result]], *inputs: Tensor) -> list[Result]:
    """The results of all parts. `inputs` are the tensors they share, which must not be freed under them."""
    if not inputs[0].is_cuda or len(parts) < 2:
        return [part() for part in parts]
    device = inputs[0].device
    here = torch.cuda.current_stream(device)
    results: list[Result] = []
    for index, part in enumerate(parts[1:]):
        side = _stream(device, index)
        side.wait_stream(here)
        for shared in inputs:
            shared.record_stream(side)
        with torch.cuda.stream(side):
            results.append(part())
    results.insert(0, parts[0]())
    for index, result in enumerate(results[1:]):
        _join(here, _stream(device, index), result)
    return results


def launch_async(purpose: str, device: torch.device, work: Callable[..., Result], *given: Any) -> Callable[[], Result]:
    """Starts `work(*given)`, which nobody waits for yet; returns what waits for it, and must be called.

    Until then nothing that the work reads may be changed, and nothing that it changes may be read. What it is given
    is held that long, so it is not freed under it. Each purpose has a stream of its own, which is neither a view's
    nor a decoder's. Elsewhere than on a GPU the work is done at once.
    """
    if device.type != "cuda":
        done = work(*given)
        return lambda: done
    side = _stream(device, purpose)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        result = work(*given)
    held = [given]

    def joined() -> Result:
        _join(torch.cuda.current_stream(device), side, result)
        held.clear()
        return result

    return joined


def tensors_in(result: Any) -> list[Tensor]:
    """Those of a tensor, a tuple, a dict or a dataclass; none of None."""
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, dict):
        parts = result.values()
    elif is_dataclass(result):
        parts = vars(result).values()
    else:
        assert result is None or isinstance(result, tuple), f"no way to find tensors in a {type(result)}"
        parts = result or ()
    return [tensor for part in parts for tensor in tensors_in(part)]


def _join(here: torch.cuda.Stream, side: torch.cuda.Stream, result: Any) -> None:
    here.wait_stream(side)
    for tensor in tensors_in(result):
        tensor.record_stream(here)  # it is the side's memory, which must not be given away under us


def _stream(device: torch.device, purpose: int | str) -> torch.cuda.Stream:
    """Streams are few and kept: a graph remembers those it was captured on."""
    if (device, purpose) not in _streams:
        _streams[device, purpose] = torch.cuda.Stream(device, priority=HIGH_PRIORITY)
    return _streams[device, purpose]
