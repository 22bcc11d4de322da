"""How a value of each type is read from JSON: one reader per type, made once; `typed_json.from_json` uses them."""

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


class Wrong(Exception):
    """What is wrong with a value, and the way to it from the outermost, the last part first."""

    def __init__(self, problem: str, *path: str) -> None:
        self.problem, self.path = problem, list(path)


@dataclass(frozen=True)
class Reader:
    words: str  # what is wanted, after "must be"
    read: Callable[[Any], Any]


def _read_at(step: str, reader: Reader, value: Any) -> Any:
    try:
        return reader.read(value)
    except Wrong as wrong:
        wrong.path.append(step)
        raise


def _unwanted(words: str, value: Any) -> Wrong:
    return Wrong(f"must be {words}, got {short_repr(value)}")


@cache
def reader_of(kind: Any) -> Reader:
    origin, parts = get_origin(kind), get_args(kind)
    if kind in (Any, object):
        return Reader("anything", lambda value: value)
    if isinstance(kind, NewType):
        return reader_of(kind.__supertype__)
    if origin in (Required, NotRequired):
        return reader_of(parts[0])
    if origin is Annotated:
        return _bounded(reader_of(parts[0]), [part for part in parts[1:] if isinstance(part, Must)])
    if origin in (Union, types.UnionType):
        return _union(parts)
    if origin is Literal:
        return _choice(parts, {(type(choice), choice): choice for choice in parts})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choice([entry.value for entry in kind], {(type(entry.value), entry.value): entry for entry in kind})
    if origin is tuple and parts[-1] is not Ellipsis:
        return _fixed_list(tuple(map(reader_of, parts)))
    if origin in (tuple, list):
        return _list(reader_of(parts[0]), origin)
    if origin in (Mapping, dict):
        return _mapping(reader_of(parts[0]), reader_of(parts[1]))
    if is_typeddict(kind):
        return _open_object(kind)
    if is_dataclass(kind):
        return _record(kind)
    return _plain(kind)


def _plain(kind: Any) -> Reader:
    words = _PLAIN[kind]

    def read(value: Any) -> Any:
        if type(value) is kind:  # to Python a bool is an int
            return value
        if kind is float and type(value) is int:  # 2 and 2.0 are the same number of seconds
            try:
                return float(value)
            except OverflowError:
                raise Wrong("is too large for a number") from None
        raise _unwanted(words, value)

    return Reader(words, read)


def _bounded(inner: Reader, bounds: Sequence[Must]) -> Reader:
    words = " ".join([inner.words, *(bound.words for bound in bounds)])

    def read(value: Any) -> Any:
        try:
            taken = inner.read(value)
        except Wrong as wrong:
            raise wrong if wrong.path else _unwanted(words, value) from None
        if not all(bound.holds(taken) for bound in bounds):
            raise _unwanted(words, value)
        return taken

    return Reader(words, read)


def _union(parts: Sequence[Any]) -> Reader:
    # A float takes whole numbers too, and null is named last.
    ranked = sorted(parts, key=lambda part: (part is types.NoneType, part is float))
    readers = [reader_of(part) for part in ranked]
    words = " or ".join(reader_of(part).words for part in ranked if not (part is int and float in parts))
    plain = {part for part in parts if part in _PLAIN}

    def read(value: Any) -> Any:
        if type(value) in plain:
            return value
        deepest = _unwanted(words, value)
        for reader in readers:
            try:
                return reader.read(value)
            except Wrong as wrong:
                if len(wrong.path) > len(deepest.path):
                    deepest = wrong
        raise deepest

    return Reader(words, read)


def _choice(choices: Sequence[Any], taken: Mapping[tuple[type, Any], Any]) -> Reader:
    words = f"{'one of ' * (len(choices) > 1)}{', '.join(map(str, choices))}"

    def read(value: Any) -> Any:
        try:
            return taken[str if isinstance(value, str) else type(value), value]
        except (KeyError, TypeError):  # or a list, which has no hash
            raise _unwanted(words, value) from None

    return Reader(words, read)


def _require_list(value: Any) -> None:
    if not isinstance(value, (list, tuple)):
        raise _unwanted("a list", value)


def _list(entry: Reader, kind: type) -> Reader:
    def read(value: Any) -> Any:
        _require_list(value)
        try:
            return kind(map(entry.read, value))
        except Wrong:  # again, to say which one
            return kind(_read_at(f"[{index}]", entry, item) for index, item in enumerate(value))

    return Reader("a list", read)


def _fixed_list(entries: tuple[Reader, ...]) -> Reader:
    words = f"a list of {len(entries)}"

    def read(value: Any) -> Any:
        _require_list(value)
        if len(value) != len(entries):
            raise _unwanted(words, value)
        pairs = enumerate(zip(entries, value, strict=True))
        return tuple(_read_at(f"[{index}]", entry, item) for index, (entry, item) in pairs)

    return Reader(words, read)


def _require_object(value: Any) -> None:
    if not isinstance(value, Mapping):
        raise _unwanted("an object", value)


def _mapping(names: Reader, entries: Reader) -> Reader:
    def read(value: Any) -> Any:
        _require_object(value)
        steps = ((f".{_short(name)}", name, entry) for name, entry in value.items())
        return {_read_at(step, names, name): _read_at(step, entries, entry) for step, name, entry in steps}

    return Reader("an object", read)


def _hints(kind: Any) -> dict[str, Reader]:
    return {name: reader_of(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}


def _open_object(kind: Any) -> Reader:
    readers, needed = _hints(kind), sorted(kind.__required_keys__)

    def read(value: Any) -> Any:
        _require_object(value)
        _require_names(needed, value)
        for name, reader in readers.items():
            if name in value:
                _read_at(f".{name}", reader, value[name])
        return value

    return Reader("an object", read)


def _record(kind: Any) -> Reader:
    hints = _hints(kind)
    readers = {entry.name: hints[entry.name] for entry in fields(kind) if entry.init}
    needed = [entry.name for entry in fields(kind) if entry.default is MISSING and entry.default_factory is MISSING]

    def read(value: Any) -> Any:
        _require_object(value)
        for name in value:
            if name not in readers:
                raise Wrong(f"is not known; {_likely(str(name), readers)}", f".{_short(name)}")
        _require_names(needed, value)
        return kind(**{name: _read_at(f".{name}", readers[name], entry) for name, entry in value.items()})

    return Reader("an object", read)


def _require_names(needed: Sequence[str], value: Mapping[str, Any]) -> None:
    for name in needed:
        if name not in value:
            raise Wrong("is missing", f".{name}")


def _likely(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name[:100], known, n=1)
    return f"did you mean {near[0]}?" if near else f"it may have {', '.join(known)}"


def _short(name: object) -> str:
    words = str(name)
    return words if len(words) <= 60 else f"{words[:57]}..."
