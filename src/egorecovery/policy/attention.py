"""The pieces that trunk, stems and decoders are made of. Linear maps inside blocks carry no bias: the layer norm
in front of each has a shift of its own, and bias gradients are a pass over memory each."""

# B batch, N tokens, M queries, D width, H hidden width of an MLP (with attention: heads, each of W numbers)

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-5  # added to a variance


def layer_norm(
    stream: Float[Tensor, "*rows D"], weight_D: Float[Tensor, " D"], bias_D: Float[Tensor, " D"]
) -> Float[Tensor, "*rows D"]:
    """Layer norm over the last axis, in the input's dtype; sums in float32."""
    exact = torch.promote_types(stream.dtype, torch.float32)
    normed = functional.layer_norm(stream.to(exact), weight_D.shape, weight_D.to(exact), bias_D.to(exact), EPSILON)
    return normed.to(stream.dtype)


def add_layer_norm(
    stream_BND: Float[Tensor, "B N D"],
    branch_BND: Float[Tensor, "B N D"],
    keep_B: Float[Tensor, " B"] | None,
    weight_D: Float[Tensor, " D"],
    bias_D: Float[Tensor, " D"],
) -> tuple[Float[Tensor, "B N D"], Float[Tensor, "B N D"]]:
    """The stream after a residual branch, and its norm for the next branch.

    `keep_B` is the drop-path factor of each sample (0 or 1/(1-p)); it gets no gradient. The stream keeps its dtype
    and the norm takes the branch's, so a float32 stream may run between bfloat16 branches.
    """
    exact = torch.promote_types(stream_BND.dtype, torch.float32)
    kept_BND = branch_BND.to(exact)
    if keep_B is not None:
        kept_BND = keep_B.detach().to(exact)[:, None, None] * kept_BND
    added_BND = (stream_BND.to(exact) + kept_BND).to(stream_BND.dtype)
    return added_BND, layer_norm(added_BND, weight_D, bias_D).to(branch_BND.dtype)


def attention(
    query_BMD: Float[Tensor, "B M D"], key_BND: Float[Tensor, "B N D"], value_BND: Float[Tensor, "B N D"], heads: int
) -> Float[Tensor, "B M D"]:
    """Multi-head attention; the heads lie side by side in the last axis."""

    def per_head(tokens_BND: Tensor) -> Tensor:
        return tokens_BND.unflatten(-1, (heads, -1)).transpose(1, 2)

    query_BHMW, key_BHNW, value_BHNW = per_head(query_BMD), per_head(key_BND), per_head(value_BND)
    if query_BMD.requires_grad and query_BMD.device.type == "cpu" and query_BMD.dtype == torch.float32:
        # So few tokens fit in a cache: backward through torch's fused attention for CPUs takes twice as long.
        scores_BHMN = (query_BHMW * query_BHMW.shape[-1] ** -0.5) @ key_BHNW.transpose(-1, -2)
        out_BHMW = scores_BHMN.softmax(dim=-1) @ value_BHNW
    else:
        out_BHMW = functional.scaled_dot_product_attention(query_BHMW, key_BHNW, value_BHNW)
    return out_BHMW.transpose(1, 2).flatten(-2)


def mlp(
    tokens: Float[Tensor, "*rows D"], rise_HD: Float[Tensor, "H D"], fall_DH: Float[Tensor, "D H"]
) -> Float[Tensor, "*rows D"]:
    """Up to the hidden width, GELU in its tanh form, and down again."""
    return functional.linear(functional.gelu(functional.linear(tokens, rise_HD), approximate="tanh"), fall_DH)


class Norm(nn.Module):
    """Layer norm, alone or after a residual sum."""

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
    """Without a bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = Linear(width, 3 * width)
        self.out = Linear(width, width)

    def forward(self, tokens_BND: Tensor, readers: int | None = None) -> Tensor:
        """Every token reads all of them, or only the first `readers` do."""
        query_BND, key_BND, value_BND = self.qkv(tokens_BND).chunk(3, dim=-1)
        return self.out(attention(query_BND[:, :readers], key_BND, value_BND, self.heads))


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
        key_BND, value_BND = kv_BN2D.chunk(2, dim=-1)
        return self.out(attention(query_BMD, key_BND, value_BND, self.heads))


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
