"""What a trained policy makes of recorded episodes, frame by frame: trunk feature, intent and gate."""

# T frames, B batch, D width, C intent dimensions

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32
from numpy import ndarray

from egorecovery.diagnostics.bottleneck_alignment import HeadFrames, diagnosed_frames
from egorecovery.diagnostics.episode_bootstrap import DiagnosticError, chosen_episodes
from egorecovery.diagnostics.gate_alignment import EPISODES, GateTrace
from egorecovery.episodes import Embodiment, EpisodeId, EpisodeStore, Source
from egorecovery.episodes.reading import FrameReader
from egorecovery.errors import RecipeError
from egorecovery.intent import FrameLabels, data_hash
from egorecovery.policy.checkpoint import Checkpoint, load_into, open_checkpoint
from egorecovery.policy.checkpoint_card import policy_hash
from egorecovery.policy.device import pick_device
from egorecovery.policy.frame_batches import FrameBatch, frame_batches
from egorecovery.policy.policy import Policy
from egorecovery.storage.typed_json import from_json
from egorecovery.training import Recipe, frame_table
from egorecovery.training.image_source import require_size
from egorecovery.training.splits import Pools, everything, in_order, select

LEAST_EPISODES = 2  # per embodiment: one episode says nothing of another


@dataclass(frozen=True, kw_only=True, eq=False)
class DiagnosedRun:
    """A training run, and which of a store's episodes it never saw."""

    label: str
    checkpoint: Checkpoint
    recipe: Recipe

    @classmethod
    def open(cls, path: Path, task: str, label: str) -> "DiagnosedRun":
        """A run's folder means its latest checkpoint. A run of another task is refused."""
        saved = open_checkpoint(path)
        recipe: Recipe = from_json(Recipe, saved.recipe, "recipe", RecipeError)
        if recipe.task != task:
            raise RecipeError(f"{saved.path} was trained for {recipe.task}, not for {task}")
        return cls(label=label, checkpoint=saved, recipe=recipe)

    @cached_property
    def policy_hash(self) -> str:
        return policy_hash(self.checkpoint.path)

    @property
    def saw_humans(self) -> bool:
        return self.recipe.budget.uses(Embodiment.HUMAN)

    def pools(self, store: EpisodeStore) -> Pools:
        return select(store, self.recipe, checked=False)

    def doubt(self, store: EpisodeStore) -> str | None:
        """Why "held out" may not be true in this store, in words; None where it is."""
        if data_hash(store, (name for _, name in self.pools(store).episodes)) == self.checkpoint.data:
            return None
        return (
            f"{self.label} was trained on other episodes or labels than its recipe chooses from {store.root} today: "
            "what counts as held out was held out only if the store's episodes had the same names then"
        )


@dataclass(frozen=True, kw_only=True)
class Unseen:
    """Episodes to look at policies on: what their recipes hold out of a store, or everything in a fresh one."""

    store: EpisodeStore
    fresh: bool = False

    def of(self, run: DiagnosedRun) -> list[tuple[Source, EpisodeId]]:
        return everything(self.store, run.recipe) if self.fresh else in_order(run.pools(self.store).held_out)


