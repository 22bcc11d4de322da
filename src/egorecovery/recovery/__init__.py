"""Where the correction ends: candidates, annotations and the labels they give."""

from egorecovery.recovery.annotation import Annotation, AnnotationJournal, Quality
from egorecovery.recovery.candidate import Candidate, candidate_boundary
from egorecovery.recovery.labels import labels, require_boundary
from egorecovery.recovery.proposal import confirm_candidates, propose

__all__ = [
    "Annotation",
    "AnnotationJournal",
    "Candidate",
    "Quality",
    "candidate_boundary",
    "confirm_candidates",
    "labels",
    "propose",
    "require_boundary",
]
