"""Labels a whole store: in parallel, only what changed, with an account of every frame."""

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from egorecovery.episodes import EpisodeCard, EpisodeStore, Source
from egorecovery.errors import AnnotationError
from egorecovery.intent.frame_labels import Verdict, frame_labels
from egorecovery.intent.label_store import LabelStore, counts_of, inputs_key
from egorecovery.intent.target import IntentSpec
from egorecovery.recovery import Annotation, AnnotationJournal

CHUNK = 64  # episodes a worker takes at a time
WORTH_WORKERS = 2000  # episodes: below, starting processes takes longer than labelling


@dataclass
class SourceTally:
    """What became of one source's episodes and frames."""

    labelled: int = 0  # derived now
    unchanged: int = 0  # found up to date
    discarded: int = 0  # by the annotator
    unannotated: int = 0  # recovery episodes without a boundary: no labels until they have one
    frames: Counter[Verdict] = field(default_factory=Counter)


@dataclass(frozen=True)
class Job:
    """One episode to label."""

    card: EpisodeCard
    boundary: int | None
    key: str


def label_store(
    store: EpisodeStore,
    spec: IntentSpec | None = None,
    workers: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[Source, SourceTally]:
    """Derives what is missing or out of date; running it again changes nothing."""
    spec = spec or IntentSpec()
    tallies = {source: SourceTally() for source in Source}
    label_files = LabelStore(store.labels_path)
    jobs: list[Job] = []
    for card, annotation in _annotated(store):
        tally = tallies[card.source]
        if annotation is not None and annotation.discard:
            tally.discarded += 1
            label_files.remove(card.id)
            continue
        boundary = annotation.boundary if annotation and card.source.is_recovery else None
        if card.source.is_recovery and boundary is None:
            tally.unannotated += 1
            label_files.remove(card.id)
            continue
        key = inputs_key(card, boundary, spec)
        known = label_files.card(card.id)
        if known is not None and known["key"] == key:
            tally.unchanged += 1
            tally.frames.update(counts_of(known))
        else:
            jobs.append(Job(card, boundary, key))
    for done, (job, written) in enumerate(_run(jobs, store.root, spec, workers), start=1):
        tally = tallies[job.card.source]
        tally.labelled += 1
        tally.frames.update(counts_of(written))
        on_progress(done, len(jobs))
    return {source: tally for source, tally in tallies.items() if tally != SourceTally()}


def _annotated(store: EpisodeStore) -> Iterator[tuple[EpisodeCard, Annotation | None]]:
    annotations = AnnotationJournal(store.annotations_path).latest()
    for identifier in store.ids():
        yield store.card(identifier), annotations.get(identifier)


def _run(jobs: list[Job], root: Path, spec: IntentSpec, workers: int) -> Iterator[tuple[Job, dict[str, Any]]]:
    if workers <= 1 or len(jobs) < WORTH_WORKERS:
        store = EpisodeStore(root)
        yield from ((job, _label(store, job, spec)) for job in jobs)
        return
    chunks = [jobs[start : start + CHUNK] for start in range(0, len(jobs), CHUNK)]
    spawn = multiprocessing.get_context("spawn")  # fork would copy locks that threads of ours hold
    with ProcessPoolExecutor(min(workers, len(chunks)), mp_context=spawn) as pool:
        written = pool.map(_label_chunk, [root] * len(chunks), chunks, [spec] * len(chunks))
        for chunk, cards in zip(chunks, written, strict=True):
            yield from zip(chunk, cards, strict=True)


def _label_chunk(root: Path, jobs: list[Job], spec: IntentSpec) -> list[dict[str, Any]]:
    store = EpisodeStore(root)
    return [_label(store, job, spec) for job in jobs]


def _label(store: EpisodeStore, job: Job, spec: IntentSpec) -> dict[str, Any]:
    try:
        derived = frame_labels(
            effector_m=store.stream(job.card.id, "effector_m"),
            reliable=store.stream(job.card.id, "reliable"),
            active=job.card.task.active_effectors,
            source=job.card.source,
            boundary=job.boundary,
            spec=spec,
        )
    except AnnotationError as error:
        raise AnnotationError(f"{job.card.id}: {error}; correct it with 'egorecovery annotate'") from None
    return LabelStore(store.labels_path).write(job.card.id, job.key, derived)
