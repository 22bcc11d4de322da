"""A recipe's settings by dotted name: compared with a saved one's, and changed from a command line."""

import difflib
from collections.abc import Mapping
from typing import Any

from egorecovery.errors import RecipeError
from egorecovery.storage.bounded_json import BadJson, parse_json
from egorecovery.storage.typed_json import from_json, to_json


def flat(record: Any, prefix: str = "") -> dict[str, Any]:
    """{"policy.width": 256, ...}"""
    if not isinstance(record, dict):
        return {prefix: record}
    parts = (flat(value, f"{prefix}.{name}" if prefix else name) for name, value in record.items())
    return {key: value for part in parts for key, value in part.items()}


def differences(first: Any, second: Any) -> list[str]:
    """Field by field, "policy.width: 256 against 128"."""
    left, right = flat(to_json(first)), flat(to_json(second))
    return [
        f"{name}: {left.get(name, 'absent')} against {right.get(name, 'absent')}"
        for name in dict.fromkeys([*left, *right])
        if left.get(name, "absent") != right.get(name, "absent")
    ]


def changed(recipe: Any, changes: Mapping[str, str]) -> Any:
    """A recipe with fields set by dotted name, as a command line gives them: {"optimisation.steps": "200"}."""
    record = to_json(recipe)
    for name, text in changes.items():
        *path, last = name.split(".")
        place = record
        for part in path:
            place = place.get(part) if isinstance(place, dict) else None
        if not isinstance(place, dict) or last not in place:
            near = difflib.get_close_matches(name, flat(record), n=1)
            hint = f"did you mean '{near[0]}'?" if near else "docs/training.md lists some, a run's recipe.json has all"
            raise RecipeError(f"there is no setting '{name}'; {hint}")
        value = _parsed(text)
        place[last] = text if isinstance(place[last], str) and not isinstance(value, str) else value  # a name may be 7
    return from_json(type(recipe), record, "recipe", RecipeError)


def _parsed(text: str) -> Any:
    try:
        return parse_json(text.encode())
    except (BadJson, UnicodeEncodeError):
        return text
