"""How well a policy does on episodes it never saw: a smoother yardstick than closed-loop counts."""

# F frames, B batch, H horizon, A action dimensions, C intent dimensions

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from numpy import ndarray
from scipy.stats import rankdata
from torch import Tensor

from egorecovery.episodes import Embodiment, EpisodeId, EpisodeStore, Source
from egorecovery.kinematics.effector_space import ARM_DIM, POSITION
from egorecovery.policy.frame_batches import frame_batches
from egorecovery.policy.near_and_far import blended
from egorecovery.policy.normaliser import Statistics
from egorecovery.policy.policy import Policy
from egorecovery.training import frame_table
from egorecovery.training.frame_table import FrameTable, chunk_frames
from egorecovery.training.image_source import decode
from egorecovery.training.recipe import Recipe
from egorecovery.training.runtime import Runtime

SOURCES = tuple(Source)
MOST_FRAMES = 384  # scored per source, evenly spread


@dataclass(frozen=True, kw_only=True, eq=False)
class HeldOut:
    """Frames to score, already decoded."""

    frames: FrameTable
    pictures_FVSS3: Tensor
    mean_intent_C: Float[ndarray, " C"]  # of the training pool's valid windows: what a guess without looking would say
    position_spread_A: Float[ndarray, " A"] | None = None  # metres per unit of a normalised position, in effector space


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


def held_out_frames(
    prefix: str,
    store: EpisodeStore,
    episodes: list[tuple[Source, EpisodeId]],
    statistics: Statistics,
    training: FrameTable,
    recipe: Recipe,
    runtime: Runtime,
) -> dict[str, tuple[HeldOut, list[int]]]:
    """Of the embodiments that are trained on, decoded, under the name that their scores get; nothing where none is."""
    episodes = [each for each in episodes if each[0].embodiment in statistics.state]
    if not episodes:
        return {}
    frames = frame_table.table(frame_table.read(store, episodes, recipe), statistics, recipe)
    rows = thinned(frames)
    samples = [frames.samples[row] for row in rows]
    pictures = decode(store, samples, recipe.policy.cameras, recipe.policy.image_size, runtime.device)
    masked = training.intent_FC[training.intent_mask_F]
    mean = masked.mean(axis=0) if len(masked) else np.zeros(training.intent_FC.shape[1], np.float32)
    # Positions have one scale for both embodiments.
    spread_A = statistics.action[Embodiment.ROBOT].spread_A if recipe.policy.action_space == "effector" else None
    held_out = HeldOut(frames=frames, pictures_FVSS3=pictures, mean_intent_C=mean, position_spread_A=spread_A)
    return {prefix: (held_out, rows)}


@torch.no_grad()
def score(policy: Policy, held_out: HeldOut, rows: list[int], recipe: Recipe) -> Scores:
    """Action error per source (mean absolute, normalised units), gate AUC and intent error per embodiment.

    Of human actions only the numbers count that people supervise. In effector space there is a position error too:
    the mean distance of both effectors from where the demonstrator's are, along the chunk.
    """
    frames, device = held_out.frames, held_out.pictures_FVSS3.device
    precision = next(policy.parameters()).dtype
    error_F, distance_F, gate_F = (np.full(len(rows), np.nan) for _ in range(3))
    intent_FC = None
    supervised_A = recipe.human_supervision.dims(recipe.policy.action_space)
    for embodiment in Embodiment:
        if embodiment is Embodiment.HUMAN and not recipe.policy.human_decoder:
            continue
        human = np.array([SOURCES[frames.source_F[row]].embodiment is Embodiment.HUMAN for row in rows])
        own = np.flatnonzero(human == (embodiment is Embodiment.HUMAN))
        batches = frame_batches(
            own,
            embodiment,
            lambda part: held_out.pictures_FVSS3[torch.from_numpy(part).to(device)],
            lambda part: frames.state_FA[np.array(rows)[part]],
            device,
            precision,
        )
        for batch in batches:
            part, chosen = batch.rows, np.array(rows)[batch.rows]
            prediction = policy(batch.images_VB3SS, batch.state_BA, batch.robots)
            action = prediction.robot_action_RHA if batch.robots else prediction.human_action_MHA
            assert action is not None
            action_BHA = action.float().cpu().numpy()
            if recipe.policy.near_m is not None:
                assert held_out.position_spread_A is not None
                here_BA = frames.anchor_FA[chosen]
                blended_BHA = blended(action_BHA, here_BA, held_out.position_spread_A, recipe.policy)
                action_BHA = blended_BHA - here_BA[:, None]  # which `action_errors` adds
            error_BHA = action_errors(action_BHA, frames, chosen)
            dims_A = supervised_A if embodiment is Embodiment.HUMAN else np.ones_like(supervised_A)
            error_F[part] = mean_of_episode(error_BHA[..., dims_A].mean(axis=-1), frames, chosen)
            if held_out.position_spread_A is not None:
                distance_BH = distances_m(error_BHA * held_out.position_spread_A)
                distance_F[part] = mean_of_episode(distance_BH, frames, chosen)
            if prediction.gate_logit_B is not None and prediction.intent_BC is not None:
                gate_F[part] = prediction.gate_logit_B.cpu().numpy()
                if intent_FC is None:
                    intent_FC = np.full((len(rows), prediction.intent_BC.shape[1]), np.nan)
                intent_FC[part] = prediction.intent_BC.float().cpu().numpy()
    robot_F = np.array([SOURCES[frames.source_F[row]].embodiment is Embodiment.ROBOT for row in rows])
    gates = gate_F[robot_F & np.isfinite(gate_F)]
    return Scores(
        values=_summary(frames, np.array(rows), error_F, gate_F, intent_FC, held_out.mean_intent_C)
        | _means_by_source("position_error_mm", 1000 * distance_F, frames.source_F[rows]),
        robot_gates=[round(float(1 / (1 + np.exp(-logit))), 6) for logit in gates],
    )


