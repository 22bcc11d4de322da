"""What every format's importer is: it says what it found, and gives recordings one at a time."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from egorecovery.capture.formats.grippers import GripperRanges
from egorecovery.capture.picture_fit import PictureFit
from egorecovery.capture.recording import Recording
from egorecovery.episodes import Camera, EpisodeId, Provenance, Source, Task, episode_id
from egorecovery.episodes.attempt_log import UNKNOWN_TIME
from egorecovery.episodes.pictures import below, beside, write_png
from egorecovery.errors import RecordingError

if TYPE_CHECKING:
    from egorecovery.kinematics.arms import Arms  # imports MuJoCo

SHEET_COLUMNS, SHEET_HEIGHT_PX = 8, 160


@dataclass(frozen=True, kw_only=True)
class Robot:
    """The arms whose joint angles the data has."""

    name: str  # for people: a file, or the workcell's own arms
    arms: Callable[[], "Arms"]  # a function at module level or a partial of one: it goes to worker processes
    given: bool = False  # by the user, not assumed


@dataclass(frozen=True, kw_only=True)
class ImportAs:
    """What other formats do not say of their demonstrations."""

    task: Task
    source: Source
    robot: Robot
    operator: str = "unknown"
    name: str = ""  # episodes are called NAME-000000 and so on; the data set's own name where empty
    recorded_at: datetime = UNKNOWN_TIME  # when the first episode began
    cameras: Mapping[Camera, str] = field(default_factory=dict)  # ours to theirs, where their names do not tell
    grippers: GripperRanges = field(default_factory=dict)  # what state and action read, closed and open
    transform: Path | None = None  # from the data's frame to the workspace frame (docs/hand_tracks.md)

    @property
    def has_clock(self) -> bool:
        """Whether anybody says when it was."""
        return self.recorded_at != UNKNOWN_TIME

    def id_of(self, data_set: str, number: int) -> EpisodeId:
        """Safe as a folder, whatever the data set is called."""
        safe = re.sub(r"[^A-Za-z0-9_.-]+", "-", self.name or data_set).lstrip("-._")[:110]
        return episode_id(f"{safe or 'episode'}-{number:06d}")

    def provenance(
        self, *, started_s: float, duration_s: float, recorder: str, details: Mapping[str, object]
    ) -> Provenance:
        """Of an episode that began `started_s` after the first one, where anybody knows when that was."""
        started = self.recorded_at + timedelta(seconds=started_s if self.has_clock else 0.0)
        unknown = {} if self.has_clock else {"wall_clock": "unknown"}
        return Provenance(
            operator=self.operator,
            started_at=started.isoformat(timespec="milliseconds"),
            stopped_at=(started + timedelta(seconds=duration_s)).isoformat(timespec="milliseconds"),
            recorder=recorder,
            details={**details, **({} if self.source.is_human else {"robot": self.robot.name}), **unknown},
        )


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What there is to import and what would be made of it."""

    what: str  # the format, with its version
    episodes: int
    frames: int  # of all episodes, at the data's own rate
    rate_hz: float | None  # None where streams have clocks of their own
    cameras: Mapping[str, str]  # ours to theirs, with the pictures' size in words
    mapping: Mapping[str, str]  # state, action and so on to what they are made of
    notes: tuple[str, ...] = ()  # what was assumed
    warnings: tuple[str, ...] = ()  # what is probably wrong


class Importer(ABC):
    """Demonstrations in one format.

    An importer is a frozen value that a worker process can be sent: it opens files when it is asked. Making one finds
    out whether there is anything to import, and refuses if not.
    """

    @abstractmethod
    def findings(self) -> Findings:
        """Without decoding pictures."""

    @abstractmethod
    def places(self) -> Sequence[str]:
        """Where each episode is, for messages; at least one."""

    @abstractmethod
    def load(self, episode: int, fit: PictureFit | None) -> Recording:
        """One episode by its index in `places`. Pictures that are decoded anyway should be fitted at once, with
        `raw_camera`; those that come as they are will be fitted later. Unreadable ones are a `RecordingError`."""

    def name(self, episode: int) -> str:
        """What to call an episode that cannot be read."""
        return Path(self.places()[episode]).name

    def damaged_picture(self, episode: int) -> str | None:
        """Where the picture is that did not decode, if a recording's frames were taken without decoding them."""
        return None

    def write_sheet(self, path: Path) -> None:
        """Moments of the first episode as they would be imported, one row per camera, for a person to look at."""
        rows = []
        for raw in self.load(0, None).cameras.values():
            moments = np.unique(np.linspace(0, len(raw.frames) - 1, SHEET_COLUMNS).round().astype(int))
            smaller = max(1, raw.frames.size_hw[0] // SHEET_HEIGHT_PX)
            rows.append(beside([raw.frames[int(moment)][::smaller, ::smaller] for moment in moments]))
        if not rows:
            raise RecordingError(f"{self.places()[0]} has no pictures to show")
        write_png(below(rows), path)

    def recordings(self, fit: PictureFit | None = None) -> Iterator[Recording]:
        """One at a time."""
        for episode in range(len(self.places())):
            yield self.load(episode, fit)


def episode_numbers(files: Sequence[Path]) -> dict[Path, int]:
    """Those in their names, where each has one of its own, so that files that come later rename nothing.

    Else their turns, unreadable ones counted, so that mending one renames nothing.
    """
    named = [trailing_number(file) for file in files]
    numbers = [number for number in named if number is not None]
    chosen = numbers if len(set(numbers)) == len(files) else range(len(files))
    return dict(zip(files, chosen, strict=True))


def trailing_number(file: Path) -> int | None:
    """7 of episode_7.hdf5."""
    digits = file.stem[len(file.stem.rstrip("0123456789")) :]
    return int(digits) if 0 < len(digits) <= 9 else None


def parsed_time(text: str) -> datetime:
    """When the first episode began; unknown where nothing is said."""
    try:
        moment = datetime.fromisoformat(text) if text else UNKNOWN_TIME
    except ValueError:
        raise RecordingError(f"--recorded-at {text!r}: write a time like 2026-03-01T10:00:00+00:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
