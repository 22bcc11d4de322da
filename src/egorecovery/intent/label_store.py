"""Labels on disk: one safetensors file per episode and a sealed card that says what they were derived from."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save

from egorecovery.episodes.store import EpisodeCard
from egorecovery.errors import StoreDamaged, StoreError
from egorecovery.intent.frame_labels import FrameLabels, Verdict
from egorecovery.intent.target import IntentSpec
from egorecovery.storage.atomic_io import write_file
from egorecovery.storage.checksummed_json import digest, file_sha256, read_checksummed, with_checksum
from egorecovery.storage.manifest import Damage

VERSION = 2  # raised when the same input would give other labels


def inputs_key(card: EpisodeCard, boundary: int | None, spec: IntentSpec) -> str:
    """Changes if and only if the labels could: recording, boundary, spec or this code."""
    return digest({"version": VERSION, "episode": card.content, "boundary": boundary, "spec": asdict(spec)})


class LabelStore:
    """A store's `labels/`. Derived data: deleting it loses nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _card(self, episode: str) -> Path:
        return self.root / f"{episode}.json"

    def _arrays(self, episode: str) -> Path:
        return self.root / f"{episode}.safetensors"

    def episodes(self) -> list[str]:
        return sorted(path.stem for path in self.root.glob("*.json")) if self.root.exists() else []

    def card(self, episode: str) -> dict[str, Any] | None:
        """What whole labels were derived from; None where there are none, or damaged ones."""
        try:
            card = read_checksummed(self._card(episode))
            return card if file_sha256(self._arrays(episode)) == card["arrays"] else None
        except (FileNotFoundError, StoreDamaged):
            return None

    def write(self, episode: str, key: str, labels: FrameLabels) -> dict[str, Any]:
        """Arrays first, card last: the card is the commit."""
        self.root.mkdir(exist_ok=True)
        self._card(episode).unlink(missing_ok=True)
        write_file(self._arrays(episode), save(labels.arrays()))
        counts = {verdict.name.lower(): count for verdict, count in labels.counts().items()}
        card = {"key": key, "arrays": file_sha256(self._arrays(episode)), "counts": counts}
        write_file(self._card(episode), with_checksum(card))
        return card

    def read(self, episode: str) -> FrameLabels:
        """Labels as they were derived, whatever has been annotated since; `labels_of` refuses outdated ones."""
        if self.card(episode) is None:
            raise StoreError(
                f"{self.root}: episode {episode} has no labels, or damaged ones; run 'egorecovery label' on the store"
            )
        return FrameLabels(**load_file(self._arrays(episode)))

    def remove(self, episode: str) -> None:
        self._card(episode).unlink(missing_ok=True)
        self._arrays(episode).unlink(missing_ok=True)

    def damages(self) -> list[Damage]:
        known = set(self.episodes())
        orphans = [path for path in self.root.glob("*.safetensors") if path.stem not in known]
        found = [Damage(path, "has lost its card; run 'egorecovery label'") for path in sorted(orphans)]
        for episode in sorted(known):
            try:
                card = read_checksummed(self._card(episode))
            except StoreDamaged as error:
                found.append(Damage(self._card(episode), str(error)))
                continue
            arrays = self._arrays(episode)
            if not arrays.is_file():
                found.append(Damage(arrays, "is missing"))
            elif file_sha256(arrays) != card["arrays"]:
                found.append(Damage(arrays, "has changed: its SHA-256 is not its card's; run 'egorecovery label'"))
        return found


def counts_of(card: dict[str, Any]) -> dict[Verdict, int]:
    return {Verdict[name.upper()]: count for name, count in card["counts"].items()}
