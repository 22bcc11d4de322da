"""Labels that are known to fit what has been recorded and annotated by now."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from egorecovery.episodes import EpisodeCard, EpisodeId, EpisodeStore
from egorecovery.errors import StoreError
from egorecovery.intent.frame_labels import FrameLabels, trusted_windows
from egorecovery.intent.label_store import LabelStore, inputs_key
from egorecovery.intent.target import IntentSpec, IntentTarget
from egorecovery.recovery import Annotation, AnnotationJournal
from egorecovery.storage.checksummed_json import digest

LabelState = Literal["current", "stale", "discarded", "unannotated"]  # stale: missing, or older than its annotation


def wanted_key(card: EpisodeCard, annotation: Annotation | None, spec: IntentSpec) -> str | None:
    """What the labels of an episode should be derived from; None when it should have none."""
    if annotation is not None and annotation.discard:
        return None
    if not card.source.is_recovery:
        return inputs_key(card, None, spec)
    return None if annotation is None else inputs_key(card, annotation.boundary, spec)


def label_state(
    card: EpisodeCard, annotation: Annotation | None, derived: Mapping[str, Any] | None, spec: IntentSpec
) -> LabelState:
    """Whether `derived`, the card of an episode's labels, fits what is recorded and annotated by now."""
    wanted = wanted_key(card, annotation, spec)
    if wanted is None:
        return "discarded" if annotation else "unannotated"
    return "current" if derived is not None and derived["key"] == wanted else "stale"


def data_hash(store: EpisodeStore, episodes: Iterable[EpisodeId]) -> str:
    """Changes if and only if one of these episodes or its labels do."""
    labels = LabelStore(store.labels_path)
    cards = {episode: labels.card(episode) for episode in episodes}
    return digest({episode: [store.card(episode).content, card and card["key"]] for episode, card in cards.items()})


def labels_of(
    store: EpisodeStore,
    episode: str,
    spec: IntentSpec | None = None,
    annotations: dict[str, Annotation] | None = None,
    target: IntentTarget = "dct_magnitude",
) -> FrameLabels:
    """An episode's labels, refused where the boundary, the verdict or the spec has changed since they were derived.

    Pass `annotations` (the journal's `latest()`) when asking for many. Every other kind of target is derived here too.
    """
    known = AnnotationJournal(store.annotations_path).latest() if annotations is None else annotations
    labels = LabelStore(store.labels_path)
    state = label_state(store.card(episode), known.get(episode), labels.card(episode), spec or IntentSpec())
    if state in ("discarded", "unannotated"):
        raise StoreError(f"{episode} is discarded or not annotated: it has no labels to train on")
    if state == "stale":
        raise StoreError(f"{episode}: labels are missing or older than its annotation; run 'egorecovery label'")
    derived = labels.read(episode)
    if len(derived.in_recovery) != store.card(episode).frames:
        raise StoreError(f"{episode}: labels are of another number of frames; run 'egorecovery label'")
    return derived if target == "dct_magnitude" else _with_target(derived, store, episode, spec or IntentSpec(), target)


def _with_target(
    labels: FrameLabels, store: EpisodeStore, episode: str, spec: IntentSpec, target: IntentTarget
) -> FrameLabels:
    """Stores hold the paper's target. Others are of the same windows, so only their values differ."""
    effector_m, reliable = store.stream(episode, "effector_m"), store.stream(episode, "reliable")
    windows = trusted_windows(effector_m, reliable, store.card(episode).task.active_effectors, spec, target)
    return replace(labels, intent_m=windows.intent_m.astype(np.float32))
