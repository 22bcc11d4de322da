"""The shared trunk: pre-norm transformer blocks over action tokens and observation tokens."""

# B batch, N tokens, D width

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from egorecovery.policy.attention import Mlp, Norm, SelfAttention
from egorecovery.policy.config import PolicyConfig


class Block(nn.Module):
    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.attention_norm = Norm(config.width)
        self.attention = SelfAttention(config.width, config.heads)
        self.mlp_norm = Norm(config.width)
        self.mlp = Mlp(config.width, config.mlp_ratio)


class Trunk(nn.Module):
    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.blocks))
        self.final_norm = Norm(config.width)

    def forward(self, stream_BND: Tensor, keep_RB: Tensor | None, wanted: int | None = None) -> Tensor:
        """`keep_RB`: drop-path factors, one row per residual branch (two a block); None keeps all.

        Each sum of stream and branch is left to the norm that follows it, which saves a pass over memory. Where only
        the first `wanted` tokens are, the last block computes no others but for their queries, which one product gives
        with keys and values.
        """
        blocks = cast("Sequence[Block]", self.blocks)
        kept = [None] * (2 * len(blocks)) if keep_RB is None else list(keep_RB.unbind())
        normed_BND = blocks[0].attention_norm(stream_BND)
        for index, block in enumerate(blocks):
            following = blocks[index + 1].attention_norm if index + 1 < len(blocks) else self.final_norm
            readers = wanted if following is self.final_norm else None
            attended_BND = block.attention(normed_BND, readers)
            if readers is not None:
                stream_BND = stream_BND[:, :readers]
            stream_BND, normed_BND = block.mlp_norm.after(stream_BND, attended_BND, kept[2 * index])
            stream_BND, normed_BND = following.after(stream_BND, block.mlp(normed_BND), kept[2 * index + 1])
        return normed_BND
