"""What can go wrong with a scoring session."""

from egorecovery.errors import EgoRecoveryError


class ScoringError(EgoRecoveryError):
    """Videos that cannot be scored, or a session that does not allow what was asked."""


class StaleRating(ScoringError):
    """A save that would overwrite a rating its author has not seen."""
