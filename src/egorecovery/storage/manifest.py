"""The list of an episode's files and their SHA-256. Written last: it *is* the commit."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from egorecovery.errors import StoreDamaged, UnsafeFile
from egorecovery.storage.atomic_io import explaining_full_disk, write_file
from egorecovery.storage.checksummed_json import digest, file_sha256, read_checksummed, with_checksum
from egorecovery.storage.containment import (
    files_below,
    inside,
    is_file,
    is_relative_name,
    relative_names,
    special_files,
)
from egorecovery.storage.typed_json import Must, from_json

SCHEMA = 1
MANIFEST = "manifest.json"
RelativeName = Annotated[str, Must("that names a file below the folder", is_relative_name)]
Hash = Annotated[str, Must("that is a SHA-256", lambda text: bool(re.fullmatch(r"[0-9a-f]{64}", text)))]


@dataclass(frozen=True)
class Damage:
    """One file that differs from what was written."""

    path: Path
    problem: str
    advice: str = "restore it from a copy"

    def __str__(self) -> str:
        advice = "" if self.advice in self.problem else f"; {self.advice}"
        return f"{self.path}: {self.problem}{advice}"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    files: dict[RelativeName, Hash]  # relative POSIX path -> SHA-256
    schema: int = SCHEMA

    @classmethod
    def of(cls, directory: Path) -> "Manifest":
        """The manifest of a directory's current files."""
        return cls(files={name: file_sha256(directory / name) for name in present_files(directory)})

    @classmethod
    def read(cls, directory: Path) -> "Manifest":
        record = read_checksummed(inside(directory, MANIFEST))
        if record.get("schema") != SCHEMA:
            raise StoreDamaged(
                f"{directory / MANIFEST}: schema {record.get('schema')} is not the {SCHEMA} this version reads; "
                f"use the egorecovery that wrote it"
            )
        fields = {name: value for name, value in record.items() if name == "files"}
        return from_json(cls, fields, f"{directory / MANIFEST}: ", StoreDamaged, "restore it from a copy")

    def write(self, directory: Path) -> None:
        path = directory / MANIFEST
        with explaining_full_disk(path):
            write_file(path, with_checksum(self._record()))

    @property
    def content(self) -> str:
        """One hash for the whole episode."""
        return digest(self._record())

    def damages(self, directory: Path) -> list[Damage]:
        """Every file that is missing, changed or unexpected."""
        strange = special_files(directory)
        if strange:
            return [Damage(path, "is a link or a special file, not what was written") for path in sorted(strange)]
        present = set(present_files(directory))
        damages = [Damage(directory / name, "is missing") for name in self.files.keys() - present]
        damages += [
            Damage(directory / name, "is not in the manifest", "remove it") for name in present - self.files.keys()
        ]
        for name in self.files.keys() & present:
            try:
                if file_sha256(inside(directory, *relative_names(name))) != self.files[name]:
                    damages.append(Damage(directory / name, "has changed: its SHA-256 is not the manifest's"))
            except (OSError, UnsafeFile) as error:  # such as a bad block; the other files are still checked
                damages.append(Damage(directory / name, f"cannot be read ({error})"))
        return sorted(damages, key=lambda damage: damage.path)

    def changes(self, directory: Path) -> list[Damage]:
        """Listed files that are missing or changed. Files that are not listed are ignored."""
        damages = []
        for name, wanted in sorted(self.files.items()):
            try:
                path = inside(directory, *relative_names(name))
                if not is_file(path):
                    damages.append(Damage(path, "is missing"))
                elif file_sha256(path) != wanted:
                    damages.append(Damage(path, "has changed: its SHA-256 is not the manifest's"))
            except (OSError, UnsafeFile) as error:
                damages.append(Damage(directory / name, f"cannot be read ({error})"))
        return damages

    def _record(self) -> dict[str, object]:
        return {"schema": self.schema, "files": self.files}


def present_files(directory: Path) -> list[str]:
    """All files below a directory except its manifest, as relative paths."""
    return sorted(name for name in files_below(directory) if name != MANIFEST)
