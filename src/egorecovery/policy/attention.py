"""The pieces that trunk, stems and decoders are made of. Linear maps inside blocks carry no bias: the layer norm
in front of each has a shift of its own, and bias gradients are a pass over memory each."""

# B batch, N tokens, M queries, D width

import torch
from torch import Tensor, nn

from egorecovery.policy.kernels import add_layer_norm, cross_attention, layer_norm, mlp, self_attention


class Norm(nn.Module):
    """Layer norm, alone or fused with the residual sum in front of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, stream_BND: Tensor) -> Tensor:
        return layer_norm(stream_BND, self.weight, self.bias)

    def after(self, stream_BND: Tensor, branch_BND: Tensor, keep_B: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The stream with the branch added (per sample times `keep_B`), and that normalised."""
        return add_layer_norm(stream_BND, branch_BND, keep_B, self.weight, self.bias)


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, tokens_BND: Tensor) -> Tensor:
        return self.out(self_attention(self.qkv(tokens_BND), self.heads))


class CrossAttention(nn.Module):
    """Queries read a context whose keys and values the caller has projected: side by side, 2D wide."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, query_BMD: Tensor, kv_BN2D: Tensor) -> Tensor:
        return self.out(cross_attention(self.q(query_BMD), kv_BN2D, self.heads))


class Mlp(nn.Module):
    def __init__(self, width: int, ratio: int) -> None:
        super().__init__()
        self.rise = nn.Linear(width, ratio * width, bias=False)
        self.fall = nn.Linear(ratio * width, width, bias=False)

    def forward(self, tokens_BND: Tensor) -> Tensor:
        return mlp(tokens_BND, self.rise.weight, self.fall.weight)


class LearnedTokens(nn.Module):
    """Learned vectors, the same for every sample."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.tokens_ND = nn.Parameter(torch.randn(count, width) * 0.02)

    def forward(self, batch: int) -> Tensor:
        return self.tokens_ND.expand(batch, -1, -1)
