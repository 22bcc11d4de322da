"""Labels that are known to fit what has been recorded and annotated by now."""

from collections.abc import Iterable

from egorecovery.episodes import EpisodeCard, EpisodeId, EpisodeStore
from egorecovery.errors import StoreError
from egorecovery.intent.frame_labels import FrameLabels
from egorecovery.intent.label_store import LabelStore, inputs_key
from egorecovery.intent.target import IntentSpec
from egorecovery.recovery import Annotation, AnnotationJournal
from egorecovery.storage.checksummed_json import digest


def wanted_key(card: EpisodeCard, annotation: Annotation | None, spec: IntentSpec) -> str | None:
    """What the labels of an episode should be derived from; None when it should have none."""
    if annotation is not None and annotation.discard:
        return None
    if not card.source.is_recovery:
        return inputs_key(card, None, spec)
    return None if annotation is None else inputs_key(card, annotation.boundary, spec)


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
) -> FrameLabels:
    """An episode's labels, refused where the boundary, the verdict or the spec has changed since they were derived.

    Pass `annotations` (the journal's `latest()`) when asking for many.
    """
    known = AnnotationJournal(store.annotations_path).latest() if annotations is None else annotations
    key = wanted_key(store.card(episode), known.get(episode), spec or IntentSpec())
    if key is None:
        raise StoreError(f"{episode} is discarded or not annotated: it has no labels to train on")
    labels = LabelStore(store.labels_path)
    card = labels.card(episode)
    if card is None or card["key"] != key:
        raise StoreError(f"{episode}: labels are missing or older than its annotation; run 'egorecovery label'")
    labels_read = labels.read(episode)
    if len(labels_read.in_recovery) != store.card(episode).frames:
        raise StoreError(f"{episode}: labels are of another number of frames; run 'egorecovery label'")
    return labels_read
