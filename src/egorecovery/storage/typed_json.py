"""The one converter between values and JSON: what is written, and what somebody else may have written, checked.

The type hints of a dataclass or a TypedDict say what is wanted: text, numbers, enums, Literal, tuple, list, Mapping,
unions, and Annotated[T, Must(...)] for bounds. A dataclass has exactly its fields. A TypedDict may have more than it
names: a newer version may say more. Size, depth and digits are bounded where bytes become JSON (`bounded_json.py`).
"""

import difflib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from egorecovery.errors import EgoRecoveryError
from egorecovery.storage.bounded_json import short_repr

_PLAIN: dict[Any, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    types.NoneType: "null",
}


@dataclass(frozen=True)
class Must:
    """What a value must be besides its type; the words go on after those of the type: "a number" "above 0"."""

    words: str
    holds: Callable[[Any], bool]


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
        return _reader(kind).read(value)
    except _Wrong as wrong:
        place = "".join(reversed(wrong.path))
        place = where + (place.removeprefix(".") if where.endswith(" ") else place)
        said = f"{place}{'' if place.endswith(' ') else ' '}{wrong.problem}"
        raise error(f"{said}; {advice}" if advice else said) from None


class _Wrong(Exception):
    """What is wrong with a value, and the way to it from the outermost, the last part first."""

    def __init__(self, problem: str, *path: str) -> None:
        self.problem, self.path = problem, list(path)


@dataclass(frozen=True)
class _Reader:
    words: str  # what is wanted, after "must be"
    read: Callable[[Any], Any]


def _read_at(step: str, reader: _Reader, value: Any) -> Any:
    try:
        return reader.read(value)
    except _Wrong as wrong:
        wrong.path.append(step)
        raise


def _unwanted(words: str, value: Any) -> _Wrong:
    return _Wrong(f"must be {words}, got {short_repr(value)}")


@cache
def _reader(kind: Any) -> _Reader:
    origin, parts = get_origin(kind), get_args(kind)
    if kind in (Any, object):
        return _Reader("anything", lambda value: value)
    if isinstance(kind, NewType):
        return _reader(kind.__supertype__)
    if origin in (Required, NotRequired):
        return _reader(parts[0])
    if origin is Annotated:
        return _bounded(_reader(parts[0]), [part for part in parts[1:] if isinstance(part, Must)])
    if origin in (Union, types.UnionType):
        return _union(parts)
    if origin is Literal:
        return _choice(parts, {(type(choice), choice): choice for choice in parts})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choice([entry.value for entry in kind], {(type(entry.value), entry.value): entry for entry in kind})
    if origin is tuple and parts[-1] is not Ellipsis:
        return _fixed_list(tuple(map(_reader, parts)))
    if origin in (tuple, list):
        return _list(_reader(parts[0]), origin)
    if origin in (Mapping, dict):
        return _mapping(_reader(parts[0]), _reader(parts[1]))
    if is_typeddict(kind):
        return _open_object(kind)
    if is_dataclass(kind):
        return _record(kind)
    return _plain(kind)


def _plain(kind: Any) -> _Reader:
    words = _PLAIN[kind]

    def read(value: Any) -> Any:
        if type(value) is kind:  # to Python a bool is an int
            return value
        if kind is float and type(value) is int:  # 2 and 2.0 are the same number of seconds
            try:
                return float(value)
            except OverflowError:
                raise _Wrong("is too large for a number") from None
        raise _unwanted(words, value)

    return _Reader(words, read)


def _bounded(inner: _Reader, bounds: Sequence[Must]) -> _Reader:
    words = " ".join([inner.words, *(bound.words for bound in bounds)])

    def read(value: Any) -> Any:
        try:
            taken = inner.read(value)
        except _Wrong as wrong:
            raise wrong if wrong.path else _unwanted(words, value) from None
        if not all(bound.holds(taken) for bound in bounds):
            raise _unwanted(words, value)
        return taken

    return _Reader(words, read)


