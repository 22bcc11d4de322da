"""Cost of demonstrations: accepted ones per operator hour, and how the hour was spent."""

from egorecovery.audit.accounts import Account, Audit, Use, audit, ratio_of_averages
from egorecovery.audit.ledger import Ledger, read_ledger

__all__ = ["Account", "Audit", "Ledger", "Use", "audit", "ratio_of_averages", "read_ledger"]
