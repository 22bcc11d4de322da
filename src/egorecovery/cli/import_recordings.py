"""`egorecovery import`."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

if TYPE_CHECKING:
    from egorecovery.capture import Imported


@dataclass(frozen=True, kw_only=True)
class Import:
    """Clean raw recordings and add them to a store; unusable ones are refused with the reason."""

    recordings: Positional[tuple[Path, ...]]
    """Recording directories, or directories of recordings (docs/formats.md)."""
    out: Path
    """The store to add to; made if there is none."""
    limit: tuple[str, ...] = ()
    """Acceptance limits to change for this import, such as max_gap_s=0.2 min_tracked=0.8."""
    workers: int = 0
    """Processes to use; 0 for all cores."""
    json: bool = False
    """Print JSON instead of text."""

    def run(self) -> int:
        from egorecovery.capture import ImportRules, Outcome, find_recordings, import_recordings
        from egorecovery.capture.session_log import adopt_logs
        from egorecovery.cli.console import messages, print_json, progress_bar
        from egorecovery.episodes import AcceptanceLimits, EpisodeStore
        from egorecovery.executors import cores

        rules = ImportRules(acceptance=AcceptanceLimits.changed(self.limit))
        directories = find_recordings(list(self.recordings))
        imported: list[Imported] = []
        with EpisodeStore.create(self.out).writing() as writer, progress_bar("importing") as advance:
            if writer.recovered:
                messages.print(f"took over from {writer.recovered}, which ended without finishing")
            for one in import_recordings(writer, directories, rules, workers=self.workers or cores()):
                imported.append(one)
                advance(len(imported), len(directories))
            adopt_logs(writer.store, directories)
        if self.json:
            print_json(_summary(imported))
        else:
            _show(imported)
        return 1 if any(one.outcome in (Outcome.CLASHING, Outcome.UNREADABLE) for one in imported) else 0


def _show(imported: "list[Imported]") -> None:
    """Counts, then a line for each recording that is not in the store."""
    from egorecovery.capture import Outcome
    from egorecovery.cli.console import console

    counts = Counter(one.outcome for one in imported)
    shown = [outcome for outcome in Outcome if counts[outcome] or outcome is Outcome.ACCEPTED]
    console.print(", ".join(f"{counts[outcome]} {outcome}" for outcome in shown))
    for outcome in (Outcome.DISCARDED, Outcome.CLASHING, Outcome.UNREADABLE):
        for one in (one for one in imported if one.outcome is outcome):
            what = "" if outcome is Outcome.UNREADABLE else f"{one.name}: "  # those name their file
            console.print(f"  {outcome} {what}{'; '.join(one.reasons)}", soft_wrap=True)


def _summary(imported: "list[Imported]") -> dict[str, object]:
    from egorecovery.capture import Outcome

    by = {outcome: [one for one in imported if one.outcome is outcome] for outcome in Outcome}
    return {
        "accepted": [one.name for one in by[Outcome.ACCEPTED]],
        "already_there": [one.name for one in by[Outcome.ALREADY_THERE]],
        "discarded": {one.name: list(one.reasons) for one in by[Outcome.DISCARDED]},
        "clashing": {str(one.directory): "; ".join(one.reasons) for one in by[Outcome.CLASHING]},
        "unreadable": {str(one.directory): "; ".join(one.reasons) for one in by[Outcome.UNREADABLE]},
    }