def action_errors(
    action_BHA: Float[ndarray, "B H A"], frames: FrameTable, rows: Int64[ndarray, " B"]
) -> Float[ndarray, "B H A"]:
    """Absolute, step by step. Rows are of one embodiment; people's chunks are stretched to the robot's pace."""
    whole_H, part_H = _ahead(frames, rows, action_BHA.shape[1])
    last_B1 = frames.last_F[rows][:, None]
    first_BHA, next_BHA = (frames.action_FA[np.minimum(rows[:, None] + whole_H + later, last_B1)] for later in (0, 1))
    wanted_BHA = first_BHA + (next_BHA - first_BHA) * part_H[:, None]
    return np.abs(action_BHA + frames.anchor_FA[rows][:, None] - wanted_BHA)


def mean_of_episode(
    error_BH: Float[ndarray, "B H"], frames: FrameTable, rows: Int64[ndarray, " B"]
) -> Float[ndarray, " B"]:
    """Over the steps of a chunk that lie inside the episode."""
    whole_H, _ = _ahead(frames, rows, error_BH.shape[1])
    inside_BH = rows[:, None] + whole_H <= frames.last_F[rows][:, None]
    return (error_BH * inside_BH).sum(axis=1) / inside_BH.sum(axis=1)


def distances_m(error_BHA: Float[ndarray, "B H 20"]) -> Float[ndarray, "B H"]:
    """Mean over both effectors, from absolute errors in effector space."""
    per_arm = error_BHA.reshape(*error_BHA.shape[:-1], -1, ARM_DIM)
    return np.linalg.norm(per_arm[..., POSITION], axis=-1).mean(axis=-1)


def _ahead(frames: FrameTable, rows: Int64[ndarray, " B"], steps: int) -> tuple[ndarray, ndarray]:
    human = len(rows) and rows[0] >= frames.robot_frames
    return chunk_frames(steps, frames.speed_ratio if human else 1.0)


def _means_by_source(name: str, values_F: ndarray, source_F: ndarray) -> dict[str, float]:
    own = {source: (source_F == index) & np.isfinite(values_F) for index, source in enumerate(SOURCES)}
    return {f"{name}/{source}": float(values_F[where].mean()) for source, where in own.items() if where.any()}


def _summary(
    frames: FrameTable,
    rows: ndarray,
    error_F: ndarray,
    gate_F: ndarray,
    intent_FC: ndarray | None,
    mean_intent_C: ndarray,
) -> dict[str, float]:
    sources = frames.source_F[rows]
    scores = _means_by_source("action_error", error_F, sources)
    for embodiment in Embodiment if intent_FC is not None else ():
        own = np.isin(sources, [i for i, source in enumerate(SOURCES) if source.embodiment is embodiment])
        own &= np.isfinite(gate_F)
        recovering = frames.in_recovery_F[rows]
        if own.any():
            scores[f"gate_accuracy/{embodiment}"] = float(((gate_F > 0) == recovering)[own].mean())
            if 0 < recovering[own].sum() < own.sum():
                scores[f"gate_auc/{embodiment}"] = auc(gate_F[own], recovering[own])
            in_recoveries = own & np.isin(sources, [i for i, source in enumerate(SOURCES) if source.is_recovery])
            if 0 < recovering[in_recoveries].sum() < in_recoveries.sum():
                scores[f"gate_auc_in_recoveries/{embodiment}"] = auc(gate_F[in_recoveries], recovering[in_recoveries])
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
