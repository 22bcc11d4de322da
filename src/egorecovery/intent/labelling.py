"""Labels a whole store: in parallel, only what changed, with an account of every frame."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from egorecovery.episodes import EpisodeCard, EpisodeStore, Source
from egorecovery.errors import AnnotationError, StoreDamaged
from egorecovery.executors import run_jobs
from egorecovery.intent.current_labels import label_state, wanted_key
from egorecovery.intent.frame_labels import Verdict, frame_labels
from egorecovery.intent.label_store import LabelCard, LabelStore, counts_of
from egorecovery.intent.target import IntentSpec
from egorecovery.recovery import Annotation, AnnotationJournal

CHUNK = 32  # episodes a worker takes at a time
WORTH_WORKERS = 2000  # episodes


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
    on_damage: Callable[[str, str], None] = lambda episode, problem: print(
        f"{episode} is skipped: {problem}", file=sys.stderr
    ),
) -> dict[Source, SourceTally]:
    """Derives what is missing or out of date; running it again changes nothing.

    An episode that cannot be read, or whose bytes have changed, is skipped, and `on_damage` gets the reason.
    """
    spec = spec or IntentSpec()
    tallies = {source: SourceTally() for source in Source}
    label_files = LabelStore(store.labels_path)
    label_files.remove_drafts()
    jobs: list[Job] = []
    for card, annotation in _annotated(store, on_damage):
        tally, known = tallies[card.source], label_files.card(card.id)
        state = label_state(card, annotation, known, spec)
        if state == "unannotated" and label_files.there(card.id):
            raise StoreDamaged(
                f"{store.annotations_path}: {card.id} was annotated, for it has labels, and now it is not: lines "
                f"were lost; restore the file from a copy, or remove labels/{card.id}.json and annotate it again"
            )
        if state in ("unannotated", "discarded"):
            label_files.remove(card.id)
            tally.unannotated += state == "unannotated"
            tally.discarded += state == "discarded"
        elif state == "current":
            assert known is not None, "current labels have a card"
            tally.unchanged += 1
            tally.frames.update(counts_of(known))
        else:
            key = wanted_key(card, annotation, spec)
            assert key is not None, "stale labels are to be derived again"
            boundary = annotation.boundary if annotation and card.source.is_recovery else None
            jobs.append(Job(card, boundary, key))
    damaged = store.damaged_among([job.card.id for job in jobs])
    for episode, problem in damaged.items():
        label_files.remove(episode)
        on_damage(episode, problem)
    jobs = [job for job in jobs if job.card.id not in damaged]
    for done, (job, written) in enumerate(_run(jobs, store.root, spec, workers), start=1):
        tally = tallies[job.card.source]
        tally.labelled += 1
        tally.frames.update(counts_of(written))
        on_progress(done, len(jobs))
    return {source: tally for source, tally in tallies.items() if tally != SourceTally()}


def _annotated(
    store: EpisodeStore, on_damage: Callable[[str, str], None]
) -> Iterator[tuple[EpisodeCard, Annotation | None]]:
    annotations = AnnotationJournal(store.annotations_path).latest()
    for identifier in store.ids():
        try:
            card = store.card(identifier)
        except StoreDamaged as error:
            on_damage(identifier, str(error))
            continue
        yield card, annotations.get(identifier)


def _run(jobs: list[Job], root: Path, spec: IntentSpec, workers: int) -> Iterator[tuple[Job, LabelCard]]:
    # Below, starting processes takes longer than labelling.
    workers = workers if len(jobs) >= WORTH_WORKERS else 1
    chunks = [jobs[start : start + CHUNK] for start in range(0, len(jobs), CHUNK)]
    written = run_jobs(partial(_label_chunk, root, spec), chunks, workers)
    for chunk, cards in zip(chunks, written, strict=True):
        yield from zip(chunk, cards, strict=True)


def _label_chunk(root: Path, spec: IntentSpec, jobs: list[Job]) -> list[LabelCard]:
    store = EpisodeStore(root)
    return [_label(store, job, spec) for job in jobs]


def _label(store: EpisodeStore, job: Job, spec: IntentSpec) -> LabelCard:
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
