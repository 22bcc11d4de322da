"""The interface of all importers: a summary of the data, and recordings one at a time."""

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
    """The arms that the data's joint angles belong to."""

    name: str  # for people: a file, or the workcell's own arms
    arms: Callable[[], "Arms"]  # a module-level function or a partial of one: it is sent to worker processes
    given: bool = False  # set by the user, not assumed


@dataclass(frozen=True, kw_only=True)
class ImportAs:
    """Facts about demonstrations that other formats do not contain."""

    task: Task
    source: Source
    robot: Robot
    operator: str = "unknown"
    name: str = ""  # episodes are called NAME-000000 and so on; the data set's own name where empty
    recorded_at: datetime = UNKNOWN_TIME  # when the first episode began
    cameras: Mapping[Camera, str] = field(default_factory=dict)  # our names to theirs, if theirs are not common ones
    grippers: GripperRanges = field(default_factory=dict)  # readings of state and action, closed and open
    transform: Path | None = None  # from the data's frame to the workspace frame (docs/hand_tracks.md)

    @property
    def has_clock(self) -> bool:
        """Whether the recording time is known."""
        return self.recorded_at != UNKNOWN_TIME

    def id_of(self, data_set: str, number: int) -> EpisodeId:
        """An episode id from the data set's name, safe as a folder name."""
        safe = re.sub(r"[^A-Za-z0-9_.-]+", "-", self.name or data_set).lstrip("-._")[:110]
        return episode_id(f"{safe or 'episode'}-{number:06d}")

    def provenance(
        self, *, started_s: float, duration_s: float, recorder: str, details: Mapping[str, object]
    ) -> Provenance:
        """Provenance of an episode that began `started_s` after the first one."""
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
    """A summary of the data and how it would be imported."""

    what: str  # the format, with its version
    episodes: int
    frames: int  # of all episodes, at the data's own rate
    rate_hz: float | None  # None where streams have clocks of their own
    cameras: Mapping[str, str]  # ours to theirs, with the pictures' size in words
    mapping: Mapping[str, str]  # state, action and so on to their sources
    notes: tuple[str, ...] = ()  # what was assumed
    warnings: tuple[str, ...] = ()  # probable errors


class Importer(ABC):
    """Demonstrations in one format.

    An importer is a frozen value that can be sent to worker processes; it opens files on demand. Creating one fails if
    there is nothing to import.
    """

    @abstractmethod
    def findings(self) -> Findings:
        """A summary of the data, without decoding pictures."""

    @abstractmethod
    def places(self) -> Sequence[str]:
        """The place of each episode, for messages. At least one."""

    @abstractmethod
    def load(self, episode: int, fit: PictureFit | None) -> Recording:
        """One episode by its index in `places`. An unreadable one raises `RecordingError`.

        Pictures that must be decoded anyway are fitted at once with `raw_camera`; others are fitted later.
        """

    def name(self, episode: int) -> str:
        """The name of an episode that cannot be read."""
        return Path(self.places()[episode]).name

    def damaged_picture(self, episode: int) -> str | None:
        """The place of a picture that does not decode, if frames were taken without decoding."""
        return None

    def write_sheet(self, path: Path) -> None:
        """A contact sheet of the first episode as it would be imported, one row per camera."""
        rows = []
        for raw in self.load(0, None).cameras.values():
            moments = np.unique(np.linspace(0, len(raw.frames) - 1, SHEET_COLUMNS).round().astype(int))
            smaller = max(1, raw.frames.size_hw[0] // SHEET_HEIGHT_PX)
            rows.append(beside([raw.frames[int(moment)][::smaller, ::smaller] for moment in moments]))
        if not rows:
            raise RecordingError(f"{self.places()[0]} has no pictures to show")
        write_png(below(rows), path)

    def recordings(self, fit: PictureFit | None = None) -> Iterator[Recording]:
        """Recordings, one at a time."""
        for episode in range(len(self.places())):
            yield self.load(episode, fit)


def episode_numbers(files: Sequence[Path]) -> dict[Path, int]:
    """Episode numbers from file names if all are unique, so that later files do not change ids.

    Otherwise positions in the list, including unreadable files, so that repairing one does not change ids.
    """
    named = [trailing_number(file) for file in files]
    numbers = [number for number in named if number is not None]
    chosen = numbers if len(set(numbers)) == len(files) else range(len(files))
    return dict(zip(files, chosen, strict=True))


def trailing_number(file: Path) -> int | None:
    """The number at the end of a name, such as 7 of episode_7.hdf5."""
    digits = file.stem[len(file.stem.rstrip("0123456789")) :]
    return int(digits) if 0 < len(digits) <= 9 else None


def parsed_time(text: str) -> datetime:
    """When the first episode began; `UNKNOWN_TIME` if not given."""
    try:
        moment = datetime.fromisoformat(text) if text else UNKNOWN_TIME
    except ValueError:
        raise RecordingError(f"--recorded-at {text!r}: write a time like 2026-03-01T10:00:00+00:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
