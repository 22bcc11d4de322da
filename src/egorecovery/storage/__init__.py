"""Files that survive kills and show damage: atomic writes, checksummed JSON, journals, locks, manifests."""
