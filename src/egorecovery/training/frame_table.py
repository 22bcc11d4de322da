"""A pool as one table: a row per frame, robots first. Pictures are beside it, on the device or in the store."""

# F frames, A dimensions, C intent dimensions

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Int64
from numpy import ndarray

from egorecovery.episodes import Embodiment, EpisodeId, EpisodeStore, Source
from egorecovery.episodes.layout import OPTIONAL_STREAMS
from egorecovery.errors import RecipeError
from egorecovery.intent import FrameLabels
from egorecovery.intent.current_labels import labels_of
from egorecovery.intent.statistics import pool_statistics
from egorecovery.kinematics import ActionSpace
from egorecovery.policy.normaliser import Normaliser, Statistics
from egorecovery.recovery import AnnotationJournal
from egorecovery.training.human_supervision import speed_ratio
from egorecovery.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True, eq=False)
class FrameTable:
    """Values as training sees them: normalised."""

    samples: list[tuple[EpisodeId, int]]  # episode and frame of each row
    source_F: Int64[ndarray, " F"]  # index into `tuple(Source)`
    robot_frames: int
    state_FA: Float32[ndarray, "F A"]
    action_FA: Float32[ndarray, "F A"]
    anchor_FA: Float32[ndarray, "F A"]  # what a chunk that begins here is counted from; 0 where actions are absolute
    last_F: Int64[ndarray, " F"]  # row of the last frame of this row's episode
    intent_FC: Float32[ndarray, "F C"]
    intent_mask_F: Bool[ndarray, " F"]
    in_recovery_F: Bool[ndarray, " F"]
    speed_ratio: float = 1.0  # of human rows: step h of their chunks lies h / ratio frames ahead

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def human_frames(self) -> int:
        return len(self) - self.robot_frames


@dataclass(frozen=True, kw_only=True, eq=False)
class Recorded:
    """One episode's streams and labels, as they are on disk."""

    episode: EpisodeId
    source: Source
    state_TA: Float32[ndarray, "T A"]
    action_TA: Float32[ndarray, "T A"]
    labels: FrameLabels


STREAMS: dict[ActionSpace, tuple[str, str]] = {
    "joint": ("state", "action"),
    "effector": ("effector_state", "effector_action"),
}


def read(store: EpisodeStore, episodes: Sequence[tuple[Source, EpisodeId]], recipe: Recipe) -> list[Recorded]:
    annotations = AnnotationJournal(store.annotations_path).latest()
    space = recipe.policy.action_space
    for _, episode in episodes:
        _require_same_pictures(store, episode, recipe)
    return [
        Recorded(
            episode=episode,
            source=source,
            state_TA=_stream(store, episode, STREAMS[space][0]),
            action_TA=_as_imitated(_stream(store, episode, STREAMS[space][1]), source, recipe),
            labels=labels_of(store, episode, recipe.intent, annotations, recipe.intent_target),
        )
        for source, episode in episodes
    ]


def _require_same_pictures(store: EpisodeStore, episode: EpisodeId, recipe: Recipe) -> None:
    hidden = store.card(episode).hidden_embodiment
    if hidden != recipe.policy.hidden_embodiment:
        shows, wants = ("pictures without arms and hands", "pictures with them")[:: 1 if hidden else -1]
        raise RecipeError(
            f"{store.root}: {episode} has {shows}, the recipe wants {wants}; set policy.hidden_embodiment to "
            f"{str(hidden).lower()}, or use another store"
        )


def _stream(store: EpisodeStore, episode: EpisodeId, name: str) -> Float32[ndarray, "T A"]:
    if name in OPTIONAL_STREAMS and not store.has_stream(episode, name):
        raise RecipeError(
            f"{store.root}: {episode} has no {name}: it was collected before effector space existed, or imported "
            "without a robot model; simulate or import it again into a new store (import --robot FILE), or train in "
            "joint space"
        )
    return np.asarray(store.stream(episode, name), np.float32)


def _as_imitated(action_TA: Float32[ndarray, "T A"], source: Source, recipe: Recipe) -> Float32[ndarray, "T A"]:
    return recipe.human_supervision.actions(action_TA, recipe.policy.action_space) if source.is_human else action_TA


