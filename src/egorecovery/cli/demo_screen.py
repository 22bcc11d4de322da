"""What the demo says on the terminal while it works: what is under way, in people's words, and the time left."""

import math
import time
from collections.abc import Callable

from rich.console import Console, Group
from rich.text import Text

from egorecovery.cli.live_region import LiveRegion
from egorecovery.demo.plan import METHODS, NAMES, DemoPlan
from egorecovery.demo.time_left import TimeLeft, Work
from egorecovery.experiments import Event

SOURCES = {
    "robot_success": "robot successes",
    "robot_recovery": "robot recoveries",
    "human_recovery": "human clips",
}


class DemoScreen:
    """A line for each thing under way. Where lines cannot be redrawn, one now and then."""

    def __init__(
        self, plan: DemoPlan, console: Console, quick: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._left = TimeLeft(Work.quick(plan) if quick else Work.full(plan), clock)
        self._lines: dict[str, str] = {}
        self._region = LiveRegion(console, clock=clock)

    def __enter__(self) -> "DemoScreen":
        self._region.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._region.__exit__(*raised)

    def __call__(self, event: Event) -> None:
        left = f"{duration(self._left.after(event))} left"
        line, key = said(event), f"{event.stage} {event.what}"
        if event.kind != "progress":
            self._console.print(line, soft_wrap=True)
        elif event.done >= event.total:
            self._lines.pop(key, None)
        else:
            self._lines[key] = line
        self._region.draw(lambda: self._drawn(left), f"{line}, {left}" if event.kind == "progress" else "")

    def _drawn(self, left: str) -> Group:
        shown = [*self._lines.values(), *([left] if self._lines else [])]
        return Group(*(Text(words, no_wrap=True, overflow="ellipsis") for words in shown))


def said(event: Event) -> str:
    """Such as: Training 2 of 3, with robot recoveries: 20 of 1,600 steps."""
    name = f"{METHODS.index(event.label) + 1} of {len(METHODS)}, {NAMES[event.label]}" if event.label in METHODS else ""
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
    return f"Filming: {count} films"


def duration(seconds: float) -> str:
    """Rounded as roughly as it is known."""
    if seconds < 55:
        return f"about {10 * math.ceil(seconds / 10)} s"
    return f"about {math.ceil(seconds / 60 - 0.1)} min"
