"""Parts of a network that do not wait for each other, at the same time on a GPU.

One view's convolutions or one decoder's products fill only a part of a large GPU. On streams of their own the parts
share it, forward and, because autograd runs each operation on the stream of its forward, backward too.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_streams: dict[tuple[torch.device, int], torch.cuda.Stream] = {}


def side_by_side(parts: Sequence[Callable[[], Tensor]], needs: Tensor) -> list[Tensor]:
    """The results of all parts. `needs` is the input they share, which must not be freed under them."""
    if not needs.is_cuda or len(parts) < 2:
        return [part() for part in parts]
    here = torch.cuda.current_stream(needs.device)
    results: list[Tensor] = []
    for index, part in enumerate(parts[1:]):
        side = _stream(needs.device, index)
        side.wait_stream(here)
        needs.record_stream(side)
        with torch.cuda.stream(side):
            results.append(part())
    results.insert(0, parts[0]())
    for index, result in enumerate(results[1:]):
        here.wait_stream(_stream(needs.device, index))
        result.record_stream(here)
    return results


def _stream(device: torch.device, index: int) -> torch.cuda.Stream:
    """Streams are few and kept: a graph remembers those it was captured on."""
    if (device, index) not in _streams:
        _streams[device, index] = torch.cuda.Stream(device)
    return _streams[device, index]
