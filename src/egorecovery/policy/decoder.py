"""An embodiment's decoder: learned queries, one per step of the chunk, read the trunk's action tokens."""

# B batch, H horizon, N action tokens, D width

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from egorecovery.policy.attention import CrossAttention, LearnedTokens, Linear, Mlp, Norm, SelfAttention
from egorecovery.policy.config import PolicyConfig


class DecoderLayer(nn.Module):
    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.self_norm = Norm(config.width)
        self.self_attention = SelfAttention(config.width, config.heads)
        self.cross_norm = Norm(config.width)
        self.cross_attention = CrossAttention(config.width, config.heads)
        self.mlp_norm = Norm(config.width)
        self.mlp = Mlp(config.width, config.mlp_ratio)


class Decoder(nn.Module):
    """Gives the feature H of Eq. 2; the projection to actions is the caller's, after the modulation."""

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.queries = LearnedTokens(config.horizon, config.width)
        # Every layer reads the same tokens: one product gives the keys and values of all of them.
        self.kv = Linear(config.width, config.decoder_layers * 2 * config.width)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.final_norm = Norm(config.width)

    def forward(self, tokens_BND: Tensor) -> Tensor:
        layers = cast("Sequence[DecoderLayer]", self.layers)
        stream_BHD = self.queries()  # once: until they have read the tokens they are the same for every sample
        normed_BHD = layers[0].self_norm(stream_BHD)
        kv_of_layers = self.kv(tokens_BND).chunk(len(layers), dim=-1)
        for index, layer in enumerate(layers):
            following = layers[index + 1].self_norm if index + 1 < len(layers) else self.final_norm
            stream_BHD, normed_BHD = layer.cross_norm.after(stream_BHD, layer.self_attention(normed_BHD))
            read_BHD = layer.cross_attention(normed_BHD, kv_of_layers[index])
            stream_BHD, normed_BHD = layer.mlp_norm.after(stream_BHD.expand_as(read_BHD), read_BHD)
            stream_BHD, normed_BHD = following.after(stream_BHD, layer.mlp(normed_BHD))
        return normed_BHD
