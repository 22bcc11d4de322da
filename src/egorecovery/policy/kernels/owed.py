"""Gradients of weights, owed until all of them can be paid at once.

Nobody reads a weight's gradient before the backward pass is over. One by one these sums are some 500 launches, each
too small for a large GPU. While an account is open, backward passes only note what a gradient is made of and give
None; in the end one launch does the matrix products of all of them, another the sums of all norms, straight into the
places where the optimiser wants them.
"""

# R rows = samples x tokens, M x N a weight, P partial sums, D width

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor

from egorecovery.policy.kernels.addresses import Addresses
from egorecovery.policy.kernels.norm_totals import many_totals, takes_sums, totals
from egorecovery.policy.kernels.weight_gradients import takes_product, weight_gradients


@dataclass(eq=False)
class Account:
    """`places` says where gradients are wanted, by the weight's id; without a place a gradient is computed at once."""

    places: Mapping[int, Tensor]
    addresses: Addresses = field(default_factory=Addresses)
    _products: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)  # weight, d_out_RM, given_RN
    _sums: dict[int, tuple[Tensor, Tensor, Tensor]] = field(default_factory=dict)  # partial_P2D, two weights
    _streams: set[torch.cuda.Stream] = field(default_factory=set)  # on which the parts were made
    _paid: dict[int, Tensor] = field(default_factory=dict)
    _beside: torch.cuda.Stream | None = None

    def owe_product(self, weight_MN: Tensor, d_out_RM: Tensor, given_RN: Tensor) -> bool:
        """False where the caller must compute it: this weight is not taken, or has a gradient already."""
        if not (self._has_room_for(weight_MN) and takes_product(weight_MN, d_out_RM, given_RN)):
            return False
        self._products[id(weight_MN)] = weight_MN, d_out_RM, given_RN
        self._made_here(d_out_RM)
        return True

    def owe_sums(self, first_D: Tensor, second_D: Tensor, partial_P2D: Tensor) -> bool:
        room = self._has_room_for(first_D) and self._has_room_for(second_D)
        if not (room and takes_sums(first_D, second_D, partial_P2D)):
            return False
        self._sums[id(first_D)] = partial_P2D, first_D, second_D
        self._made_here(partial_P2D)
        return True

    def pay_beside(self) -> None:
        """What is owed by now, on a stream of its own: it need not hold up what the backward pass still has to do."""
        with self._on_a_stream_beside():
            self._pay_products()
            self._pay_sums()

    def pay(self) -> None:
        """All the rest, products beside sums; this stream then waits for all that was ever paid beside it."""
        with self._on_a_stream_beside():
            self._pay_products()
        self._pay_sums()
        if self._beside is not None and self._streams:
            torch.cuda.current_stream(self._beside.device).wait_stream(self._beside)
        for weight in self._paid.values():
            place = self.places[id(weight)]
            weight.grad = place if weight.grad is None else place.add_(weight.grad)  # the latter of a second use

    def forget(self) -> None:
        """The next pass starts with nothing owed, also when this one failed."""
        self._products, self._sums, self._paid, self._streams = {}, {}, {}, set()

    def _on_a_stream_beside(self) -> AbstractContextManager[object]:
        if not self._streams:
            return nullcontext()
        if self._beside is None:
            self._beside = torch.cuda.Stream(next(iter(self._streams)).device)
        self._beside.wait_stream(torch.cuda.current_stream(self._beside.device))  # a capture must know it, if only so
        return torch.cuda.stream(self._beside)

    def _pay_products(self) -> None:
        products, self._products = list(self._products.values()), {}
        self._wait_for([part for _, *parts in products for part in parts])
        placed = [(d_out, given, self.places[id(weight)]) for weight, d_out, given in products]
        weight_gradients(placed, self.addresses)
        self._paid |= {id(weight): weight for weight, *_ in products}

    def _pay_sums(self) -> None:
        sums, self._sums = list(self._sums.values()), {}
        self._wait_for([partial for partial, *_ in sums])
        many_totals([(partial, self.places[id(a)], self.places[id(b)]) for partial, a, b in sums], self.addresses)
        self._paid |= {id(weight): weight for _, *pair in sums for weight in pair}

    def _wait_for(self, parts: list[Tensor]) -> None:
        for stream in self._streams:
            torch.cuda.current_stream(stream.device).wait_stream(stream)
        for part in parts:
            if part.is_cuda:  # it may be another stream's memory, which must not be given away under us
                part.record_stream(torch.cuda.current_stream(part.device))

    def _has_room_for(self, weight: Tensor) -> bool:
        """A place that holds nothing yet: neither of another use in this pass nor of a pass before it."""
        taken = any(id(weight) in each for each in (self._products, self._sums, self._paid))
        return id(weight) in self.places and weight.grad is None and not taken

    def _made_here(self, tensor: Tensor) -> None:
        if tensor.is_cuda:
            self._streams.add(torch.cuda.current_stream(tensor.device))


_open: list[Account] = []  # global: autograd calls backward passes from a thread of its own


@contextmanager
def gradients_owed(account: Account) -> Iterator[None]:
    """Inside, backward passes note weight gradients; what is owed at the end is paid there."""
    _open.append(account)
    try:
        yield
        account.pay()
    finally:
        _open.remove(account)
        account.forget()


def pay_when_reached(tensor: Tensor) -> None:
    """Once a backward pass knows the gradient of `tensor`, what is owed by then is paid beside the rest of it."""
    if tensor.requires_grad and tensor.is_cuda:
        tensor.register_hook(lambda _: _open[-1].pay_beside() if _open else None)


def weight_gradient(weight_MN: Tensor, d_out_RM: Tensor, given_RN: Tensor) -> Tensor | None:
    """d_out^T x given, or None where it is owed."""
    if _open and _open[-1].owe_product(weight_MN, d_out_RM, given_RN):
        return None
    return d_out_RM.t() @ given_RN


def norm_gradients(first_D: Tensor, second_D: Tensor, partial_P2D: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Both sums of a norm's partial ones, in the dtypes of the weights they are gradients of, or None where owed."""
    if _open and _open[-1].owe_sums(first_D, second_D, partial_P2D):
        return None, None
    return totals(partial_P2D, first_D.dtype, second_D.dtype)
