"""What the verbs share in talking to a terminal."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment

from egorecovery.storage.foreign_text import inert, inert_json


class InertConsole(Console):
    """Obeys no control character in what it is given: ids, notes and paths are often somebody else's."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(inert(segment.text), segment.style)


# No markup: rich would swallow brackets in file names.
console = InertConsole(highlight=False, markup=False)
messages = InertConsole(
    stderr=True, highlight=False, markup=False
)  # progress and notices: never mixed into --json output


def print_json(value: Any) -> None:
    print(inert_json(json.dumps(value, indent=2, ensure_ascii=False)))


def tell_set_aside(store: Path, damaged: dict[str, str]) -> None:
    """Episodes that a verb left out because they are damaged."""
    for episode, problem in damaged.items():
        messages.print(f"{episode} is skipped: {problem}", soft_wrap=True)
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
