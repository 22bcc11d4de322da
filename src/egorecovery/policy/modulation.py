"""Eq. 2: corrective intent enters the robot decoder through a gate.

    H~ = H + alpha (H * Gamma(c) + B(c)),   alpha = sg(p)

The residual form keeps the identity path explicit: with the gate at 0 the decoder is exactly the one that robot
success trained. Gamma and B have no biases, so that intent 0 ("no correction") is the identity as well.
"""

# B batch, H horizon, D width, C intent dimensions

import torch
from jaxtyping import Float
from torch import Tensor, nn

from egorecovery.policy.config import CorrectionConfig


class GatedModulation(nn.Module):
    def __init__(self, config: CorrectionConfig, width: int) -> None:
        super().__init__()
        self.floor = config.gate_floor
        self.always_on = config.modulation == "always_on"
        self.rise = nn.Linear(config.intent_dim, width, bias=False)
        self.film = nn.Linear(width, 2 * width, bias=False)
        nn.init.normal_(self.film.weight, std=config.film_std)

    def terms(self, intent_BC: Tensor) -> tuple[Tensor, Tensor]:
        """Gamma(c) and B(c)."""
        scale_BD, shift_BD = self.film(nn.functional.gelu(self.rise(intent_BC), approximate="tanh")).chunk(2, dim=-1)
        return scale_BD, shift_BD

    def alpha(self, gate_B: Tensor) -> Tensor:
        """sg(p): recovery labels train the gate, imitation must not."""
        if self.always_on:
            return torch.ones_like(gate_B)
        gate_B = gate_B.detach()
        return gate_B if self.floor == 0 else self.floor + (1 - self.floor) * gate_B

    def forward(
        self,
        feature_BHD: Float[Tensor, "B H D"],
        scale_BD: Float[Tensor, "B D"],
        shift_BD: Float[Tensor, "B D"],
        gate_B: Float[Tensor, " B"],
    ) -> Float[Tensor, "B H D"]:
        """Eq. 2: H + alpha (H * Gamma + B), each step of the horizon alike."""
        alpha_B11 = self.alpha(gate_B).to(feature_BHD.dtype)[:, None, None]
        return feature_BHD + alpha_B11 * (feature_BHD * scale_BD[:, None] + shift_BD[:, None])
