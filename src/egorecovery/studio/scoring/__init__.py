"""Blind scoring of rollout videos: neutral copies, two raters, adjudication, unblinding at export."""

from egorecovery.studio.scoring.criteria import Criteria, criteria_for
from egorecovery.studio.scoring.errors import ScoringError, StaleRating
from egorecovery.studio.scoring.export import Unblinded, unblind, write_export
from egorecovery.studio.scoring.inputs import clips_of
from egorecovery.studio.scoring.ratings import Rating, Ratings
from egorecovery.studio.scoring.session import Plan, Session, create_session, is_session, open_session

__all__ = [
    "Criteria",
    "Plan",
    "Rating",
    "Ratings",
    "ScoringError",
    "Session",
    "StaleRating",
    "Unblinded",
    "clips_of",
    "create_session",
    "criteria_for",
    "is_session",
    "open_session",
    "unblind",
    "write_export",
]
