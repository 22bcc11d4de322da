"""`egorecovery diagnose`."""

import shlex
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import tyro
from tyro.conf import Positional

from egorecovery.cli.words import command
from egorecovery.errors import RecipeError

if TYPE_CHECKING:
    from egorecovery.diagnostics.diagnosis import Diagnosis

MEANING = {  # of each group of numbers: the question, and which answer is good
    "Intent target": (
        "do robot and human corrections look alike to the intent target? KS is 0 where they do and 1 where they do "
        "not at all; below chance no difference can be seen."
    ),
    "Failure states": (
        "do the human clips show failures that the robot's do not? Hull: the range of starts that were shown. Above "
        "1x the human range is wider; more evaluation starts inside it is better."
    ),
    "Bottleneck": (
        "does the intent head bring robot and human together? rho below 1 means that recoveries are closer than "
        "ordinary work. The shrink by the trained intent should beat the other two projections."
    ),
    "Gate": (
        "does the gate see where a correction ends? AUC is 1 if it is always right and 0.5 if it guesses; it should "
        "beat the clock, which knows only how long the episode lasts. An offset of 0 is the annotated frame."
    ),
    "Transfer probe": (
        "does the policy trained with human clips know better where the object is? A gain above 0 whose interval "
        "leaves out 0 says that it does."
    ),
}


@dataclass(frozen=True, kw_only=True)
class Diagnose:
    """Say why a policy works or not: targets, bottleneck and gate; failures covered; what the trunk encodes.

    What cannot be computed is listed with its reason. Exit code 1 means that nothing could be.
    """

    EXAMPLE: ClassVar = "diagnose runs/cubes --task cube_stack --run runs/policy"

    store: Positional[Path]
    """The labelled store that the policy was trained on."""
    task: str
    """Which of the store's tasks."""
    runs: Annotated[tuple[Path, ...], tyro.conf.arg(name="run")] = ()
    """Training runs or checkpoints to diagnose on episodes that they never saw."""
    compare: Path | None = None
    """A run trained without human data, for the transfer probe."""
    fresh: Path | None = None
    """Use this store's episodes instead of held-out ones; none of them may be in STORE."""
    out: Path | None = None
    """Where diagnostics.json and the figures go; diagnostics/TASK by default."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ...; auto is a GPU where there is one."""
    json: bool = False
    """Print diagnostics.json instead of a table."""

    def run(self) -> int:
        try:
            from egorecovery.diagnostics.activations import open_runs
            from egorecovery.diagnostics.diagnosis import diagnose
        except ImportError as error:
            raise RecipeError(f"diagnostics need {error.name}: pip install 'egorecovery[policy]'") from None
        from egorecovery.cli.console import print_json, progress_bar
        from egorecovery.cli.inspect import store_rows, training_command
        from egorecovery.episodes import EpisodeStore

        if self.folder.is_file():
            raise RecipeError(f"--out names a folder for diagnostics.json and figures, and {self.folder} is a file")
        store = EpisodeStore(self.store)
        opened = open_runs([*self.runs, *([self.compare] if self.compare else [])], self.task)
        runs, compare = opened[: len(self.runs)], opened[-1] if self.compare else None
        with progress_bar(f"Diagnosing {self.task}", "parts") as advance:
            diagnosis = diagnose(
                store,
                self.task,
                runs,
                compare,
                fresh=None if self.fresh is None else EpisodeStore(self.fresh),
                command=self.command,
                device=self.device,
                progress=lambda what, done, total: advance(done, total),
            )
        written = diagnosis.write(self.folder)
        if self.json:
            print_json(diagnosis.to_json())
        else:
            following = training_command(self.store, self.task, {row["source"] for row in store_rows(store)})
            if self.runs:
                following = command("evaluate", self.runs[0], "--task", self.task)
            _show(diagnosis, written, following)
        return 0 if diagnosis.found else 1

    @property
    def folder(self) -> Path:
        return self.out or Path("diagnostics") / self.task

    @property
    def command(self) -> str:
        parts = ["egorecovery", "diagnose", str(self.store), "--task", self.task]
        parts += ["--run", *map(str, self.runs)] if self.runs else []
        parts += ["--compare", str(self.compare)] if self.compare else []
        parts += ["--fresh", str(self.fresh)] if self.fresh else []
        return shlex.join([*parts, "--out", str(self.folder)])


def _show(diagnosis: "Diagnosis", written: Path, following: str) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from egorecovery.cli.console import console
    from egorecovery.experiments.diagnostic_rows import rows

    shown = rows(diagnosis.to_json()) if diagnosis.found else []
    for group, of_group in groupby(shown, key=lambda row: row.group):
        of_it = list(of_group)
        with_paper = any(row.paper for row in of_it)
        console.print(f"{group}: {MEANING[group.partition(',')[0]]}", soft_wrap=True)
        table = Table(box=SIMPLE, pad_edge=False)
        table.add_column("", ratio=5, overflow="fold")
        table.add_column("here", ratio=3, overflow="fold")
        if with_paper:
            table.add_column("paper", ratio=2, overflow="fold")
        for row in of_it:
            table.add_row(row.what, row.here, *([row.paper] if with_paper else []))
        console.print(table)
    if shown:
        console.print("docs/glossary.md explains every term, docs/diagnostics.md what is good and what misleads")
    for missing in diagnosis.missing:
        console.print(f"not computed: {missing.what}: {missing.reason}", soft_wrap=True)
    for words in diagnosis.notes:
        console.print(f"note: {words}", soft_wrap=True)
    for path in (written, *(written.with_name(f"{name}.png") for name in sorted(diagnosis.figures))):
        console.print(f"wrote: {path}", soft_wrap=True)
    console.print(f"next: {following}", soft_wrap=True)
