"""The clip being recorded. It is written to a draft folder, which one rename turns into a recording.

After a kill at any moment, finished clips are untouched and the draft is no recording. The next recorder logs the
attempt as interrupted and removes the draft.
"""

import json
import queue
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format

from egorecovery.capture.sensor import CameraFrame, RobotSample
from egorecovery.capture.stream_meter import missing_between
from egorecovery.errors import CaptureError, EgoRecoveryError, StoreDamaged
from egorecovery.storage.atomic_io import explaining_full_disk, sync_directory, sync_file, write_file
from egorecovery.storage.bounded_json import read_json
from egorecovery.storage.containment import inside, is_folder, names_in, remove

DRAFTS = ".drafts"
BEGUN = "begun.json"  # in a draft: the log entry to write if the recorder is killed
QUEUED = 256  # items that may wait for the disk: about eight seconds of one camera
IDLE = 2  # with at most this many items waiting, pictures are synced at once
ACCEPTED = ".accepted"  # ending of the draft of a clip that was accepted and found no room; a person finishes it
LATE_S = 0.5  # how long after the stop key to wait for pictures taken before it


class Take:
    """One stream of a clip. The sensor's thread offers items, and the take's thread writes them."""

    def __init__(self, start_s: float, rate_hz: float, *, waits: bool) -> None:
        self.start_s = start_s
        self.stop_s: float | None = None
        self.offered = self.missing = self.overflowed = 0
        self._rate_hz, self._last_s = rate_hz, start_s
        self.times_s: list[float] = []
        self.failure: EgoRecoveryError | None = None
        self.passed_end = threading.Event()
        self._waits = waits  # block the sensor instead of dropping its items
        self._queue: queue.Queue[CameraFrame | RobotSample | None] = queue.Queue(QUEUED)
        self._thread = threading.Thread(target=self._write_all, daemon=True)
        self._thread.start()

    def offer(self, item: CameraFrame | RobotSample) -> bool:
        """Queues an item. False if the queue is full. Items captured outside start and stop are ignored."""
        if item.captured_s < self.start_s:
            return True
        if self.stop_s is not None and item.captured_s > self.stop_s:
            self.passed_end.set()
            return True
        self.offered += 1
        self.missing += missing_between(self._last_s, item.captured_s, self._rate_hz)
        self._last_s = item.captured_s
        try:
            self._queue.put(item, block=self._waits)
        except queue.Full:
            self.overflowed += 1
            return False
        return True

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    def end(self) -> None:
        """Declares that no more items will be offered."""
        self._queue.put(None)

    def finish(self) -> None:
        """Waits until all offered items are on disk. Call `end` before."""
        self._thread.join()

    def _write_all(self) -> None:
        """Writes queued items. After a failure it keeps emptying the queue, so that the sensor does not block."""
        while (item := self._queue.get()) is not None:
            self._attempt(lambda item=item: self.write(item))
            self.times_s.append(item.captured_s - self.start_s)
        self._attempt(self.close)

    def _attempt(self, step: Callable[[], None]) -> None:
        if self.failure is not None:
            return
        try:
            step()
        except EgoRecoveryError as error:
            self.failure = error
        except OSError as error:
            self.failure = CaptureError(str(error))

    def write(self, item: Any) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class CameraTake(Take):
    """Pictures as numbered JPEG files, depth appended to one array."""

    def __init__(self, directory: Path, start_s: float, rate_hz: float, *, waits: bool) -> None:
        self._directory = directory
        (directory / "rgb").mkdir(parents=True)
        self._depth: DepthFile | None = None
        self._unsafe: list[Path] = []  # written but not synced
        super().__init__(start_s, rate_hz, waits=waits)

    def write(self, item: CameraFrame) -> None:
        path = self._directory / "rgb" / f"{len(self.times_s):06d}.jpg"
        with explaining_full_disk(path):
            path.write_bytes(item.jpeg)
            if self.waiting <= IDLE:  # synced now, it need not be synced when the clip is accepted
                sync_file(path)
            else:
                self._unsafe.append(path)
            if item.depth_mm is not None:
                self._depth = self._depth or DepthFile(self._directory / "depth_mm.npy", item.depth_mm.shape)
                self._depth.append(item.depth_mm)

    def close(self) -> None:
        with explaining_full_disk(self._directory):
            np.save(self._directory / "timestamps_s.npy", np.array(self.times_s))
            if self._depth is not None:
                self._depth.close()
            for path in [*self._unsafe, *self._directory.glob("*.npy")]:
                sync_file(path)
            for folder in (self._directory / "rgb", self._directory):
                sync_directory(folder)


