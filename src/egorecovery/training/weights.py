"""Weights in two precisions: float32 for the optimiser, bfloat16 for the arithmetic.

Casting every weight once a step, all in one call, replaces autocast's hundreds of small casts, and gradients arrive
in the precision that the matrix units write.
"""

import copy

import torch
from torch import Tensor

from egorecovery.policy.policy import Policy


class Weights:
    """`master` is what is optimised, averaged, scored and saved; `working` is what computes."""

    def __init__(self, master: Policy, precision: torch.dtype, average_decay: float | None) -> None:
        self.master = master
        self.working = master if precision == torch.float32 else copy.deepcopy(master).to(precision)
        self._working = [weight for weight in self.working.parameters() if weight.requires_grad]
        self.trained = [weight for weight in master.parameters() if weight.requires_grad]
        self._decay = average_decay
        self.average = None if average_decay is None else [weight.detach().clone() for weight in self.trained]

    @property
    def shared(self) -> bool:
        return self.working is self.master

    def collect_gradients(self) -> list[Tensor]:
        """The step's gradients in float32, in the order of `trained`."""
        found = [weight.grad for weight in self._working]
        assert all(gradient is not None for gradient in found), "a trained weight took no part in the step"
        gradients = [gradient for gradient in found if gradient is not None]
        if self.shared:
            return gradients
        for weight, gradient in zip(self.trained, gradients, strict=True):
            if weight.grad is None:
                weight.grad = torch.empty_like(weight)
        own = [weight.grad for weight in self.trained if weight.grad is not None]
        torch._foreach_copy_(own, gradients)
        return own

    def drop_gradients(self) -> None:
        for weight in self._working:
            weight.grad = None

    @torch.no_grad()
    def publish(self) -> None:
        """After an update: the working copy and the average follow the master."""
        self.follow()
        if self.average is not None and self._decay is not None:
            torch._foreach_lerp_(self.average, self.trained, 1 - self._decay)

    @torch.no_grad()
    def follow(self) -> None:
        if not self.shared:
            torch._foreach_copy_(self._working, self.trained)

    @torch.no_grad()
    def averaged(self) -> Policy:
        """The policy to score and to ship: the average where one is kept, otherwise the weights themselves."""
        if self.average is None:
            return self.master
        policy = copy.deepcopy(self.master)
        for weight, value in zip((w for w in policy.parameters() if w.requires_grad), self.average, strict=True):
            weight.copy_(value)
        return policy
