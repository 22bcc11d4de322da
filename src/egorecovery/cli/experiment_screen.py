"""What `egorecovery experiment` shows while it works: what is under way in people's words, and what is done."""

import re
import time
from collections.abc import Callable

from rich.console import Console, Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from egorecovery.cli.console import Pace, messages
from egorecovery.cli.live_region import LiveRegion
from egorecovery.cli.words import PLURALS
from egorecovery.experiments import Event
from egorecovery.experiments.condition import method_title

STAGES = {
    "data": ("Collecting", "episodes"),
    "training": ("Training", "steps"),
    "evaluation": ("Evaluating", "rollouts"),
    "diagnostics": ("Diagnosing", "parts"),
    "videos": ("Filming", "films"),
}
ONE_AT_A_TIME = ("diagnostics", "videos")  # and no event says that the last film is made
BAR = 30  # columns


class ExperimentScreen:
    """Two lines for each thing under way, its name and its bar; a line that stays for each cell. Where lines cannot be
    redrawn, one now and then."""

    def __init__(self, on: Console = messages, clock: Callable[[], float] = time.monotonic) -> None:
        self._on, self._clock = on, clock
        self._region = LiveRegion(on, clock=clock)
        self._shown: dict[str, tuple[str, Event, str]] = {}
        self._paces: dict[str, Pace] = {}

    def __enter__(self) -> "ExperimentScreen":
        self._region.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._region.__exit__(*raised)

    def __call__(self, event: Event) -> None:
        if event.kind != "progress":
            self._on.print(ended(event), soft_wrap=True)
            return
        name = under_way(event)
        count = f"{event.done:,} of {event.total:,} {STAGES.get(str(event.stage), ('', 'parts'))[1]}"
        left = self._paces.setdefault(name, Pace(self._clock)).left(event.done, event.total)
        if event.done >= event.total:
            self._shown.pop(name, None)
            self._paces.pop(name, None)
        else:
            if event.stage in ONE_AT_A_TIME:
                self._shown = {key: line for key, line in self._shown.items() if line[1].stage != event.stage}
            self._shown[name] = (name, event, count + left)
        self._region.draw(self._drawn, f"{name}: {count}{left} ({_cells(event)})")

    def _drawn(self) -> Group:
        lines: list[Text | Table] = []
        for name, event, count in self._shown.values():
            lines.append(Text(name, no_wrap=True, overflow="ellipsis"))
            row = Table.grid(padding=(0, 2, 0, 0))
            row.add_row(ProgressBar(total=max(event.total, 1), completed=event.done, width=BAR), Text(count))
            lines.append(row)
        return Group(*lines)


def under_way(event: Event) -> str:
    """Such as: Training 2 of 10: EgoRecovery, cube stack."""
    doing, _ = STAGES.get(str(event.stage), (str(event.stage), ""))
    if event.stage == "data":
        task, _, source = event.what.rpartition(" ")
        what = "labels" if source == "labels" else PLURALS.get(source, source)
        return f"{'Labelling' if source == 'labels' else doing}: {_task(task)}{f', {what}' if what != 'labels' else ''}"
    number = f" {event.number} of {event.of}" if event.of else ""
    return f"{doing}{number}: {_condition(event)}"


def ended(event: Event) -> str:
    """A cell that is done, has failed or is left for want of time."""
    if event.kind == "failed":
        return f"failed: {_condition(event)}: {event.message}; {event.what}/error.json says more ({_cells(event)})"
    return f"{event.kind}: {_condition(event)} ({_cells(event)})"


def _condition(event: Event) -> str:
    """By the names of the report's tables; a seed is named where it is not the first."""
    if not event.label:
        return event.what
    seed = re.search(r"-s([1-9]\d*)$", event.what)
    parts = [method_title(event.label), _task(event.task), f"seed {seed.group(1)}" if seed else ""]
    return ", ".join(filter(None, parts))


def _task(task: str) -> str:
    return task.replace("_", " ")


def _cells(event: Event) -> str:
    return "1 cell left" if event.cells_left == 1 else f"{event.cells_left} cells left"
