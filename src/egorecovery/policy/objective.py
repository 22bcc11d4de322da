"""Eq. 3: each term of the objective trains the part that its data can speak for.

L = L_bc^r + L_bc^h + lambda_c L_c + lambda_g L_g + lambda_n L_n
"""

# B batch (robots first), R robots, M humans, H horizon, A action dimensions, C intent dimensions

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, smooth_l1_loss

from egorecovery.policy.config import LossWeights
from egorecovery.policy.policy import Prediction
from egorecovery.policy.side_by_side import side_by_side, tensors_in


@dataclass(frozen=True, kw_only=True, eq=False)
class Targets:
    """What a batch should have given. Masks, not ragged shapes: every step runs the same kernels."""

    action_BHA: Tensor  # normalised, each row by its own embodiment
    action_mask_BH: Tensor  # 0 where the chunk runs past the episode's end
    intent_BC: Tensor
    intent_mask_B: Tensor  # m_t
    in_recovery_B: Tensor  # s_t
    human_dims_A: Tensor | None = None  # 1 for the numbers that human rows supervise; None: all of them


Total = Callable[[Tensor], Tensor]  # sums a count over all processes that share a batch


def alone(count: Tensor) -> Tensor:
    return count


def objective(
    prediction: Prediction, targets: Targets, weights: LossWeights, total: Total | None = None
) -> dict[str, Tensor]:
    """All terms, unweighted, and their weighted sum under "loss".

    Expectations are over the whole batch, so a process that holds a part of it divides by the total count. One that
    holds all of it computes its terms side by side; others must all ask for their totals in the same order.
    """
    robots = 0 if prediction.robot_action_RHA is None else len(prediction.robot_action_RHA)
    intent_BC, logit_B, count = prediction.intent_BC, prediction.gate_logit_B, total or alone
    parts: dict[str, Callable[[], Tensor]] = {}

    def imitation(action_BHA: Tensor, rows: slice, beta: float, dims_A: Tensor | None = None) -> Tensor:
        error_BHA = smooth_l1_loss(action_BHA.float(), targets.action_BHA[rows], beta=beta, reduction="none")
        error_BH = error_BHA.mean(dim=-1) if dims_A is None else (error_BHA * dims_A).sum(dim=-1) / dims_A.sum()
        return mean_where(error_BH, targets.action_mask_BH[rows], count)

    if intent_BC is not None and logit_B is not None:
        parts["intent"] = partial(intent_loss, intent_BC, targets, weights.intent_form, count)
        parts["gate"] = partial(gate_loss, logit_B, targets, count)
        if prediction.film_scale_RD is not None:
            parts["nominal"] = partial(nominal_loss, prediction, targets, weights.nominal_form, count)
    # The last are the first that a backward pass comes to, and theirs is the longest way.
    if prediction.robot_action_RHA is not None:
        robot_rows = slice(0, robots)
        parts["imitation_robot"] = partial(imitation, prediction.robot_action_RHA, robot_rows, weights.imitation_beta)
    if prediction.human_action_MHA is not None:
        human_beta = weights.imitation_beta if weights.human_beta is None else weights.human_beta
        parts["imitation_human"] = partial(
            imitation, prediction.human_action_MHA, slice(robots, None), human_beta, targets.human_dims_A
        )

    of_term = {
        "imitation_robot": 1.0,
        "imitation_human": weights.human,
        "intent": weights.intent,
        "gate": weights.gate,
        "nominal": weights.nominal,
    }

    def term_and_share(name: str) -> tuple[Tensor, Tensor]:
        term = parts[name]()
        return term, term if of_term[name] == 1 else of_term[name] * term

    branches = [partial(term_and_share, name) for name in parts]
    if total is None:
        found = side_by_side(branches, *tensors_in(prediction), *tensors_in(targets))
    else:
        found = [branch() for branch in branches]
    by_name = dict(zip(parts, found, strict=True))
    ordered = {name: by_name[name] for name in of_term if name in by_name}
    loss = reduce(torch.add, (share for _, share in ordered.values()))
    return {"loss": loss, **{name: term for name, (term, _) in ordered.items()}}


def intent_loss(intent_BC: Tensor, targets: Targets, form: Literal["l1", "smooth_l1"], total: Total = alone) -> Tensor:
    """L_c = E_{m=1} |c - y|_1."""
    if form == "l1":
        error_B = (intent_BC.float() - targets.intent_BC).abs().sum(dim=-1)
    else:
        error_B = smooth_l1_loss(intent_BC.float(), targets.intent_BC, reduction="none").mean(dim=-1)
    return mean_where(error_B, targets.intent_mask_B, total)


def gate_loss(logit_B: Tensor, targets: Targets, total: Total = alone) -> Tensor:
    """L_g: cross-entropy of the gate with being in a recovery."""
    return mean(binary_cross_entropy_with_logits(logit_B, targets.in_recovery_B, reduction="none"), total)


def nominal_loss(
    prediction: Prediction, targets: Targets, form: Literal["film", "intent"], total: Total = alone
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
        return mean(size_R, total)
    strength_R = scale_RD.float().square().sum(dim=-1) + shift_RD.float().square().sum(dim=-1)
    return mean_where(gate_R * strength_R, 1 - targets.in_recovery_B[:robots], total)


def mean_where(values: Tensor, mask: Tensor, total: Total) -> Tensor:
    """The mean over mask 1; zero, not NaN, where the mask is empty."""
    return (values * mask).sum() / total(mask.sum()).clamp(min=1)


def mean(values: Tensor, total: Total) -> Tensor:
    """The mean over all; zero, not NaN, where there are none."""
    return values.sum() / total(values.new_full((), values.numel())).clamp(min=1)
