"""What demonstrations cost: accepted ones per operator hour, and what the hour went into."""

from egorecovery.audit.accounts import Account, Audit, Use, audit, ratio_of_averages
from egorecovery.audit.ledger import Ledger, read_ledger

__all__ = ["Account", "Audit", "Ledger", "Use", "audit", "ratio_of_averages", "read_ledger"]
