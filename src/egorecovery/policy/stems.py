"""Stems: each modality, whatever its size, becomes the same few tokens."""

# B batch, P cells or joints, D width, A state dimensions, S cells along a side, Q wavelengths

import torch
from torch import Tensor, nn

from egorecovery.policy.attention import CrossAttention, LearnedTokens, Linear, Norm
from egorecovery.policy.config import PolicyConfig


class Stem(nn.Module):
    """Learned queries cross-attend the modality's cells; each cell knows its place."""

    def __init__(self, config: PolicyConfig, place_PD: Tensor) -> None:
        super().__init__()
        self.place_PD = nn.Parameter(place_PD)
        self.queries = LearnedTokens(config.stem_tokens, config.width)
        self.kv = Linear(config.width, 2 * config.width)
        self.attention = CrossAttention(config.width, config.heads)

    def forward(self, cells_BPD: Tensor) -> Tensor:
        queries_1MD = self.queries()
        return queries_1MD + self.attention(queries_1MD, self.kv(cells_BPD + self.place_PD))


class ViewStem(nn.Module):
    """One view: its features are normalised, then get position embeddings."""

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.project = nn.Linear(config.vision.widths[-1], config.width)
        self.norm = Norm(config.width)
        self.stem = Stem(config, places_in_picture(config.cells_along_side, config.width))

    def forward(self, cells_BPC: Tensor) -> Tensor:
        return self.stem(self.norm(self.project(cells_BPC)))


class StateStem(nn.Module):
    """Proprioception of one embodiment: one cell per dimension, so that queries can tell joints apart.

    States come normalised; a layer norm here would take away how large they are.
    """

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.direction_AD = nn.Parameter(torch.randn(config.action_dim, config.width))
        self.mlp = nn.Sequential(
            nn.Linear(config.width, config.width), nn.GELU(approximate="tanh"), nn.Linear(config.width, config.width)
        )
        self.stem = Stem(config, torch.randn(config.action_dim, config.width))

    def forward(self, state_BA: Tensor) -> Tensor:
        return self.stem(self.mlp(state_BA[..., None] * self.direction_AD))


def places_in_picture(side: int, width: int) -> Tensor:
    """Where each cell of a picture lies: sines and cosines of row and column, of wavelengths from two cells up.

    As large as the normalised features they are added to: a policy that has to find this out from small random codes
    spends its training on it.
    """
    quarter = -(-width // 4)
    wavelength_Q = 2.0 * (4.0 * side) ** (torch.arange(quarter) / max(quarter - 1, 1))
    angle_SQ = 2 * torch.pi * torch.arange(side)[:, None] / wavelength_Q
    code_SQ = torch.cat([angle_SQ.sin(), angle_SQ.cos()], dim=1)
    rows_SSQ = code_SQ[:, None].expand(side, side, -1)
    columns_SSQ = code_SQ[None].expand(side, side, -1)
    return torch.cat([rows_SSQ, columns_SSQ], dim=-1).reshape(side * side, -1)[:, :width].clone()
