"""What every diagnostic returns: a frozen record that JSON can hold."""

from math import isfinite
from typing import Any

from egorecovery.storage.typed_json import to_json


class Result:
    """Base of the result records, each a frozen dataclass."""

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and strings. What is not a finite number becomes null: JSON has no infinity."""
        return to_json(self, lambda number: number if isfinite(number) else None)
