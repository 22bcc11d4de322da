"""A product with a weight, whose gradient is deferred where a ledger is open (see `deferred_gradients`)."""

# R rows, M outputs, N inputs
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear as torch_linear

from egorecovery.acceleration.kernels.deferred_gradients import weight_gradient
from egorecovery.acceleration.kernels.dispatch import runs_fused


def linear(given: Float[Tensor, "*rows N"], weight_MN: Float[Tensor, "M N"]) -> Float[Tensor, "*rows M"]:
    """given x weight^T."""
    if torch.is_grad_enabled() and weight_MN.requires_grad and runs_fused(given, weight_MN):
        return _Linear.apply(given, weight_MN)
    return torch_linear(given, weight_MN)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Tensor, weight_MN: Tensor) -> Tensor:
        ctx.save_for_backward(given, weight_MN)
        return torch_linear(given, weight_MN)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, Tensor | None]:  # type: ignore[reportIncompatibleMethodOverride]  # torch types it *Any
        given, weight_MN = ctx.saved_tensors
        d_given = d_out @ weight_MN if ctx.needs_input_grad[0] else None
        return d_given, weight_gradient(weight_MN, d_out.flatten(0, -2), given.flatten(0, -2))
