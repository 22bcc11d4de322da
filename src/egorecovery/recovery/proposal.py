"""Candidates for a store's episodes, and confirming them in one go."""

from egorecovery.episodes import EpisodeStore
from egorecovery.recovery.annotation import Annotation, AnnotationJournal
from egorecovery.recovery.candidate import Candidate, candidate_boundary


def propose(store: EpisodeStore, identifier: str) -> Candidate:
    """The candidate boundary of one episode, from the motion of its active effectors."""
    active = list(store.card(identifier).task.active_effectors)
    return candidate_boundary(store.stream(identifier, "effector_m")[:, active])


def confirm_candidates(store: EpisodeStore, annotator: str, saved_at: str = "") -> list[Annotation]:
    """Takes the candidate as the boundary of every recovery episode that nobody has annotated yet."""
    journal = AnnotationJournal(store.annotations_path)
    known = journal.latest()
    saved = []
    for card in map(store.card, store.ids()):
        if not card.source.is_recovery or card.id in known:
            continue
        frame = propose(store, card.id).frame
        annotation = Annotation(
            episode=card.id, boundary=frame, candidate=frame, annotator=annotator, saved_at=saved_at
        )
        saved.append(journal.save(annotation, n_frames=card.frames, seen_revision=0))
    return saved
