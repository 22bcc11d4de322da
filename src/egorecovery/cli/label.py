"""`egorecovery label`."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tyro.conf import Positional

from egorecovery.cli.words import command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

    from egorecovery.episodes import EpisodeStore, Source
    from egorecovery.intent import SourceTally


@dataclass(frozen=True, kw_only=True)
class Label:
    """Derive recovery labels and intent targets for a whole store; only what changed is computed."""

    EXAMPLE: ClassVar = "label runs/cubes"

    store: Positional[Path]
    """The store to label."""
    workers: int = 0
    """Processes to use; 0 for all cores."""
    compare: bool = False
    """Compare with the labels that imported episodes came with, such as those of the paper's authors."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> int:
        from egorecovery.cli.console import console, print_json, progress_bar, tell_set_aside
        from egorecovery.episodes import EpisodeStore
        from egorecovery.executors import cores
        from egorecovery.intent import label_store

        store = EpisodeStore(self.store)
        set_aside: dict[str, str] = {}
        with progress_bar("Labelling", "episodes") as advance:
            tallies = label_store(
                store, workers=self.workers or cores(), on_progress=advance, on_damage=set_aside.__setitem__
            )
        tell_set_aside(self.store, set_aside)
        if self.compare:
            return _compare(store, as_json=self.json)
        if self.json:
            print_json({str(source): _plain(tally) for source, tally in tallies.items()})
            return 1 if set_aside else 0
        console.print(tally_table(tallies))
        for words in expected(tallies):
            console.print(words, soft_wrap=True)
        unannotated = sum(tally.unannotated for tally in tallies.values())
        if unannotated:
            console.print(f"{unannotated} recovery episodes have no boundary yet")
        if any(tally.labelled + tally.unchanged for tally in tallies.values()):
            console.print(f"wrote: {store.root / 'labels'}", soft_wrap=True)
        following = command("annotate" if unannotated else "inspect", self.store)
        console.print(f"next: {following}", soft_wrap=True)
        return 1 if set_aside else 0


def _compare(store: "EpisodeStore", *, as_json: bool) -> int:
    """Episode by episode: their labels beside ours."""
    from rich.box import SIMPLE
    from rich.table import Table

    from egorecovery.capture.formats.egoverse_labels import compared
    from egorecovery.cli.console import console, print_json

    comparisons = list(compared(store))
    if as_json:
        print_json([asdict(comparison) for comparison in comparisons])
        return 0
    if not comparisons:
        console.print("no episode has both: labels that it came with, and ours")
        console.print(f"next: {command('inspect', store.root)}", soft_wrap=True)
        return 0
    table = Table(title="labels that episodes came with, beside ours", title_justify="left", box=SIMPLE)
    table.add_column("episode", overflow="fold")
    for heading in ("recovery\nagrees", "boundary\ntheirs-ours", "intent\nvalid", "window\nvalid", "intent\ncorr."):
        table.add_column(heading, justify="right")
    for comparison in comparisons:
        agreements = (comparison.recovery_agreement, comparison.intent_valid_agreement, comparison.window_agreement)
        shares = [_share(agreement) for agreement in agreements]
        apart = "-" if comparison.boundary_difference_s is None else f"{comparison.boundary_difference_s:+.2f} s"
        alike = "-" if comparison.intent_correlation is None else f"{comparison.intent_correlation:+.2f}"
        table.add_row(comparison.episode, shares[0], apart, *shares[1:], alike)
    console.print(table)
    following = command("inspect", store.root, "--episode", comparisons[0].episode)
    console.print(f"next: {following}", soft_wrap=True)
    return 0


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def expected(tallies: "dict[Source, SourceTally]") -> "Iterator[str]":
    """Which of the counts are as they should be."""
    from egorecovery.intent import Verdict

    if any(not source.is_recovery and tally.frames.total() for source, tally in tallies.items()):
        yield "Expected: successes have no targets; they teach the gate to stay closed."
    recoveries = [tally for source, tally in tallies.items() if source.is_recovery and tally.frames.total()]
    if recoveries:
        yield "Expected: recoveries have targets only in frames where the hand moves before the boundary."
    if any(not tally.frames[Verdict.VALID] for tally in recoveries):
        yield "Not expected: recoveries, and no target at all. Check their boundaries with 'egorecovery annotate'."
    lost = sum(tally.frames[Verdict.PADDED] for tally in recoveries)
    if lost:
        yield f"{lost:,} frames of recoveries have no target because the tracked motion is missing there."


def tally_table(tallies: "dict[Source, SourceTally]") -> "Table":
    """Per source: episodes, frames with a target, and why the others have none.

    Successes have neither boundaries nor targets: a dash says that none is expected.
    """
    from rich.box import SIMPLE
    from rich.table import Table

    from egorecovery.intent import Verdict

    table = Table(title="frames with an intent target, or why none", title_justify="left", box=SIMPLE)
    table.add_column("", no_wrap=True)
    for source in tallies:
        table.add_column(source.replace("_", "\n"), justify="right")

    def row(name: str, number: "Callable[[SourceTally], int]", of: str = "") -> None:
        cells = (f"{number(tally):,}" if of in str(source) else "-" for source, tally in tallies.items())
        table.add_row(name, *cells)

    row("episodes labelled", lambda tally: tally.labelled + tally.unchanged)
    row("  of these now", lambda tally: tally.labelled)
    row("not annotated", lambda tally: tally.unannotated, of="recovery")
    row("discarded", lambda tally: tally.discarded)
    row("frames", lambda tally: tally.frames.total())
    if any(not source.is_recovery for source in tallies):
        row("  none expected", lambda tally: tally.frames.total(), of="success")
    for verdict in Verdict:
        words = "with a target" if verdict is Verdict.VALID else f"none: {verdict.words}"
        row(f"  {words}", lambda tally, verdict=verdict: tally.frames[verdict], of="recovery")
    return table


def _plain(tally: "SourceTally") -> dict[str, object]:
    frames = {verdict.name.lower(): count for verdict, count in sorted(tally.frames.items())}
    return {**asdict(tally), "frames": frames}
