"""Labels on disk: one safetensors file per episode and a sealed card that says what they were derived from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypedDict

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from egorecovery.episodes.store import EpisodeCard
from egorecovery.episodes.vocabulary import episode_id, is_episode_id
from egorecovery.errors import StoreDamaged, StoreError
from egorecovery.intent.frame_labels import FrameLabels, Verdict
from egorecovery.intent.target import IntentSpec
from egorecovery.storage.atomic_io import write_file
from egorecovery.storage.checksummed_json import digest, file_sha256, read_checksummed, with_checksum
from egorecovery.storage.containment import exists, inside, is_folder, names_in, read_bytes
from egorecovery.storage.drafts import is_draft, leftovers, remove_drafts_of_the_dead
from egorecovery.storage.manifest import Damage
from egorecovery.storage.typed_json import Must, from_json, to_json

VERSION = 2  # raised when the same input would give other labels


_VERDICTS = {verdict.name.lower() for verdict in Verdict}


class LabelCard(TypedDict):
    """What labels were derived from, and how many frames have which verdict."""

    key: str
    arrays: str  # SHA-256
    counts: Mapping[Annotated[str, Must("that names a verdict", lambda name: name in _VERDICTS)], int]


def inputs_key(card: EpisodeCard, boundary: int | None, spec: IntentSpec) -> str:
    """Changes if and only if the labels could: recording, boundary, spec or this code."""
    return digest({"version": VERSION, "episode": card.content, "boundary": boundary, "spec": to_json(spec)})


class LabelStore:
    """A store's `labels/`. Derived data: deleting it loses nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _folder(self) -> Path:
        return inside(self.root.parent, self.root.name)

    def _card(self, episode: str) -> Path:
        return inside(self._folder(), f"{episode_id(episode)}.json")

    def _arrays(self, episode: str) -> Path:
        return inside(self._folder(), f"{episode_id(episode)}.safetensors")

    def episodes(self) -> list[str]:
        return [Path(name).stem for name in names_in(self._folder()) if name.endswith(".json")]

    def card(self, episode: str) -> LabelCard | None:
        """What whole labels were derived from; None where there are none, or damaged ones."""
        try:
            card = _checked_card(self._card(episode))
            return card if file_sha256(self._arrays(episode)) == card["arrays"] else None
        except (FileNotFoundError, StoreDamaged):
            return None

    def there(self, episode: str) -> bool:
        """Whether there are labels, be they damaged."""
        return exists(self.root / f"{episode_id(episode)}.json")

    def write(self, episode: str, key: str, labels: FrameLabels) -> LabelCard:
        """Arrays first, card last: the card is the commit."""
        self._folder().mkdir(exist_ok=True)
        self.remove(episode)  # links too, which are never written through
        write_file(self._arrays(episode), save(labels.arrays()))
        counts = {verdict.name.lower(): count for verdict, count in labels.counts().items()}
        card: LabelCard = {"key": key, "arrays": file_sha256(self._arrays(episode)), "counts": counts}
        write_file(self._card(episode), with_checksum(dict(card)))
        return card

    def read(self, episode: str) -> FrameLabels:
        """Labels as they were derived, whatever has been annotated since; `labels_of` refuses outdated ones."""
        if self.card(episode) is None:
            raise StoreError(
                f"{self.root}: episode {episode} has no labels, or damaged ones; run 'egorecovery label' on the store"
            )
        return _labels_in(self._arrays(episode))

    def remove_drafts(self) -> None:
        """What a killed `label` left half written."""
        if is_folder(self.root):
            remove_drafts_of_the_dead(self._folder())

    def remove(self, episode: str) -> None:
        folder, name = self._folder(), episode_id(episode)
        for ending in ("json", "safetensors"):
            (folder / f"{name}.{ending}").unlink(missing_ok=True)

    def damages(self) -> list[Damage]:
        advice = "remove it and run 'egorecovery label'"
        try:
            names = names_in(self._folder())
        except (StoreDamaged, OSError) as error:
            return [Damage(self.root, str(error), advice)]
        known = {Path(name).stem for name in names if name.endswith(".json")}
        damages = [Damage(*leftover) for leftover in leftovers(self._folder())]
        for name in names:
            if is_draft(name):
                continue
            stem, ending = Path(name).stem, Path(name).suffix
            if ending not in (".json", ".safetensors") or not is_episode_id(stem):
                damages.append(Damage(self.root / name, "is no label file", "remove it"))
            elif stem not in known:
                damages.append(Damage(self.root / name, "has lost its card", "run 'egorecovery label'"))
        for episode in sorted(filter(is_episode_id, known)):
            card_path, arrays = self.root / f"{episode}.json", self.root / f"{episode}.safetensors"
            try:
                card = _checked_card(self._card(episode))
            except (StoreDamaged, OSError) as error:
                damages.append(Damage(card_path, str(error), advice))
                continue
            try:
                if not exists(arrays):
                    damages.append(Damage(arrays, "is missing", "run 'egorecovery label'"))
                elif file_sha256(self._arrays(episode)) != card["arrays"]:
                    damages.append(
                        Damage(arrays, "has changed: its SHA-256 is not its card's", "run 'egorecovery label'")
                    )
                else:
                    _labels_in(self._arrays(episode))
            except (StoreDamaged, OSError) as error:
                damages.append(Damage(arrays, str(error), advice))
        return damages


def _checked_card(path: Path) -> LabelCard:
    return from_json(LabelCard, read_checksummed(path), f"{path}: ", StoreDamaged, "run 'egorecovery label'")


def _labels_in(path: Path) -> FrameLabels:
    """Arrays of the names, types and one length that labels have."""
    try:
        arrays = load(read_bytes(path))
        frames = len(arrays["in_recovery"])
        kinds = {name: (array.dtype, array.shape) for name, array in arrays.items()}
        width = arrays["intent_m"].shape[1]
    except (SafetensorError, LookupError, TypeError, ValueError) as error:
        raise StoreDamaged(f"{path} holds no labels ({error}); run 'egorecovery label'") from None
    flags, metres = (np.dtype(np.bool_), (frames,)), np.dtype(np.float32)
    wanted = dict.fromkeys(("in_recovery", "gt_intent_valid", "recovery_intent_valid"), flags)
    wanted |= {"intent_m": (metres, (frames, width)), "peak_to_peak_m": (metres, (frames,))}
    wanted |= {"verdict": (np.dtype(np.uint8), (frames,))}
    if kinds != wanted:
        raise StoreDamaged(f"{path} holds other arrays than labels have; run 'egorecovery label'")
    return FrameLabels(**arrays)


def counts_of(card: LabelCard) -> dict[Verdict, int]:
    return {Verdict[name.upper()]: count for name, count in card["counts"].items()}
