"""From the trunk's action tokens to a chunk of actions: an embodiment's decoder, the modulation, the projection.

This is where another kind of decoder belongs, such as one that takes noise away step by step. It would be a module
with the same `forward` (which may call its network, and `modulate`, many times), the noise of its training drawn by
`training.batch_sampler` like all other chance, and its own imitation term in `objective`.
"""

# B batch, N action tokens, D width, H horizon, A action dimensions

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from egorecovery.policy.config import PolicyConfig
from egorecovery.policy.decoder import Decoder


class ActionProjection(nn.Linear):
    """In float32 whatever the network computes in: bfloat16 would round joint targets to a milliradian or two."""

    def forward(self, input: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows A"]:
        exact = torch.promote_types(input.dtype, torch.float32)
        return nn.functional.linear(input.to(exact), self.weight.to(exact), self.bias.to(exact))


class ActionHead(nn.Module):
    """Regresses the whole chunk at once; the projection is W_r of Eq. 2."""

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.decoder = Decoder(config)
        self.projection = ActionProjection(config.width, config.output_dim)

    def forward(self, tokens_BND: Tensor, modulate: Callable[[Tensor], Tensor]) -> Tensor:
        """`modulate` is Eq. 2 on the decoder's feature H, or the identity."""
        return self.projection(modulate(self.decoder(tokens_BND)))
