"""How well a policy does on episodes it never saw: a smoother yardstick than closed-loop counts."""

# F frames, B batch, H horizon, A action dimensions, C intent dimensions

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from numpy import ndarray
from scipy.stats import rankdata
from torch import Tensor

from egorecovery.episodes import Embodiment, Source
from egorecovery.policy.inference import plain_images
from egorecovery.policy.policy import Policy
from egorecovery.training.frame_table import FrameTable
from egorecovery.training.recipe import Recipe

SOURCES = tuple(Source)
AT_ONCE = 64
MOST_FRAMES = 384  # scored per source, evenly spread


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOut:
    """Frames to score, already decoded."""

    frames: FrameTable
    pictures_FVSS3: Tensor
    mean_intent_C: Float[ndarray, " C"]  # of the training pool's valid windows: what a guess without looking would say


@dataclass(frozen=True, kw_only=True)
class Scores:
    values: dict[str, float]
    robot_gates: list[float]  # gate of every robot frame scored


def thinned(frames: FrameTable, most: int = MOST_FRAMES) -> list[int]:
    """Rows to decode and score: at most so many per source, evenly spread over its episodes."""
    rows: list[int] = []
    for source in range(len(SOURCES)):
        of_it = np.flatnonzero(frames.source_F == source)
        rows += of_it[np.unique(np.linspace(0, len(of_it) - 1, min(most, len(of_it))).astype(int))].tolist()
    return sorted(rows)


@torch.no_grad()
def score(policy: Policy, held_out: HeldOut, rows: list[int], recipe: Recipe) -> Scores:
    """Action error per source (mean absolute, normalised units), gate AUC and intent error per embodiment."""
    frames, device = held_out.frames, held_out.pictures_FVSS3.device
    precision = next(policy.parameters()).dtype
    error_F, gate_F, intent_FC = np.full(len(rows), np.nan), np.full(len(rows), np.nan), None
    for embodiment in Embodiment:
        if embodiment is Embodiment.HUMAN and not recipe.policy.human_decoder:
            continue
        human = np.array([SOURCES[frames.source_F[row]].embodiment is Embodiment.HUMAN for row in rows])
        own = np.flatnonzero(human == (embodiment is Embodiment.HUMAN))
        for first in range(0, len(own), AT_ONCE):
            part = own[first : first + AT_ONCE]
            chosen = np.array(rows)[part]
            images = plain_images(held_out.pictures_FVSS3[torch.from_numpy(part).to(device)], precision)
            state = torch.from_numpy(frames.state_FA[chosen]).to(device, precision)
            robots = len(part) if embodiment is Embodiment.ROBOT else 0
            prediction = policy(images, state, robots)
            action = prediction.robot_action_RHA if robots else prediction.human_action_MHA
            assert action is not None
            error_F[part] = action_error(action.float().cpu().numpy(), frames, chosen)
            if prediction.gate_logit_B is not None and prediction.intent_BC is not None:
                gate_F[part] = prediction.gate_logit_B.cpu().numpy()
                if intent_FC is None:
                    intent_FC = np.full((len(rows), prediction.intent_BC.shape[1]), np.nan)
                intent_FC[part] = prediction.intent_BC.float().cpu().numpy()
    robot_F = np.array([SOURCES[frames.source_F[row]].embodiment is Embodiment.ROBOT for row in rows])
    gates = gate_F[robot_F & np.isfinite(gate_F)]
    return Scores(
        values=_summary(frames, np.array(rows), error_F, gate_F, intent_FC, held_out.mean_intent_C),
        robot_gates=[round(float(1 / (1 + np.exp(-logit))), 6) for logit in gates],
    )


def action_error(
    action_BHA: Float[ndarray, "B H A"], frames: FrameTable, rows: Int64[ndarray, " B"]
) -> Float[ndarray, " B"]:
    wanted_BH = rows[:, None] + np.arange(action_BHA.shape[1])
    last_B1 = frames.last_F[rows][:, None]
    predicted_BHA = action_BHA + frames.anchor_FA[rows][:, None]
    error_BH = np.abs(predicted_BHA - frames.action_FA[np.minimum(wanted_BH, last_B1)]).mean(axis=-1)
    inside_BH = wanted_BH <= last_B1
    return (error_BH * inside_BH).sum(axis=1) / inside_BH.sum(axis=1)


def _summary(
    frames: FrameTable,
    rows: ndarray,
    error_F: ndarray,
    gate_F: ndarray,
    intent_FC: ndarray | None,
    mean_intent_C: ndarray,
) -> dict[str, float]:
    scores: dict[str, float] = {}
    sources = frames.source_F[rows]
    for index, source in enumerate(SOURCES):
        if (own := (sources == index) & np.isfinite(error_F)).any():
            scores[f"action_error/{source}"] = float(error_F[own].mean())
    for embodiment in Embodiment if intent_FC is not None else ():
        own = np.isin(sources, [i for i, source in enumerate(SOURCES) if source.embodiment is embodiment])
        own &= np.isfinite(gate_F)
        recovering = frames.in_recovery_F[rows]
        if own.any():
            scores[f"gate_accuracy/{embodiment}"] = float(((gate_F > 0) == recovering)[own].mean())
            if 0 < recovering[own].sum() < own.sum():
                scores[f"gate_auc/{embodiment}"] = auc(gate_F[own], recovering[own])
        masked = own & frames.intent_mask_F[rows]
        if masked.any() and intent_FC is not None:
            true = frames.intent_FC[rows[masked]]
            scores[f"intent_error/{embodiment}"] = float(np.abs(intent_FC[masked] - true).mean())
            scores[f"intent_error_of_mean/{embodiment}"] = float(np.abs(mean_intent_C - true).mean())
    return scores


def auc(score_F: Float[ndarray, " F"], positive_F: Bool[ndarray, " F"]) -> float:
    """The chance that a positive scores above a negative, ties counting half."""
    ranks = rankdata(score_F)
    positives = int(positive_F.sum())
    above = ranks[positive_F].sum() - positives * (positives + 1) / 2
    return float(above / (positives * (len(score_F) - positives)))
