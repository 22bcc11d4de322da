"""A directory of episodes that loses nothing: atomic commits, checksums, one writer, any number of readers.

STORE/store.json           what this directory is
STORE/episodes/ID/         one Zarr v3 group, episode.zarr, and its manifest
STORE/collection.jsonl     every attempt, discarded ones included
STORE/annotations.jsonl    recovery boundaries, append-only
STORE/labels/              derived data, rebuilt at will
STORE/.drafts/             episodes being written, invisible to readers
"""

import difflib
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from numpy import ndarray

from egorecovery.episodes.attempt_log import AttemptLog
from egorecovery.episodes.beside import around, beside, within
from egorecovery.episodes.episode import Episode
from egorecovery.episodes.frames import JpegFrames
from egorecovery.episodes.layout import (
    explaining_damage,
    has_stream,
    read_attributes,
    read_frames,
    read_group,
    read_stream,
    require_own_id,
    watched,
)
from egorecovery.episodes.store_writer import StoreWriter
from egorecovery.episodes.vocabulary import (
    HIDDEN_EMBODIMENT,
    PICTURE_FIT,
    RATE_HZ,
    RECOVERY_PROPOSAL,
    Camera,
    EpisodeId,
    Side,
    Source,
    Task,
    is_episode_id,
)
from egorecovery.errors import (
    EgoRecoveryError,
    EpisodeNotFound,
    StoreDamaged,
    StoreError,
)
from egorecovery.storage.atomic_io import (
    explaining_full_disk,
    make_folder,
    write_file,
)
from egorecovery.storage.checked_content import CACHE_FILE, CheckedContent
from egorecovery.storage.checksummed_json import read_checksummed, with_checksum
from egorecovery.storage.containment import exists, inside, is_file, is_folder, names_in
from egorecovery.storage.drafts import leftovers
from egorecovery.storage.lock import WriterLock
from egorecovery.storage.manifest import MANIFEST, Damage, Manifest

STORE = "store.json"
FORMAT = {"format": "egorecovery-store", "schema": 1}


@dataclass(frozen=True, kw_only=True)
class EpisodeCard:
    """What a listing shows, read without touching an array."""

    id: EpisodeId
    task: Task
    source: Source
    frames: int
    cameras: tuple[str, ...]
    operator: str
    content: str  # hash of all files: changes if and only if the episode does
    hidden_embodiment: bool = False  # arms and hands are removed from its pictures
    picture_fit: object = None  # the rule that its pictures went through, as JSON; None where they came as they are
    recovery_proposal: object = None  # where its own data says that the correction ends, as JSON

    @property
    def duration_s(self) -> float:
        return (self.frames - 1) / RATE_HZ


