"""The episodes that a studio shows, by id, with the store's own JPEG bytes."""

import struct
import threading
from collections.abc import Mapping

import simplejpeg

from egorecovery.episodes import Camera, EpisodeCard, EpisodeStore
from egorecovery.errors import StoreError, StudioError
from egorecovery.storage.manifest import MANIFEST

MAX_FRAMES = 64  # per response: about 10 MB of three 640x480 cameras
THUMBNAIL_PX = 160  # smallest length of the longer side


class ClipIndex:
    """Cards of a store by id. Unknown names never reach the file system."""

    def __init__(self, store: EpisodeStore) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._changed_ns = -1
        self._cards: dict[str, EpisodeCard] = {}
        self._damaged: dict[str, str] = {}
        self._manifests: dict[str, tuple[int, int] | None] = {}  # of the cards: an episode may be replaced by another

    def cards(self) -> Mapping[str, EpisodeCard]:
        """All readable episodes in name order, including new ones."""
        self._look()
        return self._cards

    def damaged(self) -> Mapping[str, str]:
        """Damage of unreadable episodes by id. A damaged episode does not prevent annotation of the others."""
        self._look()
        return self._damaged

    def _look(self) -> None:
        try:
            changed_ns = (self.store.root / "episodes").stat().st_mtime_ns
        except OSError as error:
            raise StudioError(f"{self.store.root} cannot be read any more: {error.strerror}") from None
        with self._lock:
            if changed_ns == self._changed_ns:
                return
            cards: dict[str, EpisodeCard] = {}
            damaged: dict[str, str] = {}
            manifests = {str(name): self._manifest(name) for name in self.store.folders()}
            for name, manifest in manifests.items():
                known = self._cards.get(name) if manifest == self._manifests.get(name) else None
                try:
                    cards[name] = known or self.store.card(name)
                except (StoreError, OSError) as error:
                    damaged[name] = str(error)
            self._cards, self._damaged = cards, damaged
            self._manifests, self._changed_ns = manifests, changed_ns

    def _manifest(self, name: str) -> tuple[int, int] | None:
        """Which file it is; None if there is none."""
        try:
            status = (self.store.root / "episodes" / name / MANIFEST).lstat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    def card(self, clip: str) -> EpisodeCard:
        card = self.cards().get(clip)  # looked up anew: it may have been removed meanwhile
        if card is None and clip in self.damaged():
            raise StudioError(self.damaged()[clip])
        if card is None:
            raise StudioError("there is no such clip in this store; if it was listed, it was removed: reload the page")
        return card

    def frame_batch(self, clip: str, first: int, count: int) -> bytes:
        """Frames from `first` on of all cameras, as stored JPEG bytes.

        Layout: little-endian uint32 numbers of cameras C and frames N, N + 1 offsets into the bytes of each camera,
        then the bytes of each camera.
        """
        card = self.card(clip)
        if not (0 <= first < card.frames and 1 <= count <= MAX_FRAMES):
            raise StudioError(
                f"frames {first} and {count} on: the clip has {card.frames}, a batch at most {MAX_FRAMES}"
            )
        last = min(first + count, card.frames)
        head = [len(card.cameras), last - first]
        pictures: list[bytes] = []
        for camera in card.cameras:
            frames = self.store.frames(clip, Camera(camera))
            offsets = frames.offsets[first : last + 1]
            head += (offsets - offsets[0]).tolist()
            pictures.append(frames.packed[offsets[0] : offsets[-1]].tobytes())
        return b"".join([struct.pack(f"<{len(head)}I", *head), *pictures])

    def thumbnail(self, clip: str) -> bytes:
        """A small JPEG of the first camera from the middle of the clip."""
        card = self.card(clip)
        frames = self.store.frames(clip, Camera(card.cameras[0]))
        image = simplejpeg.decode_jpeg(
            frames.encoded(card.frames // 2), min_width=THUMBNAIL_PX, min_height=1, min_factor=1, fastdct=True
        )
        return simplejpeg.encode_jpeg(image, quality=80)
