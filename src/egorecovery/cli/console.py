"""What the verbs share in talking to a terminal."""

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.text import Text

from egorecovery.cli.live_region import LiveRegion
from egorecovery.cli.words import command, wrapped
from egorecovery.storage.foreign_text import inert, inert_json


class InertConsole(Console):
    """Obeys no control character in what it is given: ids, notes and paths are often somebody else's."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Soft-wrapped text is broken between words in a terminal, but a command stays one line, to be copied."""
        if options.get("soft_wrap") and len(objects) == 1 and isinstance(objects[0], str):
            text = objects[0]
            objects = (text if text.startswith("next: ") else wrapped(text, self.file),)
        super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        """Where the reader has seen enough, as in `train ... | head`, the job goes on without output."""
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(inert(segment.text), segment.style)


# No markup: rich would swallow brackets in file names.
console = InertConsole(highlight=False, markup=False)
messages = InertConsole(
    stderr=True, highlight=False, markup=False
)  # progress and notices: never mixed into --json output


def end_interrupted_line() -> None:
    """A terminal shows ^C where the cursor is: what follows begins on a line of its own."""
    if console.is_terminal:
        console.print()


def print_json(value: Any) -> None:
    print(inert_json(json.dumps(value, indent=2, ensure_ascii=False)))


def tell_set_aside(store: Path, damaged: dict[str, str]) -> None:
    """Episodes that a verb left out because they are damaged."""
    for episode, problem in damaged.items():
        messages.print(f"{episode} is skipped: {problem}", soft_wrap=True)
    if damaged:
        messages.print(
            f"{len(damaged)} damaged episodes; '{command('verify', store)}' lists all damage", soft_wrap=True
        )


class Pace:
    """How much longer something takes, by how long it took so far."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began_s, self._there = 0.0, -1

    def left(self, done: int, total: int) -> str:
        """Such as: ', 4 min left'; nothing before it is known."""
        now_s = self._clock()
        if self._there < 0:  # what was done before counts for nothing in the pace
            self._began_s, self._there = now_s, done
        made = done - self._there
        if made <= 0 or done >= total:
            return ""
        return f", {duration((now_s - self._began_s) / made * (total - done))} left"


class ProgressLine:
    """What is under way, how far, how much longer: redrawn in a terminal, elsewhere lines now and then."""

    def __init__(self, on: Console, shown: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._on, self._clock = on, clock
        self._region = LiveRegion(on, shown=shown, at_once=False, clock=clock)
        self._what, self._pace = "", Pace(clock)

    def show(self, what: str, done: int, total: int, unit: str, figures: Sequence[str] = ()) -> None:
        """`figures` come last, the most important first: those that find no room are left out."""
        if what != self._what:
            self._what, self._pace = what, Pace(self._clock)
        count, left = f"{done:,} of {total:,}", self._pace.left(done, total)
        words = f"{what}: {count} {unit}{left}{'; ' if figures else ''}{', '.join(figures)}"
        self._region.draw(
            lambda: self._drawn(fitted(what, count, unit, left, figures, self._on.width), done, total),
            words if done < total else "",
        )

    def _drawn(self, words: str, done: int, total: int) -> Group:
        bar = ProgressBar(total=max(total, 1), completed=done, width=min(self._on.width, 100) // 2)
        return Group(Text(words, no_wrap=True, overflow="ellipsis"), bar)

    def __enter__(self) -> "ProgressLine":
        self._region.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._region.__exit__(*raised)


def fitted(what: str, count: str, unit: str, left: str, figures: Sequence[str], width: int) -> str:
    """One line of at most `width`: words go first, then the last figures, then the time; never half a number."""
    shorter = [f"{what}: {count} {unit}{left}", f"{what}: {count}{left}", f"{what} {count}{left.removesuffix(' left')}"]
    noted = [f"; {', '.join(figures[:kept])}" for kept in range(len(figures), 0, -1)] + [""]
    lines = [line + note for note in noted for line in shorter] + [f"{what} {count}"]
    cut = what[: max(width - len(count) - 2, 0)] + "\N{HORIZONTAL ELLIPSIS}"
    return next((line for line in lines if len(line) <= width), f"{cut} {count}")


def duration(seconds: float) -> str:
    """Rounded as roughly as it is known."""
    if seconds < 55:
        return f"{max(5 * math.ceil(seconds / 5), 5)} s"
    if seconds < 3600:
        return f"{math.ceil(seconds / 60 - 0.1)} min"
    return f"{seconds / 3600:.1f} h"


@contextmanager
def progress_bar(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    """Yields `advance(done, total)`."""
    with ProgressLine(messages) as line:
        yield lambda done, total: line.show(what, done, total, unit)
