"""Films of rollouts on disk, each with the record of the rollout that it shows."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from egorecovery.errors import EgoRecoveryError
from egorecovery.evaluation.results import ResultFile, ResultsError, RolloutRecord
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.containment import exists, is_file, is_folder, names_in
from egorecovery.storage.typed_json import Must, from_json

# `evaluate` writes STEM-TASK-REGIME-INDEX-KEY.mp4 beside STEM.jsonl (older films lack the key); an experiment writes
# films/REGIME_INDEX[_MODE]_OUTCOME beside a cell's rollouts.jsonl. Anything else says in a films.json beside the
# results where each rollout's film is.
_BESIDE = re.compile(r"(?P<task>[a-z0-9_]+)-(?P<regime>initial|recovery)-(?P<index>\d+)(-(?P<key>[0-9a-f]{8}))?")
KEY_DIGITS = 8  # of a rollout's key in its film's name: two policies in one result file do not overwrite each other
IN_CELL = re.compile(
    r"(?P<regime>initial|recovery)_(?P<index>\d+)_(?:(?P<mode>\w+)_)?(?P<outcome>success|failure|error)"
)
FILMS = "films"
VIDEO_NAMES = (".mp4", ".mov", ".mkv", ".webm", ".avi", ".m4v")
FILM_LIST = "films.json"  # {key of the rollout: path of its film}
FileName = Annotated[str, Must("that can name a file", lambda text: "\0" not in text)]


@dataclass(frozen=True, kw_only=True)
class RolloutVideo:
    """A rollout that can be watched."""

    record: RolloutRecord
    film: Path


@dataclass(frozen=True, kw_only=True)
class RolloutVideos:
    """What was found below a folder."""

    rollouts: tuple[RolloutVideo, ...]
    left_out: tuple[str, ...] = ()  # sentences on films that show no rollout on record


def video_path(results: Path, *, task: str, regime: str, index: int, key: str) -> Path:
    """Where `evaluate` puts the film of a rollout in `results`; `key` is the rollout's own."""
    return results.parent / f"{results.stem}-{task}-{regime}-{index:03d}-{key[:KEY_DIGITS]}.mp4"


def rollout_videos(root: Path) -> RolloutVideos:
    """All films of the results at `root`: a result file, or a folder with result files anywhere below it."""
    results = [root] if root.is_file() else sorted(path for path in root.rglob("*.jsonl") if _is_visible(path, root))
    videos: list[RolloutVideo] = []
    left_out: list[str] = []
    for path in results:
        try:
            more, said = _filmed_in(path)
        except EgoRecoveryError as error:  # a damaged file among others: theirs can still be watched
            more, said = [], [str(error)]
        videos += more
        left_out += said
    return RolloutVideos(rollouts=tuple(videos), left_out=tuple(left_out))


def filmed_beside(run: Path) -> list[Path]:
    """Result files beside a run that have films: where `evaluate --out` wrote, if not into the run."""
    beside = Path(os.path.normpath(run / ".."))  # the parent of "." and ".." too, which Path.parent does not know
    return [path for path in sorted(beside.glob("*.jsonl")) if any(_films_of(path))]


def _filmed_in(results: Path) -> tuple[list[RolloutVideo], list[str]]:
    """Of one result file; and sentences on films that show no rollout in it."""
    films, listed = list(_films_of(results)), _listed(results)
    records = ResultFile(results).records() if films or listed else []
    videos = [RolloutVideo(record=record, film=listed[record.key]) for record in records if record.key in listed]
    left_out = []
    for film, named in films:
        try:
            videos.append(RolloutVideo(record=_shown(records, named, results), film=film))
        except ResultsError as error:
            left_out.append(f"{film}: {error}")
    return videos, left_out


def _is_visible(path: Path, root: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(root).parts)


def _films_of(results: Path) -> Iterator[tuple[Path, dict[str, str | None]]]:
    """Films that belong to a result file, with what their names say."""
    for film in _films_in(results.parent):
        beside = _BESIDE.fullmatch(film.stem.removeprefix(f"{results.stem}-"))
        if beside and film.stem.startswith(f"{results.stem}-"):
            yield film, beside.groupdict()
    if results.name == "rollouts.jsonl":
        for film in _films_in(results.parent / FILMS):
            if in_cell := IN_CELL.fullmatch(film.stem):
                yield film, in_cell.groupdict()


def _films_in(folder: Path) -> list[Path]:
    """By name; no links, and none where the folder is one."""
    names = names_in(folder) if is_folder(folder) else []
    return [folder / name for name in names if name.endswith(".mp4") and is_file(folder / name)]


def _listed(results: Path) -> dict[str, Path]:
    """What a film list beside a result file says; films that are no longer there are left out."""
    path = results.with_name(FILM_LIST)
    if not exists(path):
        return {}
    advice = "export the session again"
    films = from_json(Mapping[str, FileName], read_json(path, ResultsError, advice), f"{path}: ", ResultsError, advice)
    # The videos that people scored may lie anywhere. A list from elsewhere could name any file: only videos count.
    paths = {key: results.parent / film for key, film in films.items()}
    return {key: film for key, film in paths.items() if film.suffix.lower() in VIDEO_NAMES and is_file(film)}


def _shown(records: Sequence[RolloutRecord], named: Mapping[str, str | None], results: Path) -> RolloutRecord:
    fitting = [
        record
        for record in records
        if (record.regime, record.index) == (named["regime"], int(named["index"] or 0))
        and named.get("task", record.task) == record.task
        and record.key.startswith(named.get("key") or "")
    ]
    if not fitting:
        raise ResultsError(f"its rollout is not in {results}")
    if len(fitting) > 1:
        policies = ", ".join(sorted({record.subject.policy for record in fitting}))
        raise ResultsError(
            f"{results} has {len(fitting)} rollouts of that start ({policies}) and the film's name does not say which "
            "one it shows; film them again: names have told policies apart since"
        )
    [record] = fitting
    if named.get("outcome", record.outcome) != record.outcome:
        raise ResultsError(f"it ends in {named['outcome']}, on record is {record.outcome}")
    return record