def fit(recorded: Sequence[Recorded], recipe: Recipe) -> Statistics:
    """From the training pool, and nothing else."""
    state, action, space = {}, {}, recipe.policy.action_space
    for embodiment in Embodiment:
        of_it = [episode for episode in recorded if episode.source.embodiment is embodiment]
        if of_it:
            states, actions = (
                np.concatenate([getattr(episode, name) for episode in of_it]) for name in ("state_TA", "action_TA")
            )
            state[embodiment] = Normaliser.fit(states, recipe.normalisation, embodiment, space)
            action[embodiment] = Normaliser.fit(actions, recipe.normalisation, embodiment, space)
    shared_A = recipe.human_supervision.shared_dims(space)
    if shared_A.any() and len(action) > 1:  # what means the same has one scale, whichever decoder it goes to
        everyone = Normaliser.fit(
            np.concatenate([episode.action_TA for episode in recorded]), recipe.normalisation, Embodiment.HUMAN, space
        )
        action = {embodiment: own.taking(everyone, shared_A) for embodiment, own in action.items()}
    recovering = any(episode.source.is_recovery for episode in recorded)
    intent = pool_statistics((episode.source, episode.labels) for episode in recorded) if recovering else None
    if recipe.policy.correction and intent is None:
        raise RecipeError(
            "corrective intent needs recovery episodes: add robot_recovery or human_recovery to the budget"
        )
    if recipe.policy.correction and intent and len(intent.normaliser.divisor) != recipe.policy.correction.intent_dim:
        raise RecipeError(
            f"policy.correction.intent_dim is {recipe.policy.correction.intent_dim}, but the labels of {recipe.task} "
            f"have {len(intent.normaliser.divisor)} intent dimensions; set it to that"
        )
    matched = space == "effector" and recipe.human_supervision.match_speed
    ratio = speed_ratio((episode.source, episode.labels) for episode in recorded) if matched else 1.0
    return Statistics(state=state, action=action, intent=intent, speed_ratio=ratio)


def table(recorded: Sequence[Recorded], statistics: Statistics, recipe: Recipe) -> FrameTable:
    ordered = sorted(recorded, key=lambda episode: episode.source.embodiment is not Embodiment.ROBOT)
    lengths = [len(episode.state_TA) for episode in ordered]
    ends = np.cumsum(lengths)
    return FrameTable(
        samples=[(episode.episode, frame) for episode in ordered for frame in range(len(episode.state_TA))],
        source_F=np.repeat([list(Source).index(episode.source) for episode in ordered], lengths).astype(np.int64),
        robot_frames=sum(len(episode.state_TA) for episode in ordered if episode.source.embodiment is Embodiment.ROBOT),
        state_FA=_joined(
            [statistics.state[episode.source.embodiment].normalise(episode.state_TA) for episode in ordered]
        ),
        action_FA=_joined(
            [statistics.action[episode.source.embodiment].normalise(episode.action_TA) for episode in ordered]
        ),
        anchor_FA=_joined([_anchor(episode, statistics, recipe) for episode in ordered]),
        last_F=np.repeat(ends - 1, lengths).astype(np.int64),
        intent_FC=_joined([_intent(episode, statistics) for episode in ordered]),
        intent_mask_F=np.concatenate([_mask(episode.labels, recipe.segment_mask) for episode in ordered]),
        in_recovery_F=np.concatenate([episode.labels.in_recovery for episode in ordered]),
        speed_ratio=statistics.speed_ratio,
    )


def chunk_frames(steps: int, ratio: float) -> tuple[Int64[ndarray, " H"], Float32[ndarray, " H"]]:
    """Where the actions of a stretched chunk lie: whole frames ahead, and how far towards the next frame.

    The action of a frame is where the effector is one frame later, so step h, which ends h + 1 steps from now, is
    found at (h + 1) / ratio - 1. Nothing is taken from before the chunk's own frame.
    """
    ahead_H = np.maximum((np.arange(steps) + 1) / ratio - 1, 0.0)
    whole_H = np.floor(ahead_H).astype(np.int64)
    return whole_H, (ahead_H - whole_H).astype(np.float32)


def _joined(parts: Sequence[ndarray]) -> Float32[ndarray, "F N"]:
    return np.concatenate(parts).astype(np.float32)


def _anchor(each: Recorded, statistics: Statistics, recipe: Recipe) -> Float32[ndarray, "T A"]:
    if not (recipe.policy.relative_actions or recipe.policy.near_m is not None):
        return np.zeros_like(each.state_TA)
    return statistics.anchor(each.source.embodiment, each.state_TA, recipe.policy.action_space)


def _intent(each: Recorded, statistics: Statistics) -> Float32[ndarray, "T C"]:
    """Scaled by the embodiment's s_d and normalised; zeros where the pool has no scale (the mask is empty there)."""
    scaled = statistics.intent and statistics.intent.scale_m.get(each.source.embodiment)
    if not statistics.intent or not scaled:
        return np.zeros_like(each.labels.intent_m)
    return statistics.intent.normaliser.normalise(each.labels.intent_m / scaled).astype(np.float32)


def _mask(labels: FrameLabels, segment_mask: bool) -> Bool[ndarray, " T"]:
    return labels.intent_mask if segment_mask else labels.gt_intent_valid
