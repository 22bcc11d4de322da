"""Files that survive kills and detect damage: atomic writes, checksummed JSON, journals, locks, manifests."""
