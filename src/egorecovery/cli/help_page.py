"""What `egorecovery VERB --help` shows: how it is written, an example, and the options in groups."""

import inspect
import shutil
import sys
import textwrap
from typing import Any

from egorecovery.cli.options import Option, options_of

WIDEST = 100
LEFT = 24  # columns for what is typed; what is longer has a line of its own


def help_page(name: str, verb: type, width: int | None = None) -> str:
    if width is None:
        columns = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 80
        width = min(max(columns, 60), WIDEST)
    options = options_of(verb)
    lines = [usage(name, options), *_example(verb), ""]
    for paragraph in (inspect.getdoc(verb) or "").split("\n\n"):
        lines += [*textwrap.wrap(paragraph, width, break_on_hyphens=False), ""]
    groups: dict[str, list[Option]] = {"": [], "required": []}  # these come first
    for option in options:
        heading = "" if option.positional else "required" if option.required else option.heading
        groups.setdefault(heading, []).append(option)
    for heading, members in groups.items():
        if members:
            lines += [f"{heading}:"] if heading else []
            lines += [line for option in members for line in _described(option, width)]
            lines.append("")
    return "\n".join(lines).rstrip()


def usage(name: str, options: list[Option]) -> str:
    words = [option.invocation for option in options if option.positional]
    words += [option.invocation for option in options if option.required and not option.positional]
    words += ["[options]"] if any(not option.required for option in options) else []
    return textwrap.fill(
        f"usage: egorecovery {' '.join([name, *words])}", 80, subsequent_indent="    ", break_on_hyphens=False
    )


def _example(verb: Any) -> list[str]:
    line = f"example: egorecovery {verb.EXAMPLE}"
    return textwrap.wrap(line, 78, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _described(option: Option, width: int) -> list[str]:
    said = option.words
    if option.listed_choices:
        said = f"{said} One of {', '.join(option.listed_choices)}.".strip()
    if (default := _default(option)) and "by default" not in said:
        said = f"{said} Default: {default}."
    left = f"  {option.invocation}"
    block = [
        line
        for paragraph in said.split("\n")
        for line in textwrap.wrap(paragraph, width - LEFT, break_long_words=False, break_on_hyphens=False)
    ]
    first = [left.ljust(LEFT) + block.pop(0)] if len(left) < LEFT - 1 else [left]
    return [*first, *(f"{'':{LEFT}}{line}" for line in block)]


def _default(option: Option) -> str:
    """Nothing where leaving it out says enough."""
    value = option.default
    if value is None or value is False or value in ("", ()) or value == {}:
        return ""
    return (
        " ".join(map(str, value))
        if isinstance(value, tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
