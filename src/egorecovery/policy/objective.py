"""Eq. 3: each term of the objective trains the part that its data can speak for.

L = L_bc^r + L_bc^h + lambda_c L_c + lambda_g L_g + lambda_n L_n
"""

# B batch (robots first), R robots, M humans, H horizon, A action dimensions, C intent dimensions

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, smooth_l1_loss

from egorecovery.policy.config import LossWeights
from egorecovery.policy.policy import Prediction


@dataclass(frozen=True, kw_only=True, eq=False)
class Targets:
    """What a batch should have given. Masks, not ragged shapes: every step runs the same kernels."""

    action_BHA: Tensor  # normalised, each row by its own embodiment
    action_mask_BH: Tensor  # 0 where the chunk runs past the episode's end
    intent_BC: Tensor
    intent_mask_B: Tensor  # m_t
    in_recovery_B: Tensor  # s_t


Total = Callable[[Tensor], Tensor]  # sums a count over all processes that share a batch


def objective(
    prediction: Prediction, targets: Targets, weights: LossWeights, total: Total = lambda count: count
) -> dict[str, Tensor]:
    """All terms, unweighted, and their weighted sum under "loss".

    Expectations are over the whole batch, so a process that holds a part of it divides by the total count.
    """
    robots = 0 if prediction.robot_action_RHA is None else len(prediction.robot_action_RHA)
    terms: dict[str, Tensor] = {}

    def imitation(action_BHA: Tensor, rows: slice) -> Tensor:
        error_BHA = smooth_l1_loss(
            action_BHA.float(), targets.action_BHA[rows], beta=weights.imitation_beta, reduction="none"
        )
        return mean_where(error_BHA.mean(dim=-1), targets.action_mask_BH[rows], total)

    if prediction.robot_action_RHA is not None:
        terms["imitation_robot"] = imitation(prediction.robot_action_RHA, slice(0, robots))
    if prediction.human_action_MHA is not None:
        terms["imitation_human"] = imitation(prediction.human_action_MHA, slice(robots, None))
    of_term = {"imitation_robot": 1.0, "imitation_human": weights.human}
    loss = sum(
        (of_term[name] * term for name, term in terms.items()), torch.zeros((), device=targets.action_BHA.device)
    )

    if prediction.intent_BC is not None and prediction.gate_logit_B is not None:
        terms["intent"] = intent_loss(prediction.intent_BC, targets, weights.intent_form, total)
        terms["gate"] = mean_where(
            binary_cross_entropy_with_logits(prediction.gate_logit_B, targets.in_recovery_B, reduction="none"),
            torch.ones_like(targets.in_recovery_B),
            total,
        )
        loss = loss + weights.intent * terms["intent"] + weights.gate * terms["gate"]
        if prediction.film_scale_RD is not None:
            terms["nominal"] = nominal_loss(prediction, targets, weights.nominal_form, total)
            loss = loss + weights.nominal * terms["nominal"]
    return {"loss": loss, **terms}


def intent_loss(
    intent_BC: Tensor, targets: Targets, form: Literal["l1", "smooth_l1"], total: Total = lambda count: count
) -> Tensor:
    """L_c = E_{m=1} |c - y|_1."""
    if form == "l1":
        error_B = (intent_BC.float() - targets.intent_BC).abs().sum(dim=-1)
    else:
        error_B = smooth_l1_loss(intent_BC.float(), targets.intent_BC, reduction="none").mean(dim=-1)
    return mean_where(error_B, targets.intent_mask_B, total)


def nominal_loss(
    prediction: Prediction, targets: Targets, form: Literal["film", "intent"], total: Total = lambda count: count
) -> Tensor:
    """L_n = E_{s=0} [p (|Gamma(c)|^2 + |B(c)|^2)], over robot frames: only their decoder is modulated."""
    scale_RD, shift_RD, logit_B, intent_BC = (
        prediction.film_scale_RD,
        prediction.film_shift_RD,
        prediction.gate_logit_B,
        prediction.intent_BC,
    )
    assert scale_RD is not None
    assert shift_RD is not None
    assert logit_B is not None
    assert intent_BC is not None
    robots = len(scale_RD)
    gate_R = logit_B[:robots].sigmoid()
    if form == "intent":
        size_R = (gate_R.detach() * intent_BC[:robots].float().norm(dim=-1)).square()
        return mean_where(size_R, torch.ones_like(size_R), total)
    strength_R = scale_RD.float().square().sum(dim=-1) + shift_RD.float().square().sum(dim=-1)
    return mean_where(gate_R * strength_R, 1 - targets.in_recovery_B[:robots], total)


def mean_where(values: Tensor, mask: Tensor, total: Total) -> Tensor:
    """The mean over mask 1; zero, not NaN, where the mask is empty."""
    return (values * mask).sum() / total(mask.sum()).clamp(min=1)
