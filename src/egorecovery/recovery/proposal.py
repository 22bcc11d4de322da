"""Candidates for a store's episodes, and confirming them in one go."""

import numpy as np

from egorecovery.episodes import RATE_HZ, EpisodeStore
from egorecovery.recovery.annotation import Annotation, AnnotationJournal
from egorecovery.recovery.candidate import Candidate, candidate_boundary


def propose(store: EpisodeStore, identifier: str) -> Candidate:
    """The candidate boundary of one episode: where its data marks the end, otherwise from its active effectors."""
    card = store.card(identifier)
    marked = card.recovery_proposal
    if isinstance(marked, dict) and isinstance(end_s := marked.get("end_s"), (int, float)):
        return Candidate(int(np.clip(round(end_s * RATE_HZ), 0, card.frames - 1)), clarity=1.0)
    return candidate_boundary(store.stream(identifier, "effector_m")[:, list(card.task.active_effectors)])


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
