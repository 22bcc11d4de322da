"""Videos of a real robot as clips to score: a table of rollouts, or a folder per method."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.evaluation.results import RolloutRecord, Subject
from egorecovery.evaluation.rollout import Result
from egorecovery.evaluation.rollout_videos import VIDEO_NAMES
from egorecovery.studio.scoring.clip import Clip
from egorecovery.studio.scoring.errors import ScoringError

REQUIRED = ("video", "task", "method", "start", "regime")
OPTIONAL = ("mode", "seed", "duration_s", "verdict")
VERDICTS: tuple[Result, ...] = ("success", "failure")
REAL_ROBOT = "real_robot"  # name of the protocol and of its starts; start 3 is the same for all methods
_NAME = re.compile(r"(?P<task>\w+)-(?P<regime>initial|recovery)-(?P<start>\d+)")
_LAYOUT = "METHOD/TASK-REGIME-START.mp4, such as baseline/cup_brush-recovery-003.mp4"


@dataclass(frozen=True)
class _Row:
    """One line of a table. Its errors name the line."""

    fields: Mapping[str, str]
    where: str

    def __getitem__(self, name: str) -> str:
        return (self.fields.get(name) or "").strip()

    def wrong(self, name: str, wanted: str) -> ScoringError:
        return ScoringError(f"{self.where}: {name} is {self[name]!r}, wanted {wanted}")

    def whole_number(self, name: str) -> int:
        if not self[name].isascii() or not self[name].isdigit():
            raise self.wrong(name, "a whole number, 0 or more")
        return int(self[name])


def clips_of_table(table: Path) -> tuple[list[Clip], list[str]]:
    """One clip per line of a CSV file with the columns `REQUIRED`, and notes on unused columns."""
    try:
        with table.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.DictReader(stream, strict=True)
            columns = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = columns
            rows = [_Row(fields, f"{table} line {reader.line_num}") for fields in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ScoringError(f"{table} cannot be read as CSV in UTF-8 ({error})") from None
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise ScoringError(
            f"{table} lacks the columns {', '.join(missing)}; wanted are {', '.join(REQUIRED)}, and if known "
            f"{', '.join(OPTIONAL)}"
        )
    if not rows:
        raise ScoringError(f"{table} lists no videos")
    unused = [name for name in columns if name not in (*REQUIRED, *OPTIONAL)]
    notes = [f"{table}: columns that are not used: {', '.join(unused)}"] if unused else []
    return [_clip(row, table.parent) for row in rows], notes


def clips_of_folder(root: Path) -> list[Clip]:
    """Clips of videos named METHOD/TASK-REGIME-START.mp4."""
    clips = []
    for video in sorted(path for path in root.glob("*/*") if path.suffix.lower() in VIDEO_NAMES):
        named = _NAME.fullmatch(video.stem)
        if named is None:
            raise ScoringError(f"{video} is not named {_LAYOUT}; rename it, or list the videos in a CSV file")
        fields = {**named.groupdict(), "video": str(video.relative_to(root)), "method": video.parent.name}
        clips.append(_clip(_Row(fields, str(video)), root))
    if not clips:
        raise ScoringError(f"{root} has no videos named {_LAYOUT}, no result files and no table of videos (.csv)")
    return clips


def _clip(row: _Row, home: Path) -> Clip:
    for name in ("video", "task", "method"):
        if not row[name]:
            raise row.wrong(name, "a text")
    video = home / row["video"]
    try:
        there = video.is_file()
    except OSError:  # an impossible file name
        there = False
    if not there:
        raise ScoringError(f"{row.where}: there is no file {video}")
    regime: Regime | None = next((known for known in REGIMES if known == row["regime"]), None)
    if regime is None:
        raise row.wrong("regime", " or ".join(REGIMES))
    verdict: Result | None = next((known for known in VERDICTS if known == row["verdict"]), None)
    if row["verdict"] and verdict is None:
        raise row.wrong("verdict", "success, failure or nothing")
    mode = row["mode"] or ("nominal" if regime == "initial" else "not named")
    record = RolloutRecord(
        subject=Subject(policy=row["method"], seed=row.whole_number("seed") if row["seed"] else 0),
        task=row["task"],
        regime=regime,
        index=row.whole_number("start"),
        start={"mode": mode},
        protocol={"name": REAL_ROBOT, "starts_seed": REAL_ROBOT},
        outcome=verdict or "error",
        reason="" if verdict else "not scored",
        duration_s=_seconds(row),
        retries=0,
        decisions=0,
    )
    return Clip(video=video, rollout=record, automatic=verdict)


def _seconds(row: _Row) -> float:
    """The duration; 0 if not given, and the video's own length is used."""
    try:
        seconds = float(row["duration_s"] or 0)
    except ValueError:
        raise row.wrong("duration_s", "seconds") from None
    if not 0 <= seconds < float("inf"):
        raise row.wrong("duration_s", "seconds, 0 or more")
    return seconds
