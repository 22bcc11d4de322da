"""Recipes as JSON: what a run saves, what a checkpoint is compared with, what a command line may change."""

import difflib
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from egorecovery.errors import RecipeError
from egorecovery.storage.bounded_json import BadJson, parse_json


def to_json(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: to_json(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, (tuple, list)):
        return [to_json(entry) for entry in value]
    return str(value) if isinstance(value, StrEnum) else value


def from_json(kind: Any, record: Any, where: str = "recipe") -> Any:
    """A value of a type (frozen dataclasses, tuples, enums, literals, numbers) from JSON; messages name the field."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        wanted = [entry for entry in get_args(kind) if entry is not type(None)]
        return None if record is None else from_json(wanted[0], record, where)
    if origin is Literal:
        if record not in get_args(kind):
            raise RecipeError(f"{where} must be one of {', '.join(map(str, get_args(kind)))}, got {record!r}")
        return record
    if origin is tuple:
        if not isinstance(record, (list, tuple)):
            raise RecipeError(f"{where} must be a list, got {record!r}")
        return tuple(from_json(get_args(kind)[0], entry, f"{where}[{index}]") for index, entry in enumerate(record))
    if is_dataclass(kind):
        return _dataclass_from(kind, record, where)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        try:
            return kind(record)
        except ValueError:
            raise RecipeError(f"{where} must be one of {', '.join(kind)}, got {record!r}") from None
    if kind is float and isinstance(record, int) and not isinstance(record, bool):
        try:
            return float(record)
        except OverflowError:
            raise RecipeError(f"{where} is too large for a number") from None
    if type(record) is not kind:
        raise RecipeError(f"{where} must be of type {kind.__name__}, got {record!r}")
    return record


def _dataclass_from(kind: Any, record: Any, where: str) -> Any:
    if not isinstance(record, Mapping):
        raise RecipeError(f"{where} must be an object, got {record!r}")
    hints = get_type_hints(kind)
    for name in record:
        if name not in hints:
            near = difflib.get_close_matches(name, hints, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it may have {', '.join(hints)}"
            raise RecipeError(f"{where}.{name} is not known; {hint}")
    needed = [entry.name for entry in fields(kind) if entry.default is MISSING and entry.default_factory is MISSING]
    for name in needed:
        if name not in record:
            raise RecipeError(f"{where}.{name} is missing")
    return kind(**{name: from_json(hints[name], value, f"{where}.{name}") for name, value in record.items()})


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
            raise RecipeError(f"there is no setting '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))
        value = _parsed(text)
        place[last] = text if isinstance(place[last], str) and not isinstance(value, str) else value  # a name may be 7
    return from_json(type(recipe), record)


def _parsed(text: str) -> Any:
    try:
        return parse_json(text.encode())
    except (BadJson, UnicodeEncodeError):
        return text
