"""Errors of scoring sessions."""

from egorecovery.errors import EgoRecoveryError


class ScoringError(EgoRecoveryError):
    """Videos that cannot be scored, or an action that the session does not allow."""


class StaleRating(ScoringError):
    """A save that would overwrite a rating that its author has not seen."""