class EpisodeStore:
    """Opens a store for reading; `writing()` takes the writer's lock."""

    def __init__(self, root: Path | str, *, trusting: bool = False) -> None:
        self.root = Path(root)
        if not exists(self.root / STORE):
            raise StoreError(_no_store(self.root))
        if not trusting:  # `verify` wants to look at the rest even when the header is damaged
            self._require_format()

    def _require_format(self) -> None:
        found = read_checksummed(inside(self.root, STORE))
        if found != FORMAT:
            raise StoreError(f"{self.root / STORE} says {found}, this version reads {FORMAT}")

    @classmethod
    def create(cls, root: Path | str) -> "EpisodeStore":
        """Opens the store, making it first where there is none. A directory with other things in it is refused."""
        root = Path(root)
        if not (root / STORE).exists():
            if root.exists() and not _is_empty_or_half_made(root):
                raise StoreError(f"{root} exists and is not an episode store; name an empty or a new directory")
            with explaining_full_disk(root):
                make_folder(root)
                for folder in ("episodes", ".drafts"):
                    inside(root, folder).mkdir(exist_ok=True)
            write_file(root / STORE, with_checksum(FORMAT))
        return cls(root)

    @cached_property
    def collection(self) -> AttemptLog:
        return AttemptLog(self.root / "collection.jsonl")

    @property
    def annotations_path(self) -> Path:
        return self.root / "annotations.jsonl"

    @property
    def labels_path(self) -> Path:
        return self.root / "labels"

    def ids(self) -> list[EpisodeId]:
        """All committed episodes, in name order."""
        return [name for name in self.folders() if name in self]

    def folders(self) -> list[EpisodeId]:
        """All directories that should be episodes, even those whose manifest is gone."""
        home = inside(self.root, "episodes")
        return [EpisodeId(name) for name in names_in(home) if is_episode_id(name) and is_folder(home / name)]

    def __len__(self) -> int:
        return len(self.ids())

    def __contains__(self, identifier: str) -> bool:
        return is_episode_id(identifier) and is_file(inside(self.root, "episodes", identifier) / MANIFEST)

    def path(self, identifier: str) -> Path:
        if identifier not in self:
            known = self.ids()
            near = difflib.get_close_matches(str(identifier), known, n=3) or known[:3]
            hint = f"it holds {len(known)}, such as {', '.join(near)}" if known else "it holds none"
            raise EpisodeNotFound(f"{self.root} has no episode {identifier!r}; {hint}")
        return inside(self.root, "episodes", identifier)

    def read(self, identifier: str) -> Episode:
        """The episode, lazily: frames are decoded and pages read only when touched."""
        return read_group(self.path(identifier))

    def stream(self, identifier: str, name: str) -> ndarray:
        """One low-dimensional stream, mapped."""
        return read_stream(self.path(identifier), name)

    def has_stream(self, identifier: str, name: str) -> bool:
        return has_stream(self.path(identifier), name)

    def frames(self, identifier: str, camera: Camera) -> JpegFrames:
        """One camera's frames, mapped, without opening anything else."""
        return read_frames(self.path(identifier), camera)

    def card(self, identifier: str) -> EpisodeCard:
        folder = self.path(identifier)
        attributes = read_attributes(folder)
        with explaining_damage(folder):
            return EpisodeCard(
                id=require_own_id(folder, attributes["id"]),
                task=Task(attributes["task"], tuple(Side(side) for side in attributes["active"])),
                source=Source(attributes["source"]),
                frames=int(attributes["frames"]),
                cameras=tuple(attributes["cameras"]),
                operator=str(attributes["provenance"]["operator"]),
                content=self._content.content(folder.name),
                hidden_embodiment=bool(attributes["provenance"]["details"].get(HIDDEN_EMBODIMENT, False)),
                picture_fit=attributes["provenance"]["details"].get(PICTURE_FIT),
                recovery_proposal=attributes["provenance"]["details"].get(RECOVERY_PROPOSAL),
            )

    def damaged_among(self, identifiers: Sequence[str]) -> dict[str, str]:
        """Episodes whose bytes are not what was written, and why. Bytes are read once per revision of an episode."""
        missing = {name: f"{self.root} has no episode {name!r}" for name in identifiers if not is_episode_id(name)}
        problems = missing | self._content.damages([name for name in identifiers if name not in missing])
        return {name: problems[name] for name in identifiers if name in problems}

    def require_intact(self, identifiers: Sequence[str]) -> None:
        for problem in self.damaged_among(identifiers).values():
            raise StoreDamaged(problem)

    @cached_property
    def _content(self) -> CheckedContent:
        return CheckedContent(inside(self.root, "episodes"), self.root / CACHE_FILE, watched)

    @contextmanager
    def writing(self) -> Iterator[StoreWriter]:
        """The right to add episodes, held by one process at a time."""
        inside(self.root, "episodes")
        with WriterLock(inside(self.root, "writer.lock")) as lock:
            writer = StoreWriter(self, recovered=lock.recovered)
            writer.clear_drafts()
            writer.log_committed()
            yield writer

    def damages(self, identifier: str) -> list[Damage]:
        """Every file of an episode that is not what was written."""
        folder = self.root / "episodes" / identifier
        try:
            damages = Manifest.read(inside(self.root, "episodes", identifier)).damages(folder)
        except (StoreDamaged, OSError) as error:
            return [Damage(folder / MANIFEST, str(error))]
        if damages:
            return damages
        try:
            self.read(identifier)  # intact, and perhaps not what we write all the same
        except (EgoRecoveryError, OSError) as error:
            return [
                Damage(folder, str(error), "it was not written by this program: remove the folder, or collect it again")
            ]
        return []

    def damages_beside_episodes(self) -> list[Damage]:
        """A damaged header or log, accepted episodes that are gone, episodes the log has lost."""
        damages = []
        try:
            self._require_format()
        except (StoreError, OSError) as error:
            damages.append(Damage(self.root / STORE, str(error)))
        damages += self._strange_names()
        log, path = self.collection, self.collection.journal.path
        problems = log.journal.problems()
        damages += [Damage(path, problem) for problem in problems]
        try:
            folders, there = set(self.folders()), set(self.ids())
        except (StoreError, OSError) as error:
            return [*damages, Damage(self.root / "episodes", str(error))]
        if problems:
            return damages
        accepted = {attempt.episode for attempt in log.attempts() if attempt.accepted}
        missing = sorted(accepted - folders)
        damages += [Damage(self.root / "episodes" / name, "is missing, though it was accepted") for name in missing]
        unlogged = there - accepted
        if len(unlogged) > 1:  # one may be unlogged by a kill; the next writer logs it
            damages.append(Damage(path, f"lacks {len(unlogged)} episodes of the store: lines were lost"))
        return damages

    def _strange_names(self) -> list[Damage]:
        """What lies among the episodes and is none, and what dead writers left."""
        damages = []
        for folder, problem, advice in (
            ("episodes", "is no folder of an episode", "remove it"),
            (".drafts", "was left by a writer that was killed", "the next writer removes it"),
        ):
            try:
                names = names_in(self.root / folder)
            except (StoreError, OSError) as error:
                damages.append(Damage(self.root / folder, str(error), "put a folder in its place"))
                continue
            paths = [self.root / folder / name for name in names]
            if folder == "episodes":
                paths = [path for path in paths if not (is_episode_id(path.name) and is_folder(path))]
            damages += [Damage(path, problem, advice) for path in paths]
        return damages + [Damage(*leftover) for leftover in leftovers(self.root)]


