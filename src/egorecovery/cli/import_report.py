"""What `egorecovery import` says: what a dry run found, and what became of every recording."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from egorecovery.capture import Imported, Outcome, PictureFit
from egorecovery.capture.formats.importer import Findings
from egorecovery.cli.console import console, print_json
from egorecovery.cli.words import command, wrapped


def show_findings(
    findings: Findings, fit: PictureFit | None, sheet: Path | None, following: str, *, as_json: bool
) -> None:
    if as_json:
        print_json({**asdict(findings), "fit": fit and fit.to_json(), "sheet": sheet and str(sheet)})
        return
    rate = f"{findings.rate_hz:g} Hz" if findings.rate_hz else "clocks of their own"
    lasting = f", {findings.frames / findings.rate_hz / 60:.1f} min" if findings.rate_hz else ""
    console.print(f"{findings.what}: {findings.episodes} episodes, {findings.frames} frames, {rate}{lasting}")
    rows = [*((f"camera {ours}", theirs) for ours, theirs in findings.cameras.items()), *findings.mapping.items()]
    if fit:
        rows.append(("pictures", f"{fit.fit} to {fit.image_size} x {fit.image_size}"))
    for ours, theirs in rows:
        console.print(wrapped(f"  {ours:20s} <- {theirs}", console.file), soft_wrap=True)
    for note in findings.notes:
        console.print(wrapped(f"note: {note}", console.file), soft_wrap=True)
    for warning in findings.warnings:
        console.print(wrapped(f"warning: {warning}", console.file), soft_wrap=True)
    if sheet:
        console.print(f"wrote: {sheet}", soft_wrap=True)
    console.print(f"next: {following}", soft_wrap=True)


def show(imported: Sequence[Imported], store: Path, *, as_json: bool) -> None:
    """Counts, then a line for each recording that is not in the store."""
    if as_json:
        print_json(_summary(imported))
        return
    counts = Counter(recording.outcome for recording in imported)
    shown = [outcome for outcome in Outcome if counts[outcome] or outcome is Outcome.ACCEPTED]
    console.print(", ".join(f"{counts[outcome]} {outcome}" for outcome in shown))
    for outcome in (Outcome.DISCARDED, Outcome.CLASHING, Outcome.UNREADABLE):
        for recording in (recording for recording in imported if recording.outcome is outcome):
            what = "" if outcome is Outcome.UNREADABLE else f"{recording.name}: "  # those name their file
            console.print(f"  {outcome} {what}{'; '.join(recording.reasons)}", soft_wrap=True)
    console.print(f"store: {store}", soft_wrap=True)
    if not any(recording.accepted for recording in imported):
        console.print("nothing new is in it: mend what is named above, then run the same command again")
        console.print(f"next: {command('inspect', store)}", soft_wrap=True)
        return
    console.print(f"next: {_next(imported, store)}", soft_wrap=True)


def _next(imported: Sequence[Imported], store: Path) -> str:
    """Recoveries need a boundary before they can be labelled, successes do not."""
    from egorecovery.episodes import EpisodeStore

    there = EpisodeStore(store)
    if any(there.card(recording.name).source.is_recovery for recording in imported if recording.accepted):
        return command("annotate", store)
    return command("label", store)


def _summary(imported: Sequence[Imported]) -> dict[str, object]:
    by = {outcome: [recording for recording in imported if recording.outcome is outcome] for outcome in Outcome}
    return {
        "accepted": [recording.name for recording in by[Outcome.ACCEPTED]],
        "already_there": [recording.name for recording in by[Outcome.ALREADY_THERE]],
        "discarded": {recording.name: list(recording.reasons) for recording in by[Outcome.DISCARDED]},
        "clashing": {recording.where: "; ".join(recording.reasons) for recording in by[Outcome.CLASHING]},
        "unreadable": {recording.where: "; ".join(recording.reasons) for recording in by[Outcome.UNREADABLE]},
    }
