"""Everything that is wrong with an experiment's folder, or with results that somebody published."""

import json
from pathlib import Path

from egorecovery.episodes import EpisodeStore
from egorecovery.errors import EgoRecoveryError
from egorecovery.experiments.cell_card import CARD, LOG, ROLLOUTS, read_cell_card, require_whole
from egorecovery.experiments.diagnoses import diagnosis_in
from egorecovery.experiments.folder import COMPUTED_BY, DIAGNOSIS, DIAGNOSTICS, FILMS, ExperimentFolder, FolderError
from egorecovery.intent.store_damage import store_damages
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.checksummed_json import read_checksummed
from egorecovery.storage.containment import exists, is_folder, names_in, read_bytes, special_files
from egorecovery.storage.drafts import is_draft, leftovers
from egorecovery.storage.manifest import MANIFEST, Damage, Manifest
from egorecovery.training.logs import read_log
from egorecovery.training.run_manifest import run_damages

ERROR = "error.json"
OF_A_CELL = (CARD, ROLLOUTS, LOG, ERROR, FILMS, MANIFEST)
RUN_AGAIN = "restore it from a copy, or remove the cell's folder and run it again"
SUITE_FIELDS = {"suite", "schema", "computed_by", "commands"}
LEFTOVER = "was left by a process that was killed"


def experiment_damages(root: Path) -> list[Damage]:
    """Cells, diagnoses, and where they are there the stores and trainings. Reports are made anew and not checked."""
    damages = [Damage(path, "is a link or a special file", "remove it") for path in special_files(root)]
    if damages:
        return damages
    damages += _suite(root)
    names = names_in(root)
    damages += [Damage(root / name, LEFTOVER, "remove it") for name in names if name == ".merging"]
    damages += [Damage(*leftover) for leftover in leftovers(root)]
    for cell in _folders(root / "cells"):
        damages += _cell(cell, root)
    for folder in _folders(root / DIAGNOSTICS):
        damages += _diagnosis(folder)
    for folder in _folders(root / "data"):
        try:
            damages += store_damages(EpisodeStore(folder, trusting=True))
        except (EgoRecoveryError, OSError) as error:
            damages.append(Damage(folder, str(error), "remove it: the experiment makes its data again"))
    for folder in _folders(root / "trainings"):
        damages += run_damages(folder)
    return damages


def experiment_notes(root: Path) -> list[str]:
    """How much of it is not bound by hashes, because an older version wrote it."""
    try:
        cells = [cell for cell in _folders(root / "cells") if exists(cell / CARD)]
        old = [cell for cell in cells if not read_cell_card(cell).get("files")]
    except (EgoRecoveryError, OSError):
        return []
    if not old:
        return []
    return [f"{len(old)} cells are of an older version: their cards do not bind their rollouts and logs"]


def _folders(home: Path) -> list[Path]:
    return [home / name for name in names_in(home) if is_folder(home / name)]


def _suite(root: Path) -> list[Damage]:
    path = root / "suite.json"
    try:
        folder = ExperimentFolder(root)
        record, name = folder.record, folder.suite
        if unknown := record.keys() - SUITE_FIELDS:
            raise FolderError(f"{path}: {unknown.pop()!r} is not known")
        if (version := record.get("computed_by", 1)) not in range(1, COMPUTED_BY + 1):
            raise FolderError(f"{path}: computed_by is {version}, this version knows 1 to {COMPUTED_BY}")
        if "commands" not in record and read_bytes(path) != json.dumps(record).encode() + b"\n":
            raise FolderError(f"{path} has changed")
    except (EgoRecoveryError, OSError) as error:
        return [Damage(path, str(error))]
    others = {card.get("suite", name) for card in map(_card_or_none, _folders(root / "cells")) if card} - {name}
    return [Damage(path, f"says suite {name!r}, a cell says {other!r}") for other in sorted(others)]


def _card_or_none(cell: Path) -> dict | None:
    try:
        return read_cell_card(cell)
    except (EgoRecoveryError, OSError):
        return None


def _cell(cell: Path, root: Path) -> list[Damage]:
    damages = [Damage(*leftover) for leftover in leftovers(cell)]
    for name in names_in(cell):
        if name == ".filming":
            damages.append(Damage(cell / name, LEFTOVER, "remove it"))
        elif not is_draft(name) and name not in OF_A_CELL and not name.startswith((f"{FILMS}.", "rollouts.")):
            damages.append(Damage(cell / name, "is not part of a cell", "remove it"))
    try:
        if exists(cell / ERROR):
            _require_error(cell / ERROR)
        if exists(cell / CARD):
            require_whole(cell, read_cell_card(cell))
        elif exists(cell / ROLLOUTS):
            ExperimentFolder(root).rollouts(cell.name).records()
        read_log(cell / LOG)
    except (EgoRecoveryError, OSError) as error:
        damages.append(Damage(cell, str(error), RUN_AGAIN))
    if exists(cell / MANIFEST):
        damages += _bound(cell, "remove the film: it can be made again")
    return damages


def _require_error(path: Path) -> None:
    """Sealed, but for those of older versions, which nothing binds."""
    record = read_json(path)
    if "sha256" in record or set(record) != {"schema", "cell", "stage", "error", "at", "traceback"}:
        read_checksummed(path)


def _diagnosis(folder: Path) -> list[Damage]:
    advice = "diagnose again, or restore it from a copy"
    try:
        diagnosis = diagnosis_in(folder)
        if diagnosis is None:
            return [Damage(folder / DIAGNOSIS, "is missing: the diagnosis was not finished", advice)]
        if not diagnosis.whole:
            return [Damage(folder, "has lost a figure", advice)]
    except (EgoRecoveryError, OSError) as error:
        return [Damage(folder / DIAGNOSIS, str(error), advice)]
    return _bound(folder, advice) if exists(folder / MANIFEST) else []


def _bound(folder: Path, advice: str) -> list[Damage]:
    try:
        return Manifest.read(folder).changes(folder)
    except (EgoRecoveryError, OSError) as error:
        return [Damage(folder / MANIFEST, str(error), advice)]
