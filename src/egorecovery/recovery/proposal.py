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
    waiting = [card.id for card in map(store.card, store.ids()) if card.source.is_recovery and card.id not in known]
    confirmed = []
    for identifier in waiting:
        frame = propose(store, identifier).frame
        confirmed.append(
            Annotation(episode=identifier, boundary=frame, candidate=frame, annotator=annotator, saved_at=saved_at)
        )
    journal.save_first(confirmed)
    return confirmed