def _no_store(root: Path) -> str:
    """What lies there instead, and what would help."""
    if not root.exists():
        return (
            f"{root} is not an episode store, it does not exist: make one with 'egorecovery simulate' or "
            "'egorecovery import', or mend the path"
        )
    if root.is_file():
        return f"{root} is not an episode store but a file; name the folder of a store{around(root)}"
    for name, kind in (
        ("recipe.json", "a training run"),
        ("checkpoint.json", "a checkpoint"),
        ("suite.json", "an experiment"),
    ):
        if (root / name).exists():
            which = "the store that it was trained on" if kind != "an experiment" else "a store of episodes"
            return f"{root} is not an episode store but {kind}: name {which}{beside(root, 'store')}"
    if not any(root.iterdir()):
        return f"{root} is not an episode store but an empty folder: 'egorecovery simulate' or 'import' makes one there"
    if part := around(root):
        return f"{root} is not an episode store{part}"
    if inside := within(root, "store"):
        return f"{root} is not an episode store: name one{inside}"
    return (
        f"{root} is not an episode store: it has no {STORE}; if it holds recordings, add them to a store with "
        f"'egorecovery import {shlex.quote(str(root))} --out STORE'"
    )


def _is_empty_or_half_made(root: Path) -> bool:
    """Nothing there but what a killed `create` may have left."""
    return root.is_dir() and all(
        path.match(f".{STORE}.*.draft") or (path.name in ("episodes", ".drafts") and not any(path.iterdir()))
        for path in root.iterdir()
    )