def open_runs(paths: Sequence[Path], task: str) -> list[DiagnosedRun]:
    """Called by their folders' names; by their whole paths where two have the same."""
    names = [path.resolve().name for path in paths]
    distinct = len(set(names)) == len(names)
    if len({path.resolve() for path in paths}) < len(paths):
        raise RecipeError("the same run is given twice: name each one once")
    return [
        DiagnosedRun.open(path, task, name if distinct else str(path)) for path, name in zip(paths, names, strict=True)
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class ObservedEpisode:
    """One episode through a policy's eyes."""

    episode: EpisodeId
    source: Source
    labels: FrameLabels
    trunk_TD: Float32[ndarray, "T D"]  # mean of the trunk's action tokens: every policy has it
    feature_TD: Float32[ndarray, "T D"]  # pooled as the heads read it; the same mean where there are no heads
    intent_TC: Float32[ndarray, "T C"] | None  # normalised, as the head gives it
    gate_T: Float32[ndarray, " T"] | None  # p_rec


class FrozenPolicy:
    """The policy of a checkpoint, to look through and not to act with: its decoders are never run.

    In float32 on every device, so that a diagnosis does not depend on where it was made.
    """

    def __init__(self, run: DiagnosedRun, device: str = "auto") -> None:
        self.run = run
        self._device = pick_device(device)
        policy = Policy(run.checkpoint.config)
        load_into(policy, run.checkpoint.weights(), run.checkpoint.path)
        self._policy = policy.on(self._device).eval().requires_grad_(False)

    def observe(
        self,
        store: EpisodeStore,
        episodes: Sequence[tuple[Source, EpisodeId]],
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[ObservedEpisode]:
        recipe, statistics = self.run.recipe, self.run.checkpoint.statistics
        for source, name in episodes:
            if source.embodiment not in statistics.state:
                raise DiagnosticError(
                    f"{self.run.label} was trained without {source.embodiment} data: it cannot look at {name}"
                )
        cameras, size = recipe.policy.cameras, recipe.policy.image_size
        require_size(store, [(name, 0) for _, name in episodes], cameras, size)
        recorded = frame_table.read(store, episodes, recipe)
        total, observed = sum(len(episode.state_TA) for episode in recorded), []
        with FrameReader(store, cameras) as reader:
            for episode in recorded:
                done = sum(len(observation.labels.in_recovery) for observation in observed)
                progress(done, total)
                state_TA = statistics.state[episode.source.embodiment].normalise(episode.state_TA)
                pictures = partial(_pictures, reader, episode.episode)
                parts = [
                    self._look(batch)
                    for batch in frame_batches(
                        np.arange(len(state_TA)),
                        episode.source.embodiment,
                        pictures,
                        state_TA.__getitem__,
                        self._device,
                        torch.float32,
                    )
                ]
                trunk_TD, feature_TD, intent_TC, gate_T = (
                    None if values[0] is None else np.concatenate(values) for values in zip(*parts, strict=True)
                )
                assert trunk_TD is not None
                assert feature_TD is not None
                observed.append(
                    ObservedEpisode(
                        episode=episode.episode,
                        source=episode.source,
                        labels=episode.labels,
                        trunk_TD=trunk_TD,
                        feature_TD=feature_TD,
                        intent_TC=intent_TC,
                        gate_T=gate_T,
                    )
                )
        progress(total, total)
        return observed

    @torch.inference_mode()
    def _look(self, batch: FrameBatch) -> tuple[ndarray | None, ...]:
        tokens_BND = self._policy.tokens(batch.images_VB3SS, batch.state_BA, batch.robots)
        feature_BD, intent_BC, gate_logit_B = self._policy.correction(tokens_BND)
        gate_B = None if gate_logit_B is None else gate_logit_B.sigmoid()
        seen = (tokens_BND.mean(dim=1), feature_BD, intent_BC, gate_B)
        return tuple(None if tensor is None else tensor.float().cpu().numpy() for tensor in seen)


def _pictures(reader: FrameReader, episode: EpisodeId, frames: ndarray) -> torch.Tensor:
    return torch.from_numpy(reader.read([(episode, int(frame)) for frame in frames]))


def head_frames(observed: Sequence[ObservedEpisode], who: Embodiment) -> HeadFrames:
    """What enters and leaves the Intent Head on one embodiment's frames that have a valid window."""
    own = [(episode, diagnosed_frames(episode.labels)) for episode in _recoveries(observed, who)]
    intents = [episode.intent_TC[kept] for episode, kept in own if episode.intent_TC is not None]
    if len(intents) < len(own):
        raise DiagnosticError("the policy has no Intent Head")
    return HeadFrames(
        feature=np.concatenate([episode.feature_TD[kept] for episode, kept in own]),
        intent=np.concatenate(intents),
        recovery=np.concatenate([episode.labels.in_recovery[kept] for episode, kept in own]),
        episode=np.repeat(np.arange(len(own)), [int(kept.sum()) for _, kept in own]),
    )


def gate_traces(observed: Sequence[ObservedEpisode], who: Embodiment, most: int = EPISODES) -> dict[str, GateTrace]:
    """By episode, of at most as many as the paper shows; which ones, their names alone decide."""
    own = {observation.episode: observation for observation in _recoveries(observed, who)}
    traces = {}
    for name in chosen_episodes(list(own), min(most, len(own))):
        observation = own[EpisodeId(name)]
        if observation.gate_T is None:
            raise DiagnosticError("the policy has no gate")
        boundary = int(observation.labels.in_recovery.sum()) - 1  # s_t is 1 from the first frame to the boundary
        traces[name] = GateTrace(gate=observation.gate_T, boundary=boundary)
    return traces


def _recoveries(observed: Sequence[ObservedEpisode], who: Embodiment) -> list[ObservedEpisode]:
    own = [episode for episode in observed if episode.source.is_recovery and episode.source.embodiment is who]
    if len(own) < LEAST_EPISODES:
        raise DiagnosticError(
            f"{len(own)} unseen {who} recovery episodes, at least {LEAST_EPISODES} are wanted: collect more, and "
            "train with a larger held_out or give them with --fresh"
        )
    return own
