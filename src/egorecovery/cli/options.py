"""What a verb's options are: read from its dataclass, for the help page and for messages about mistyped ones."""

import ast
import inspect
import re
import shlex
import textwrap
import types
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from operator import attrgetter
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tyro.conf import OmitArgPrefixes, Positional

LONGEST_CHOICE = 40  # characters of choices that are shown beside an option instead of below it
NAMED = {int: "N", float: "X", str: "TEXT"}
VALUES = {  # better words for a value than its type
    "--allow-host": "NAME", "--annotator": "NAME", "--camera": "NAME=CAMERA", "--camera-size": "WIDTHxHEIGHT",
    "--device": "DEVICE", "--episode": "EPISODE", "--host": "ADDRESS", "--limit": "NAME=VALUE", "--only": "PATTERN",
    "--operator": "NAME", "--rater": "NAME", "--revision": "REVISION", "--server": "ADDRESS", "--set": "NAME VALUE",
    "--starts-seed": "NAME", "--task": "TASK",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Option:
    field: str  # dotted, where it is in a dataclass of the verb's
    flag: str  # as it is typed, or the name of a positional one in capitals
    words: str  # what it is for
    heading: str
    positional: bool
    required: bool
    values: Literal["none", "one", "several", "pairs"]
    kind: type  # of a single value
    choices: tuple[str, ...]
    default: Any
    metavar: str | None

    @property
    def value(self) -> str:
        """What is written after the flag."""
        if self.values == "none":
            return ""
        shown = self.metavar or VALUES.get(self.flag, NAMED.get(self.kind, "PATH"))
        if self.choices:
            joined = "|".join(self.choices)
            shown = joined if len(joined) <= LONGEST_CHOICE else self.flag.strip("-").replace("-", "_").upper()
        return shown if self.values == "one" else f"{shown} ..."

    @property
    def invocation(self) -> str:
        if self.positional:
            return f"{self.flag} ..." if self.values == "several" else self.flag
        return f"{self.flag} {self.value}".rstrip()

    @property
    def listed_choices(self) -> tuple[str, ...]:
        """Choices that neither the flag's line nor the words name."""
        beside = not self.positional and "|".join(self.choices) in self.value
        return () if beside or all(choice in self.words for choice in self.choices) else self.choices


def options_of(verb: type) -> list[Option]:
    return list(_options(verb, "options"))


def command_of(name: str, verb: Any, *, without: Collection[str] = ()) -> str:
    """The line that gives a verb these options; those that have their defaults are left out."""
    words = ["egorecovery", *name.split()]
    for option in sorted(options_of(type(verb)), key=lambda one: not one.positional):
        value = attrgetter(option.field)(verb)
        if option.flag in without or (not option.required and value == option.default):
            continue
        words += _written(option, value)
    return shlex.join(words)


def is_flag(word: str) -> bool:
    """Whether a word of a line begins an option; numbers below zero and "-" are values."""
    return word.startswith("-") and word != "-" and not re.match(r"-\.?\d", word)


def _written(option: Option, value: Any) -> list[str]:
    if option.values == "none":
        return [option.flag]
    if isinstance(value, dict):
        return [option.flag, *(part for pair in value.items() for part in pair)]
    values = [str(each) for each in (value if isinstance(value, tuple) else (value,))]
    if option.positional:  # the only words that can begin so are paths: others are choices
        return [f"./{each}" if is_flag(each) else each for each in values]
    if len(values) == 1 and is_flag(values[0]):  # alone it would be read as an option
        return [f"{option.flag}={values[0]}"]
    return [option.flag, *values]


def _options(verb: type, heading: str) -> Iterator[Option]:
    """`HEADINGS` of a verb says which field begins which group; what comes before the first is the usual."""
    headings: Mapping[str, str] = getattr(verb, "HEADINGS", {})
    hints, words = get_type_hints(verb, include_extras=True), _field_words(verb)
    for field in fields(verb):
        heading = headings.get(field.name, heading)
        annotation, markers = _unwrapped(hints[field.name])
        if OmitArgPrefixes in markers:  # settings of their own, such as those of one data format
            title = (inspect.getdoc(annotation) or "").rstrip(".")
            yield from (replace(option, field=f"{field.name}.{option.field}") for option in _options(annotation, title))
            continue
        named = [name for marker in markers if (name := getattr(marker, "name", None)) and marker is not Positional]
        given = next(iter(named), field.name)
        positional = Positional in markers
        shown = next((marker.metavar for marker in markers if getattr(marker, "metavar", None)), None)
        values, kind, choices = _shape(annotation)
        bare = field.default is MISSING and field.default_factory is MISSING
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        yield Option(
            field=field.name,
            flag=(shown or given.upper()) if positional else f"--{given.replace('_', '-')}",
            words=words.get(field.name, ""),
            heading=heading,
            positional=positional,
            required=bare,
            values=values,
            kind=kind,
            choices=choices,
            default=None if bare else default,
            metavar=shown,
        )


def _unwrapped(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    return (
        (get_args(annotation)[0], annotation.__metadata__) if get_origin(annotation) is Annotated else (annotation, ())
    )


def _shape(annotation: Any) -> tuple[Literal["none", "one", "several", "pairs"], type, tuple[str, ...]]:
    """How many values of which kind, and which of them are possible."""
    annotation, _ = _unwrapped(annotation)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        (annotation,) = (each for each in inner if each is not type(None))
        return _shape(annotation)
    if origin is tuple:
        return "several", *_shape(inner[0])[1:]
    if origin is dict:
        return "pairs", str, ()
    if origin is Literal:
        return "one", str, tuple(each for each in inner if each)
    return ("none" if annotation is bool else "one"), annotation, ()


def _field_words(verb: type) -> dict[str, str]:
    """The string below each field, a line for each of its paragraphs."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(verb))).body
    assert isinstance(body, ast.ClassDef)
    words = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                paragraphs = inspect.cleandoc(said).split("\n\n")
                words[name] = "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    return words
