"""`egorecovery import`."""

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
    json: bool = False
    """Print JSON instead of text."""

    def run(self) -> int:
        from egorecovery.capture import Imported, find_recordings, import_recording
        from egorecovery.cli.console import console, messages, print_json, progress_bar
        from egorecovery.episodes import EpisodeStore
        from egorecovery.errors import EpisodeExists, RecordingError

        directories = find_recordings(list(self.recordings))
        outcomes: list[Imported] = []
        broken: dict[str, str] = {}
        with EpisodeStore.create(self.out).writing() as writer, progress_bar("importing") as advance:
            if writer.recovered:
                messages.print(f"took over from {writer.recovered}, which ended without finishing")
            for done, directory in enumerate(directories, start=1):
                try:  # one unreadable recording must not cost the others; a full disk costs them all
                    outcomes.append(import_recording(writer, directory))
                except (RecordingError, EpisodeExists) as error:
                    broken[str(directory)] = str(error)
                advance(done, len(directories))
        if self.json:
            print_json(_summary(outcomes, broken))
        else:
            refused = [outcome for outcome in outcomes if not outcome.accepted]
            console.print(
                f"{len(outcomes) - len(refused)} accepted, {len(refused)} discarded, {len(broken)} unreadable"
            )
            for outcome in refused:
                console.print(f"  discarded {outcome.name}: {'; '.join(outcome.reasons)}")
            for error in broken.values():
                console.print(f"  unreadable {error}")
        return 1 if broken else 0


def _summary(outcomes: "list[Imported]", broken: dict[str, str]) -> dict[str, object]:
    return {
        "accepted": [outcome.name for outcome in outcomes if outcome.accepted],
        "discarded": {outcome.name: list(outcome.reasons) for outcome in outcomes if not outcome.accepted},
        "unreadable": broken,
    }