def _union(parts: Sequence[Any]) -> _Reader:
    # A float takes whole numbers too, and null is named last.
    ranked = sorted(parts, key=lambda part: (part is types.NoneType, part is float))
    readers = [_reader(part) for part in ranked]
    words = " or ".join(_reader(part).words for part in ranked if not (part is int and float in parts))
    plain = {part for part in parts if part in _PLAIN}

    def read(value: Any) -> Any:
        if type(value) in plain:
            return value
        deepest = _unwanted(words, value)
        for reader in readers:
            try:
                return reader.read(value)
            except _Wrong as wrong:
                if len(wrong.path) > len(deepest.path):
                    deepest = wrong
        raise deepest

    return _Reader(words, read)


def _choice(choices: Sequence[Any], taken: Mapping[tuple[type, Any], Any]) -> _Reader:
    words = f"{'one of ' * (len(choices) > 1)}{', '.join(map(str, choices))}"

    def read(value: Any) -> Any:
        try:
            return taken[str if isinstance(value, str) else type(value), value]
        except (KeyError, TypeError):  # or a list, which has no hash
            raise _unwanted(words, value) from None

    return _Reader(words, read)


def _require_list(value: Any) -> None:
    if not isinstance(value, (list, tuple)):
        raise _unwanted("a list", value)


def _list(entry: _Reader, kind: type) -> _Reader:
    def read(value: Any) -> Any:
        _require_list(value)
        try:
            return kind(map(entry.read, value))
        except _Wrong:  # again, to say which one
            return kind(_read_at(f"[{index}]", entry, item) for index, item in enumerate(value))

    return _Reader("a list", read)


def _fixed_list(entries: tuple[_Reader, ...]) -> _Reader:
    words = f"a list of {len(entries)}"

    def read(value: Any) -> Any:
        _require_list(value)
        if len(value) != len(entries):
            raise _unwanted(words, value)
        pairs = enumerate(zip(entries, value, strict=True))
        return tuple(_read_at(f"[{index}]", entry, item) for index, (entry, item) in pairs)

    return _Reader(words, read)


def _require_object(value: Any) -> None:
    if not isinstance(value, Mapping):
        raise _unwanted("an object", value)


def _mapping(names: _Reader, entries: _Reader) -> _Reader:
    def read(value: Any) -> Any:
        _require_object(value)
        steps = ((f".{_short(name)}", name, entry) for name, entry in value.items())
        return {_read_at(step, names, name): _read_at(step, entries, entry) for step, name, entry in steps}

    return _Reader("an object", read)


def _hints(kind: Any) -> dict[str, _Reader]:
    return {name: _reader(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}


def _open_object(kind: Any) -> _Reader:
    readers, needed = _hints(kind), sorted(kind.__required_keys__)

    def read(value: Any) -> Any:
        _require_object(value)
        _require_names(needed, value)
        for name, reader in readers.items():
            if name in value:
                _read_at(f".{name}", reader, value[name])
        return value

    return _Reader("an object", read)


def _record(kind: Any) -> _Reader:
    hints = _hints(kind)
    readers = {entry.name: hints[entry.name] for entry in fields(kind) if entry.init}
    needed = [entry.name for entry in fields(kind) if entry.default is MISSING and entry.default_factory is MISSING]

    def read(value: Any) -> Any:
        _require_object(value)
        for name in value:
            if name not in readers:
                raise _Wrong(f"is not known; {_likely(str(name), readers)}", f".{_short(name)}")
        _require_names(needed, value)
        return kind(**{name: _read_at(f".{name}", readers[name], entry) for name, entry in value.items()})

    return _Reader("an object", read)


def _require_names(needed: Sequence[str], value: Mapping[str, Any]) -> None:
    for name in needed:
        if name not in value:
            raise _Wrong("is missing", f".{name}")


def _likely(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name[:100], known, n=1)
    return f"did you mean {near[0]}?" if near else f"it may have {', '.join(known)}"


def _short(name: object) -> str:
    words = str(name)
    return words if len(words) <= 60 else f"{words[:57]}..."
