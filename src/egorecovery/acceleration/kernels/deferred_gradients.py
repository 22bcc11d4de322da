"""Weight gradients, deferred until all of them can be computed in one launch.

Nobody reads a weight's gradient before the backward pass is over. One by one these sums are some 500 launches, each
too small for a large GPU. While a ledger is open, backward passes only note what a gradient is made of and return
None. A flush does the matrix products of all noted gradients in one launch and the sums of all norms in another, and
writes them straight to where the optimiser wants them.
"""

# R rows = samples x tokens, M x N a weight, P partial sums, D width

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor

from egorecovery.acceleration.kernels.addresses import Addresses
from egorecovery.acceleration.kernels.norm_totals import many_totals, takes_sums, totals
from egorecovery.acceleration.kernels.weight_gradients import takes_product, weight_gradients


@dataclass(eq=False)
class Ledger:
    """The gradients that are deferred now.

    `destinations` says where gradients are wanted, by the weight's id; without one a gradient is computed at once.
    """

    destinations: Mapping[int, Tensor]
    addresses: Addresses = field(default_factory=Addresses)
    _products: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)  # weight, d_out_RM, given_RN
    _sums: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)  # partial_P2D, two weights
    _streams: set[torch.cuda.Stream] = field(default_factory=set)  # on which the parts were made
    _flushed: dict[int, Tensor] = field(default_factory=dict)
    _stream: torch.cuda.Stream | None = None

    def defer_product(self, weight_MN: Tensor, d_out_RM: Tensor, given_RN: Tensor) -> bool:
        """False where the caller must compute it: this weight is not taken, or has a gradient already."""
        if not (self._has_room_for(weight_MN) and takes_product(weight_MN, d_out_RM, given_RN)):
            return False
        self._products[id(weight_MN)] = weight_MN, d_out_RM, given_RN
        self._note_stream(d_out_RM)
        return True

    def defer_sums(self, first_D: Tensor, second_D: Tensor, partial_P2D: Tensor) -> bool:
        room = self._has_room_for(first_D) and self._has_room_for(second_D)
        if not (room and takes_sums(first_D, second_D, partial_P2D)):
            return False
        self._sums[id(first_D)] = partial_P2D, first_D, second_D
        self._note_stream(partial_P2D)
        return True

    def flush_async(self) -> None:
        """Flushes on a stream of its own: it need not hold up what the backward pass still has to do."""
        with self._on_own_stream():
            self._flush_products()
            self._flush_sums()

    def flush(self) -> None:
        """Flushes the rest, products concurrently with sums; this stream then waits for every asynchronous flush."""
        with self._on_own_stream():
            self._flush_products()
        self._flush_sums()
        if self._stream is not None and self._streams:
            torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)
        for weight in self._flushed.values():
            own = self.destinations[id(weight)]
            weight.grad = own if weight.grad is None else own.add_(weight.grad)  # the latter of a second use

    def clear(self) -> None:
        """The next pass starts with an empty ledger, also when this one failed."""
        self._products, self._sums, self._flushed, self._streams = {}, {}, {}, set()

    def _on_own_stream(self) -> AbstractContextManager[object]:
        if not self._streams:
            return nullcontext()
        if self._stream is None:
            self._stream = torch.cuda.Stream(next(iter(self._streams)).device)
        self._stream.wait_stream(torch.cuda.current_stream(self._stream.device))  # a capture must know it, if only so
        return torch.cuda.stream(self._stream)

    def _flush_products(self) -> None:
        products, self._products = list(self._products.values()), {}
        self._wait_for([part for _, *parts in products for part in parts])
        wanted = [(d_out, given, self.destinations[id(weight)]) for weight, d_out, given in products]
        weight_gradients(wanted, self.addresses)
        self._flushed |= {id(weight): weight for weight, *_ in products}

    def _flush_sums(self) -> None:
        sums, self._sums = list(self._sums.values()), {}
        self._wait_for([partial for partial, *_ in sums])
        many_totals(
            [(partial, self.destinations[id(a)], self.destinations[id(b)]) for partial, a, b in sums], self.addresses
        )
        self._flushed |= {id(weight): weight for _, *pair in sums for weight in pair}

    def _wait_for(self, parts: list[Tensor]) -> None:
        for stream in self._streams:
            torch.cuda.current_stream(stream.device).wait_stream(stream)
        for part in parts:
            if part.is_cuda:  # it may be another stream's memory, which must not be given away under us
                part.record_stream(torch.cuda.current_stream(part.device))

    def _has_room_for(self, weight: Tensor) -> bool:
        """A destination that holds nothing yet: neither of another use in this pass nor of a pass before it."""
        taken = any(id(weight) in deferred for deferred in (self._products, self._sums, self._flushed))
        return id(weight) in self.destinations and weight.grad is None and not taken

    def _note_stream(self, of: Tensor) -> None:
        if of.is_cuda:
            self._streams.add(torch.cuda.current_stream(of.device))


_open: list[Ledger] = []  # global: autograd calls backward passes from a thread of its own


@contextmanager
def deferring(ledger: Ledger) -> Iterator[None]:
    """Inside, backward passes defer weight gradients; the end flushes them."""
    _open.append(ledger)
    try:
        yield
        ledger.flush()
    finally:
        _open.remove(ledger)
        ledger.clear()


def flush_when_reached(tensor: Tensor) -> None:
    """Once a backward pass knows the gradient of `tensor`, what is deferred by then is flushed concurrently."""
    if tensor.requires_grad and tensor.is_cuda:
        tensor.register_hook(lambda _: _open[-1].flush_async() if _open else None)


def weight_gradient(weight_MN: Tensor, d_out_RM: Tensor, given_RN: Tensor) -> Tensor | None:
    """d_out^T x given, or None where it is deferred."""
    if _open and _open[-1].defer_product(weight_MN, d_out_RM, given_RN):
        return None
    return d_out_RM.t() @ given_RN


def norm_gradients(first_D: Tensor, second_D: Tensor, partial_P2D: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Both sums of a norm's partial ones, in the dtypes of their weights, or None where deferred."""
    if _open and _open[-1].defer_sums(first_D, second_D, partial_P2D):
        return None, None
    return totals(partial_P2D, first_D.dtype, second_D.dtype)
