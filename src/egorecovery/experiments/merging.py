"""Results of other machines, or of strangers: looked at whole before anything of them is copied."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from egorecovery.experiments.cell_card import CARD, LOG, ROLLOUTS, require_whole
from egorecovery.experiments.folder import DIAGNOSIS, FILMS, ExperimentFolder, FolderError
from egorecovery.storage.atomic_io import explaining_full_disk, sync_directory, sync_tree
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.containment import exists, inside, is_file, is_folder, names_in, open_file, remove
from egorecovery.storage.manifest import MANIFEST, Manifest

# What a cell or a diagnosis may consist of, and how large each file may be; anything else stays where it is.
LARGEST_BYTES = {CARD: 4 << 20, ROLLOUTS: 256 << 20, LOG: 256 << 20, DIAGNOSIS: 64 << 20, MANIFEST: 4 << 20}
FILM_BYTES, PICTURE_BYTES = 256 << 20, 32 << 20
MOST_FILMS = 1000
DIAGNOSIS_PICTURES = 100


def merge(sources: Sequence[Path], into: Path, suite: str | None = None) -> list[str]:
    """Copies finished cells that `into` lacks; returns their names. Two different results of a cell are refused.

    Diagnoses come along, the first of each task.
    """
    folders = [ExperimentFolder(source) for source in sources]
    if not folders:
        return []
    suite = suite or folders[0].suite
    for folder in folders:
        if folder.suite != suite:
            raise FolderError(f"{folder.root} holds the suite {folder.suite!r}, not {suite!r}")
        folder.require_current()
    target = ExperimentFolder.create(into, suite)
    with target.lock():
        fresh: dict[str, ExperimentFolder] = {}
        for folder in folders:
            for cell in folder.done():
                known = fresh.get(cell) or (target if target.card(cell) else None)
                if known is None:
                    _require_publishable(folder, cell, suite)
                    fresh[cell] = folder
                else:
                    _require_same(cell, known, folder)
        copies = {target.cell(cell): _files_of_cell(folder.cell(cell)) for cell, folder in fresh.items()}
        for diagnosis in (path for folder in folders for path in folder.diagnoses()):
            home = target.diagnosis(diagnosis.name)
            if not exists(home / DIAGNOSIS) and home not in copies:
                _require_unchanged(diagnosis)
                copies[home] = _files_of_diagnosis(diagnosis)
        for home, files in copies.items():  # all of them have been looked at
            _copy(files, home, target.root / ".merging")
    return sorted(fresh)


def _require_publishable(folder: ExperimentFolder, cell: str, suite: str) -> None:
    """A finished cell whose rollouts are all there and its own."""
    card = folder.card(cell)
    assert card is not None, "only finished cells are asked for"
    require_whole(folder.cell(cell), card)
    if card.get("suite", suite) != suite:
        raise FolderError(f"{folder.cell(cell)} is a cell of the suite {card['suite']!r}, not of {suite!r}")
    _require_unchanged(folder.cell(cell))


def _require_unchanged(folder: Path) -> None:
    """Films of a cell, or figures of a diagnosis, that are not what was written beside their hashes."""
    if not is_file(inside(folder, MANIFEST)):
        return
    for damage in Manifest.read(folder).changes(folder):
        if exists(damage.path):  # one that is gone is not copied either
            raise FolderError(f"{damage}, or remove it: it can be made again")


def _require_same(cell: str, first: ExperimentFolder, second: ExperimentFolder) -> None:
    """Which machine wrote the card does not matter; what it says of the policy and its rollouts does."""
    cards = [folder.card(cell) for folder in (first, second)]
    kept = ("cell_hash", "data_hash", "protocol", "training_id")
    same_card = len({json.dumps([card and card.get(name) for name in kept], sort_keys=True) for card in cards}) == 1
    ours, theirs = ({record.key: record for record in folder.rollouts(cell).records()} for folder in (first, second))
    if not same_card or ours != theirs:
        raise FolderError(
            f"cell {cell} has different results in {first.root} and in {second.root}: it was run twice, on machines "
            "or with settings that differ; keep one of them (remove the other's folder), then merge again"
        )


def _files_of_cell(folder: Path) -> dict[str, Path]:
    """By name in the copy."""
    films = inside(folder, FILMS)
    named = [name for name in names_in(films) if name.lower().endswith((".mp4", ".gif"))] if is_folder(films) else []
    files = {name: inside(folder, name) for name in (CARD, ROLLOUTS, LOG, MANIFEST)}
    files |= {f"{FILMS}/{name}": inside(films, name) for name in named[:MOST_FILMS]}
    return {name: path for name, path in files.items() if exists(path)}


def _files_of_diagnosis(folder: Path) -> dict[str, Path]:
    figures = read_json(inside(folder, DIAGNOSIS), FolderError).get("figures")
    named = [str(name) for name in figures.values()] if isinstance(figures, dict) else []
    pictures = [name for name in named if name.endswith(".png") and is_file(inside(folder, name))]
    files = {name: inside(folder, name) for name in (*pictures[:DIAGNOSIS_PICTURES], MANIFEST, DIAGNOSIS)}
    return {name: path for name, path in files.items() if is_file(path)}


def _largest(name: str) -> int:
    return LARGEST_BYTES.get(name, PICTURE_BYTES if name.endswith(".png") else FILM_BYTES)


def _copy(files: Mapping[str, Path], home: Path, draft: Path) -> None:
    """Whole or not at all: elsewhere first. A started but unfinished cell gives way."""
    home.parent.mkdir(parents=True, exist_ok=True)
    remove(draft)
    try:
        with explaining_full_disk(home):
            for name, source in files.items():
                copy = draft / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                _copy_file(source, copy, _largest(name))
            sync_tree(draft)
    except BaseException:
        remove(draft)
        raise
    remove(home)
    draft.rename(home)
    sync_directory(home.parent)


def _copy_file(source: Path, copy: Path, largest: int) -> None:
    with os.fdopen(open_file(source, largest), "rb") as stream, copy.open("xb") as written:
        left = largest
        while chunk := stream.read(min(1 << 20, left)):
            written.write(chunk)
            left -= len(chunk)
