"""Text that somebody else wrote, made inert: control characters are shown, not obeyed, and markup is text."""

import re
from html import escape

# C0 and C1 controls but tab and newline, direction marks, and halves of surrogate pairs (bytes that are not UTF-8).
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_MARKDOWN = re.compile(r"([\\`*_\[\]|#!])")


def inert(text: str) -> str:
    """For a terminal or a log: nothing moves the cursor, sets a title or hides what stands beside it."""
    return _CONTROL.sub(_shown, text)


def inert_json(text: str) -> str:
    """The same for JSON, which stays valid: control characters only stand inside its strings."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def inert_markdown(text: str) -> str:
    """For a line or a table cell of Markdown: no HTML, no link, no picture, no second cell."""
    one_line = " ".join(inert(text).split())
    return _MARKDOWN.sub(r"\\\1", escape(one_line, quote=False))


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # the picture of a control character, as wide as any letter
    return "\N{REPLACEMENT CHARACTER}"
