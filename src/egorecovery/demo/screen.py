"""What the demo says on the terminal while it works: what is under way, in people's words, and the time left."""

import math
import time
from collections.abc import Callable, Mapping

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from egorecovery.demo.plan import METHODS, NAMES, DemoPlan
from egorecovery.experiments import Event

PLAIN_LINES_S = 15.0  # between lines where lines cannot be redrawn
SETTLES_S = 30.0  # within which a new estimate of the end is believed: it must not jump about
SOURCES = {
    "robot_success": "robot successes",
    "robot_recovery": "robot recoveries",
    "human_recovery": "human clips",
}


class SteadyEnd:
    """An estimate of the end that follows new ones slowly."""

    def __init__(self) -> None:
        self._end_s: float | None = None
        self._at_s = 0.0

    def left_s(self, left_s: float | None, now_s: float) -> float | None:
        """The time left to be shown, given what is estimated now."""
        if left_s is not None:
            wanted_s = now_s + left_s
            if self._end_s is None:
                self._end_s = wanted_s
            else:
                share = 1 - math.exp(-(now_s - self._at_s) / SETTLES_S)
                self._end_s += share * (wanted_s - self._end_s)
            self._at_s = now_s
        return None if self._end_s is None else max(self._end_s - now_s, 0.0)


class DemoScreen:
    """A line for each thing under way. Where lines cannot be redrawn, one now and then."""

    def __init__(self, plan: DemoPlan, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._methods = {cell.id: cell.method for cell in plan.suite().cells(seeds=(plan.seed,))}
        self._lines: dict[str, str] = {}
        self._end = SteadyEnd()
        self._told_s = float("-inf")
        redraws = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, transient=True, refresh_per_second=4) if redraws else None

    def __enter__(self) -> "DemoScreen":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        left_s = self._end.left_s(event.left_s, self._clock())
        key = f"{event.stage} {event.what}"
        line = said(event, self._methods)
        if event.kind != "progress":
            self._lines = {each: words for each, words in self._lines.items() if not each.endswith(event.what)}
            self._console.print(line, soft_wrap=True)
        elif event.total and event.done >= event.total:
            self._lines.pop(key, None)
        else:
            self._lines.pop("data", None)
            self._lines[key] = line
        if self._live:
            shown = [*self._lines.values(), *([f"{duration(left_s)} left in all"] if left_s else [])]
            self._live.update(Group(*(Text(words, no_wrap=True, overflow="ellipsis") for words in shown)))
        elif event.kind == "progress" and self._clock() - self._told_s >= PLAIN_LINES_S:
            self._told_s = self._clock()
            self._console.print(f"{line}, {duration(left_s)} left" if left_s else line, soft_wrap=True)


def said(event: Event, methods: Mapping[str, str]) -> str:
    """Such as: Training 2 of 3, with robot recoveries: 20 of 1,600 steps."""
    name = _policy(methods[event.what]) if event.what in methods else event.what
    if event.kind == "done":
        return f"Policy {name}: done"
    if event.kind != "progress":
        return f"Policy {name}: {event.kind}{': ' if event.message else ''}{event.message}"
    count = f"{event.done:,} of {event.total:,}"
    if event.stage == "data":
        source = event.what.rsplit(" ", 1)[-1]
        if source not in SOURCES:
            return f"Labelling: {count} episodes"
        number = list(SOURCES).index(source) + 1
        return f"Collecting {number} of {len(SOURCES)}, {SOURCES[source]}: {count} episodes"
    if event.stage == "training":
        return f"Training {name}: {count} steps"
    if event.stage == "evaluation":
        return f"Trying out {name}: {count} rollouts"
    return f"Filming: {count} films" if event.total else "Writing the report"


def _policy(method: str) -> str:
    return f"{METHODS.index(method) + 1} of {len(METHODS)}, {NAMES[method]}"


def duration(seconds: float) -> str:
    """Rounded as roughly as it is known."""
    if seconds < 55:
        return f"about {10 * math.ceil(seconds / 10)} s"
    return f"about {math.ceil(seconds / 60 - 0.1)} min"
