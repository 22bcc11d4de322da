"""Untrusted text made safe to print: control characters are made visible and markup is escaped."""

import re
from html import escape

# C0 and C1 controls but tab and newline, direction marks, and halves of surrogate pairs (bytes that are not UTF-8).
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_MARKDOWN = re.compile(r"([\\`*_\[\]|#!])")


def inert(text: str) -> str:
    """For a terminal or a log: the text cannot move the cursor, set a title or hide other text."""
    return _CONTROL.sub(_shown, text)


def inert_json(text: str) -> str:
    """The same for JSON, which stays valid, because control characters only occur inside its strings."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def inert_markdown(text: str) -> str:
    """For a line or a table cell of Markdown: no HTML, links, pictures or extra cells."""
    one_line = " ".join(inert(text).split())
    return _MARKDOWN.sub(r"\\\1", escape(one_line, quote=False))


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's symbol for a control character, one column wide
    return "\N{REPLACEMENT CHARACTER}"
