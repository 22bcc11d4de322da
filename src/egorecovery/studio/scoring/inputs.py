"""Clips to score, from paths on the command line."""

from collections.abc import Sequence
from pathlib import Path

from egorecovery.studio.scoring.clip import Clip, require_distinct
from egorecovery.studio.scoring.errors import ScoringError
from egorecovery.studio.scoring.real_robot import clips_of_folder, clips_of_table
from egorecovery.studio.scoring.simulated import simulated_clips


def clips_of(paths: Sequence[Path]) -> tuple[list[Clip], list[str]]:
    """All clips of runs, tables and folders of videos, and notes on what was left out."""
    if not paths:
        raise ScoringError("name what to score: a run with films, a CSV table of videos, or a folder of videos")
    clips: list[Clip] = []
    notes: list[str] = []
    for path in paths:
        more_clips, more_notes = _clips_at(path)
        clips += more_clips
        notes += more_notes
    require_distinct(clips)
    return clips, notes


def _clips_at(path: Path) -> tuple[list[Clip], Sequence[str]]:
    if not path.exists():
        raise ScoringError(f"{path} does not exist; name a run, a CSV table of videos or a folder of videos")
    if (path / "store.json").exists():
        raise ScoringError(f"{path} is a store of episodes; name a run that was evaluated, or videos of rollouts")
    if path.is_file():
        if path.suffix.lower() == ".csv":
            return clips_of_table(path)
        if path.suffix.lower() == ".jsonl":
            return simulated_clips(path)
        raise ScoringError(f"{path} is neither a result file (.jsonl) nor a table of videos (.csv)")
    tables = sorted(path.glob("*.csv"))
    if len(tables) > 1:
        raise ScoringError(f"{path} has {len(tables)} tables, {tables[0].name} and {tables[1].name}; name one of them")
    if tables:
        return clips_of_table(tables[0])
    if any(path.rglob("*.jsonl")):
        return simulated_clips(path)
    return clips_of_folder(path), []
