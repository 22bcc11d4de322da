"""Everything that is wrong with a store, in one list: `egorecovery verify` does not stop at the first."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from egorecovery.episodes import EpisodeStore
from egorecovery.errors import EgoRecoveryError
from egorecovery.executors import cores
from egorecovery.intent.label_store import LabelStore
from egorecovery.recovery import AnnotationJournal
from egorecovery.storage.manifest import Damage

JOURNAL_ADVICE = "restore it from a copy"


def store_damages(
    store: EpisodeStore, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> list[Damage]:
    """Every byte is read: nothing is believed because it was checked before."""
    all_damages: list[Damage] = []
    try:
        identifiers = store.folders()
    except (EgoRecoveryError, OSError):
        identifiers = []  # named below
    with ThreadPoolExecutor(cores()) as pool:  # hashing releases the interpreter's lock
        for done, damages in enumerate(pool.map(store.damages, identifiers), start=1):
            all_damages += damages
            on_progress(done, len(identifiers))
    annotations = AnnotationJournal(store.annotations_path)
    all_damages += store.damages_beside_episodes()
    problems = annotations.problems()
    all_damages += [Damage(annotations.journal.path, problem, JOURNAL_ADVICE) for problem in problems]
    if not problems:
        all_damages += _lost_annotations(store, annotations)
    return all_damages + LabelStore(store.labels_path).damages()


def store_notes(store: EpisodeStore) -> list[str]:
    """What is no damage, and worth knowing."""
    notes = []
    for journal in (store.collection.journal, AnnotationJournal(store.annotations_path).journal):
        if not journal.problems() and journal.old_lines:
            notes.append(
                f"{journal.path}: its first {journal.old_lines} lines are of an older version; whether some were lost "
                "before the next one was written is not known"
            )
    return notes


def _lost_annotations(store: EpisodeStore, annotations: AnnotationJournal) -> list[Damage]:
    """Labels of a recovery episode are derived from its annotation, which is never taken back."""
    known, labels = annotations.latest(), LabelStore(store.labels_path)
    lost = []
    for name in labels.episodes():
        try:
            recovery = name in store and store.card(name).source.is_recovery
        except (EgoRecoveryError, OSError):
            continue  # named already
        if recovery and name not in known:
            path = annotations.journal.path
            lost.append(Damage(path, f"has lost the annotation of {name}, which has labels", JOURNAL_ADVICE))
    return lost
