"""Words for people: of what programs name, and broken between words where a terminal is narrow."""

import shlex
import shutil
import textwrap
from typing import Any

from egorecovery.errors import RecipeError

PLURALS = {
    "robot_success": "robot successes",
    "robot_recovery": "robot recoveries",
    "human_success": "human successes",
    "human_recovery": "human recoveries",
}
CLIENT_RATES = "--client-hz: 25 for the simulated workcell, 50 (the default) for ALOHA robots"


def plural(source: str) -> str:
    return PLURALS[source]


def command(verb: str, *words: object) -> str:
    """A line that can be copied into a shell, whatever spaces or stars its paths have."""
    return shlex.join(["egorecovery", verb, *map(str, words)])


def require_id(repository: str) -> None:
    """Before a hub is asked, which may take half a minute to say no."""
    owner, slash, name = repository.partition("/")
    if not (owner and slash and name) or "/" in name:
        raise RecipeError(f"'{repository}' is no id of a hub: write NAME/REPOSITORY, as in me/cube-policy")


def wrapped(text: str, stream: Any) -> str:
    """Lines broken between words in a terminal, which would break them inside words; unchanged anywhere else."""
    if not stream.isatty():
        return text
    width = max(shutil.get_terminal_size().columns, 40)
    return "\n".join(_broken(line, width) for line in text.split("\n"))


def _broken(line: str, width: int) -> str:
    """A command or path keeps its hyphens and its length, because it is to be copied."""
    if len(line) <= width:
        return line
    further = "    " if line.startswith(" ") else ""
    return textwrap.fill(line, width, subsequent_indent=further, break_long_words=False, break_on_hyphens=False)
