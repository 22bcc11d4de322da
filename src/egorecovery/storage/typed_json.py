"""The one converter between values and JSON: what is written, and what somebody else may have written, checked.

The type hints of a dataclass or a TypedDict say what is wanted: text, numbers, enums, Literal, tuple, list, Mapping,
unions, and Annotated[T, Must(...)] for bounds. A dataclass has exactly its fields. A TypedDict may have more than it
names: a newer version may say more. Size, depth and digits are bounded where bytes become JSON (`bounded_json.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from egorecovery.errors import EgoRecoveryError
from egorecovery.storage.json_readers import Must, Wrong, reader_of

__all__ = ["Must", "between", "from_json", "of_length", "to_json"]


def between(least: int | float, most: int | float, *, above_least: bool = False) -> Must:
    low, high = (f"{bound:,}" if isinstance(bound, int) else f"{bound:.4g}" for bound in (least, most))
    if above_least:
        return Must(f"above {low} and at most {high}", lambda value: least < value <= most)
    return Must(f"from {low} to {high}", lambda value: least <= value <= most)


def of_length(count: int, what: str) -> Must:
    return Must(f"of {count} {what}", lambda values: len(values) == count)


def to_json(value: Any, number: Callable[[float], Any] = float) -> Any:
    """Objects, lists, text and numbers; a dataclass is the object of its fields. `number` writes those with a point."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return number(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: to_json(getattr(value, entry.name), number) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(to_json(name)): to_json(entry, number) for name, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_json(entry, number) for entry in value]
    as_list = getattr(value, "tolist", None)  # numpy's arrays and numbers, without importing it here
    return value if as_list is None else to_json(as_list(), number)


def from_json(kind: Any, value: Any, where: str, error: type[EgoRecoveryError], advice: str = "") -> Any:
    """A value of this type, or an error of that kind: what is wrong, where, and what to do.

    `where` is the value's name, which its fields' names follow ("recipe": "recipe.policy.width"); where it ends in a
    space, as in "run/cell.json: ", they stand alone behind it.
    """
    try:
        return reader_of(kind).read(value)
    except Wrong as wrong:
        place = "".join(reversed(wrong.path))
        place = where + (place.removeprefix(".") if where.endswith(" ") else place)
        said = f"{place}{'' if place.endswith(' ') else ' '}{wrong.problem}"
        raise error(f"{said}; {advice}" if advice else said) from None
