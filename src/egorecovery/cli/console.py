"""What the verbs share in talking to a terminal."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

# No markup: rich would swallow brackets in file names.
console = Console(highlight=False, markup=False)
messages = Console(stderr=True, highlight=False, markup=False)  # progress and notices: never mixed into --json output


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def tell_set_aside(store: Path, damaged: dict[str, str]) -> None:
    """Episodes that a verb left out because they are damaged."""
    for episode, problem in damaged.items():
        messages.print(f"{episode} is set aside: {problem}", soft_wrap=True)
    if damaged:
        messages.print(
            f"{len(damaged)} damaged episodes; 'egorecovery verify {store}' lists all damage", soft_wrap=True
        )


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yields `advance(done, total)`; shows time left."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages, transient=True) as progress:
        bar = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