class RobotTake(Take):
    """Samples in memory, a few megabytes an hour, then `robot.npz`."""

    def __init__(self, path: Path, start_s: float, rate_hz: float, *, waits: bool) -> None:
        self._path = path
        self._samples: list[RobotSample] = []
        super().__init__(start_s, rate_hz, waits=waits)

    def write(self, item: RobotSample) -> None:
        self._samples.append(item)

    def close(self) -> None:
        names = ["state", "action", "effector_m"]
        for name in ("effector_state", "effector_action"):
            if self._samples and all(getattr(sample, name) is not None for sample in self._samples):
                names.append(name)
        streams = {name: np.array([getattr(sample, name) for sample in self._samples]) for name in names}
        with explaining_full_disk(self._path):
            np.savez(self._path, timestamps_s=np.array(self.times_s), **streams)  # pyright: ignore[reportArgumentType] - numpy's stub takes the next keyword for one of its own


class DepthFile:
    """An `.npy` of (N, h, w) uint16 whose N is known only at the end."""

    def __init__(self, path: Path, shape_hw: tuple[int, ...]) -> None:
        self._shape_hw, self._frames = shape_hw, 0
        self._stream: IO[bytes] = path.open("wb")
        self._header()
        self._room = self._stream.tell()

    def append(self, depth_mm: np.ndarray) -> None:
        if depth_mm.shape != self._shape_hw:
            raise CaptureError(f"{self._stream.name}: depth changed its size from {self._shape_hw} to {depth_mm.shape}")
        self._stream.write(np.ascontiguousarray(depth_mm, "<u2").tobytes())
        self._frames += 1

    def close(self) -> None:
        self._stream.seek(0)
        self._header()
        assert self._stream.tell() == self._room, "numpy leaves room for the first axis to grow"
        self._stream.close()

    def _header(self) -> None:
        described = {"descr": "<u2", "fortran_order": False, "shape": (self._frames, *self._shape_hw)}
        npy_format.write_array_header_1_0(self._stream, described)


@dataclass(frozen=True)
class ClipDraft:
    """A clip's folder until it is committed."""

    root: Path  # of the raw recordings
    name: str

    @property
    def directory(self) -> Path:
        return inside(self.root, DRAFTS, self.name)

    @classmethod
    def begin(cls, root: Path, name: str, record: Mapping[str, Any]) -> "ClipDraft":
        """`record` is the log entry of the attempt if the recorder is killed."""
        draft = cls(root, name)
        with explaining_full_disk(draft.directory):
            draft.directory.mkdir(parents=True)
        write_file(draft.directory / BEGUN, json.dumps(record).encode())
        return draft

    def sync(self) -> None:
        """Syncs the draft's folder and its files. Takes sync their own folders."""
        with explaining_full_disk(self.directory):
            for path in self.directory.glob("*.*"):
                if path.is_file():
                    sync_file(path)
            sync_directory(self.directory)

    def commit(self, description: Mapping[str, Any], name_of_description: str) -> Path:
        """Writes the description, then renames the folder. The rename is the commit. May be repeated if it fails."""
        home = self.root / self.name
        is_draft = is_folder(self.directory)  # else only the sync has failed
        if is_draft:
            write_description(self.directory / name_of_description, description)
        with explaining_full_disk(home):
            if is_draft:
                self.directory.rename(home)  # onto no other recording: a folder with files is not replaced
            sync_directory(self.root)
            sync_directory(self.directory.parent)
        return home

    def logged(self) -> None:
        """Marks the committed clip as logged, so that the next recorder has nothing to do."""
        inside(self.root, self.name, BEGUN).unlink(missing_ok=True)

    def keep(self) -> Path:
        """Leaves an accepted clip where the next recorder does not remove it. The rename needs no room."""
        kept = self.directory.with_name(f"{self.name}{ACCEPTED}")
        try:
            self.directory.rename(kept)
            sync_directory(kept.parent)
        except OSError:
            return next((path for path in (kept, self.root / self.name) if is_folder(path)), self.directory)
        return kept

    def discard(self) -> None:
        with suppress(OSError):
            remove(self.directory)


def write_description(path: Path, description: Mapping[str, Any]) -> None:
    write_file(path, json.dumps(description, indent=2, ensure_ascii=False, allow_nan=False).encode())


def leftovers(root: Path) -> list[tuple[ClipDraft, dict[str, Any] | None, float]]:
    """Drafts of a killed recorder: their log entries, and when they were last written."""
    drafts = []
    for directory in (path for path in _drafts_in(root) if path.suffix != ACCEPTED):
        try:
            record = read_json(directory / BEGUN)
        except (OSError, StoreDamaged):
            record = None
        touched_s = max(path.lstat().st_mtime for path in (directory, *directory.rglob("*")))
        drafts.append((ClipDraft(root, directory.name), record, touched_s))
    return drafts


def accepted_drafts(root: Path) -> list[Path]:
    """Accepted clips that found no room. No recorder removes them."""
    return [path for path in _drafts_in(root) if path.suffix == ACCEPTED]


def _drafts_in(root: Path) -> list[Path]:
    home = inside(root, DRAFTS)
    return [home / name for name in names_in(home) if is_folder(home / name)]
