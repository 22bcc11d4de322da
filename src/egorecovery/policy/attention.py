"""The pieces that trunk, stems and decoders are made of. Linear maps inside blocks carry no bias: the layer norm
in front of each has a shift of its own, and bias gradients are a pass over memory each."""

# B batch, N tokens, M queries, D width

import torch
from torch import Tensor, nn

from egorecovery.policy.kernels import add_layer_norm, cross_attention, layer_norm, linear, mlp, self_attention


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


class Linear(nn.Linear):
    """Without a bias; on a GPU its weight's gradient may be computed with all others at the end of a backward pass."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight)


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = Linear(width, 3 * width)
        self.out = Linear(width, width)

    def forward(self, tokens_BND: Tensor, readers: int | None = None) -> Tensor:
        """Every token reads all of them, or only the first `readers` do."""
        return self.out(self_attention(self.qkv(tokens_BND), self.heads, readers))


class CrossAttention(nn.Module):
    """Queries read a context whose keys and values the caller has projected: side by side, 2D wide.

    Queries that are the same for every sample may come once, as a batch of one.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = Linear(width, width)
        self.out = Linear(width, width)

    def forward(self, query_BMD: Tensor, kv_BN2D: Tensor) -> Tensor:
        query_BMD = self.q(query_BMD).expand(kv_BN2D.shape[0], -1, -1)
        return self.out(cross_attention(query_BMD, kv_BN2D, self.heads))


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

    def forward(self, batch: int = 1) -> Tensor:
        return self.tokens_ND.expand(batch, -1, -1)
