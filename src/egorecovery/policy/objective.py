"""Eq. 3: each term of the objective trains the part that its data can speak for.

L = L_bc^r + L_bc^h + lambda_c L_c + lambda_g L_g + lambda_n L_n
"""

# B batch (robots first), R robots, M humans, H horizon, A action dimensions, C intent dimensions

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
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
    human_dims_A: Tensor | None = None  # 1 for the numbers that human rows supervise; None: all of them


Total = Callable[[Tensor], Tensor]  # sums a count over all processes that share a batch


ORDER = ("imitation_robot", "imitation_human", "intent", "gate", "nominal")  # of the sum, and of what is logged


def alone(count: Tensor) -> Tensor:
    return count


@dataclass(frozen=True, kw_only=True, eq=False)
class Term:
    """One expectation of Eq. 3, not computed yet, and its lambda."""

    weight: float
    value: Callable[[], Tensor]

    def with_share(self) -> tuple[Tensor, Tensor]:
        """The term, and what it adds to the loss."""
        value = self.value()
        return value, value if self.weight == 1 else self.weight * value


def objective(
    prediction: Prediction, targets: Targets, weights: LossWeights, total: Total = alone
) -> dict[str, Tensor]:
    """Eq. 3: all terms, unweighted, and their weighted sum under "loss".

    Expectations are over the whole batch, so a process that holds a part of it divides by the total count; all
    processes ask for their totals in the same order.
    """
    terms = terms_of(prediction, targets, weights, total)
    return summed({name: term.with_share() for name, term in terms.items()})


def terms_of(prediction: Prediction, targets: Targets, weights: LossWeights, total: Total = alone) -> dict[str, Term]:
    """The terms that this batch has data for.

    In the order of their computation: the last are the first that a backward pass comes to, and the actions' way is
    the longest.
    """
    robots = 0 if prediction.robot_action_RHA is None else len(prediction.robot_action_RHA)
    intent_BC, logit_B = prediction.intent_BC, prediction.gate_logit_B
    terms: dict[str, Term] = {}
    if intent_BC is not None and logit_B is not None:
        terms["intent"] = Term(
            weight=weights.intent, value=lambda: intent_loss(intent_BC, targets, weights.intent_form, total)
        )
        terms["gate"] = Term(weight=weights.gate, value=lambda: gate_loss(logit_B, targets, total))
        if prediction.film_scale_RD is not None:
            terms["nominal"] = Term(
                weight=weights.nominal, value=lambda: nominal_loss(prediction, targets, weights.nominal_form, total)
            )
    robot_action_RHA, human_action_MHA = prediction.robot_action_RHA, prediction.human_action_MHA
    if robot_action_RHA is not None:
        beta = weights.imitation_beta
        terms["imitation_robot"] = Term(
            weight=1.0, value=lambda: imitation_loss(robot_action_RHA, targets, slice(0, robots), beta, None, total)
        )
    if human_action_MHA is not None:
        human_beta = weights.imitation_beta if weights.human_beta is None else weights.human_beta
        rows, dims_A = slice(robots, None), targets.human_dims_A
        terms["imitation_human"] = Term(
            weight=weights.human,
            value=lambda: imitation_loss(human_action_MHA, targets, rows, human_beta, dims_A, total),
        )
    return terms


def summed(terms_and_shares: Mapping[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """L = L_bc^r + L_bc^h + lambda_c L_c + lambda_g L_g + lambda_n L_n, and each term alone."""
    ordered = {name: terms_and_shares[name] for name in ORDER if name in terms_and_shares}
    loss = reduce(torch.add, (share for _, share in ordered.values()))
    return {"loss": loss, **{name: term for name, (term, _) in ordered.items()}}


def imitation_loss(
    action_BHA: Tensor, targets: Targets, rows: slice, beta: float, dims_A: Tensor | None, total: Total = alone
) -> Tensor:
    """L_bc: smooth L1 over the steps of the chunk that lie inside the episode, and over the supervised dimensions."""
    error_BHA = smooth_l1_loss(action_BHA.float(), targets.action_BHA[rows], beta=beta, reduction="none")
    error_BH = error_BHA.mean(dim=-1) if dims_A is None else (error_BHA * dims_A).sum(dim=-1) / dims_A.sum()
    return mean_where(error_BH, targets.action_mask_BH[rows], total)


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
