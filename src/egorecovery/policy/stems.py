"""Stems: each modality, whatever its size, becomes the same few tokens."""

# B batch, P cells or joints, D width, A state dimensions

import torch
from torch import Tensor, nn

from egorecovery.policy.attention import CrossAttention, LearnedTokens, Norm
from egorecovery.policy.config import PolicyConfig


class Stem(nn.Module):
    """Learned queries cross-attend the modality's cells; each cell knows its place."""

    def __init__(self, config: PolicyConfig, cells: int) -> None:
        super().__init__()
        self.place_PD = nn.Parameter(torch.randn(cells, config.width) * 0.02)
        self.norm = Norm(config.width)
        self.queries = LearnedTokens(config.stem_tokens, config.width)
        self.kv = nn.Linear(config.width, 2 * config.width, bias=False)
        self.attention = CrossAttention(config.width, config.heads)

    def forward(self, cells_BPD: Tensor) -> Tensor:
        queries_BMD = self.queries(len(cells_BPD))
        return queries_BMD + self.attention(queries_BMD, self.kv(self.norm(cells_BPD + self.place_PD)))


class StateStem(nn.Module):
    """Proprioception of one embodiment: one cell per dimension, so that queries can tell joints apart."""

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.direction_AD = nn.Parameter(torch.randn(config.action_dim, config.width))
        self.mlp = nn.Sequential(
            nn.Linear(config.width, config.width), nn.GELU(approximate="tanh"), nn.Linear(config.width, config.width)
        )
        self.stem = Stem(config, config.action_dim)

    def forward(self, state_BA: Tensor) -> Tensor:
        return self.stem(self.mlp(state_BA[..., None] * self.direction_AD))
