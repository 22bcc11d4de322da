"""The list of an episode's files and their SHA-256. Written last: it *is* the commit."""

from dataclasses import dataclass
from pathlib import Path

from egorecovery.errors import StoreDamaged
from egorecovery.storage.atomic_io import explaining_full_disk, sync_directory, sync_file
from egorecovery.storage.checksummed_json import digest, file_sha256, read_checksummed, with_checksum

SCHEMA = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Damage:
    """One file that is not what was written."""

    path: Path
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    files: dict[str, str]  # relative POSIX path -> SHA-256
    schema: int = SCHEMA

    @classmethod
    def of(cls, directory: Path) -> "Manifest":
        """Hashes what is there now."""
        return cls(files={name: file_sha256(directory / name) for name in present_files(directory)})

    @classmethod
    def read(cls, directory: Path) -> "Manifest":
        record = read_checksummed(directory / MANIFEST)
        if record.get("schema") != SCHEMA:
            raise StoreDamaged(
                f"{directory / MANIFEST}: schema {record.get('schema')} is not the {SCHEMA} this version reads; "
                f"use the egorecovery that wrote it"
            )
        return cls(files=record["files"])

    def write(self, directory: Path) -> None:
        path = directory / MANIFEST
        with explaining_full_disk(path):
            path.write_bytes(with_checksum(self._record()))
            sync_file(path)
            sync_directory(directory)

    @property
    def content(self) -> str:
        """One hash for the whole episode."""
        return digest(self._record())

    def damages(self, directory: Path) -> list[Damage]:
        """Every file that is missing, changed or unexpected."""
        present = set(present_files(directory))
        found = [Damage(directory / name, "is missing") for name in self.files.keys() - present]
        found += [Damage(directory / name, "is not in the manifest") for name in present - self.files.keys()]
        for name in self.files.keys() & present:
            try:
                if file_sha256(directory / name) != self.files[name]:
                    found.append(Damage(directory / name, "has changed: its SHA-256 is not the manifest's"))
            except OSError as error:  # a bad block, say: the other files still want to be checked
                found.append(Damage(directory / name, f"cannot be read ({error})"))
        return sorted(found, key=lambda damage: damage.path)

    def _record(self) -> dict[str, object]:
        return {"schema": self.schema, "files": self.files}


def present_files(directory: Path) -> list[str]:
    """All files below a directory but its manifest, as relative paths."""
    names = (path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    return sorted(name for name in names if name != MANIFEST)
