"""The episodes that a studio shows, by id, with the store's own JPEG bytes."""

import struct
import threading
from collections.abc import Mapping

import simplejpeg

from egorecovery.episodes import Camera, EpisodeCard, EpisodeStore
from egorecovery.errors import StoreError, StudioError

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

    def cards(self) -> Mapping[str, EpisodeCard]:
        """All readable episodes in name order, including new ones."""
        self._look()
        return self._cards

    def damaged(self) -> Mapping[str, str]:
        """Damage of unreadable episodes by id. A damaged episode does not prevent annotation of the others."""
        self._look()
        return self._damaged

    def _look(self) -> None:
        changed_ns = (self.store.root / "episodes").stat().st_mtime_ns
        with self._lock:
            if changed_ns == self._changed_ns:
                return
            cards: dict[str, EpisodeCard] = {}
            damaged: dict[str, str] = {}
            for name in self.store.folders():
                try:
                    cards[name] = self._cards.get(name) or self.store.card(name)
                except (StoreError, OSError) as error:
                    damaged[name] = str(error)
            self._cards, self._damaged, self._changed_ns = cards, damaged, changed_ns

    def card(self, clip: str) -> EpisodeCard:
        card = self._cards.get(clip) or self.cards().get(clip)
        if card is None and clip in self.damaged():
            raise StudioError(self.damaged()[clip])
        if card is None:
            raise StudioError("there is no such clip in this store")
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
