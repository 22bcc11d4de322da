"""`egorecovery import --format aloha`: HDF5 files of ACT, ALOHA and Mobile ALOHA as recordings."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from egorecovery.capture.formats.aloha import (
    AlohaFile,
    AlohaReading,
    find_files,
    gripper_ranges,
    look_at,
    read_camera,
    read_log,
)
from egorecovery.capture.formats.camera_names import chosen_cameras
from egorecovery.capture.formats.grippers import GripperRange
from egorecovery.capture.formats.importer import Findings, ImportAs, Importer, episode_numbers
from egorecovery.capture.formats.options import AlohaOptions
from egorecovery.capture.formats.pictures import write_colour_sheet
from egorecovery.capture.picture_fit import PictureFit
from egorecovery.capture.recording import Recording
from egorecovery.episodes import Camera
from egorecovery.errors import RecordingError


def open_paths(paths: Sequence[Path], wanted: ImportAs, options: AlohaOptions) -> "AlohaFiles":
    if wanted.source.is_human:
        raise RecordingError(f"ALOHA files are of robots, not of {wanted.source}; say --source robot_recovery")
    return AlohaFiles.found(paths, wanted, options)


@dataclass(frozen=True, kw_only=True)
class AlohaFiles(Importer):
    """Episodes of one data set, with one camera mapping and one range per gripper stream."""

    files: tuple[AlohaFile, ...]
    unreadable: tuple[tuple[Path, str], ...]  # files and errors, which are raised again on loading
    numbers: dict[Path, int]
    cameras: dict[Camera, str]
    reading: AlohaReading
    wanted: ImportAs

    @classmethod
    def found(cls, paths: Sequence[Path], wanted: ImportAs, options: AlohaOptions) -> "AlohaFiles":
        """Reads every file once, because the gripper ranges need all of them."""
        files, unreadable = [], []
        places = find_files(paths)
        for path in places:
            try:
                files.append(look_at(path))
            except RecordingError as error:
                unreadable.append((path, str(error)))
        if not files:
            raise RecordingError(unreadable[0][1])
        return cls(
            files=tuple(files),
            unreadable=tuple(unreadable),
            numbers=episode_numbers(places),
            cameras=chosen_cameras(wanted.cameras, list(files[0].cameras)),
            reading=AlohaReading(
                rate_hz=options.rate_hz,
                channel_order=options.channel_order,
                grippers=gripper_ranges(files, wanted.grippers),
            ),
            wanted=wanted,
        )

    def places(self) -> list[str]:
        return [str(file.path) for file in self.files] + [str(path) for path, _ in self.unreadable]

    def load(self, episode: int, fit: PictureFit | None) -> Recording:
        if episode >= len(self.files):
            raise RecordingError(self.unreadable[episode - len(self.files)][1])
        file, reading = self.files[episode], self.reading
        missing = [name for name in self.cameras.values() if name not in file.cameras]
        if missing:
            raise RecordingError(
                f"{file.path}: camera {missing[0]} is missing; the first episode has {', '.join(self.cameras.values())}"
            )
        log = read_log(file.path, reading, self.wanted.robot.arms())
        cameras = {ours: read_camera(file.path, theirs, reading, fit) for ours, theirs in self.cameras.items()}
        details = {
            "format": "aloha",
            "file": file.path.name,
            "rate_hz": reading.rate_hz,
            "channel_order": reading.channel_order,
            "intrinsics": "assumed",
            "grippers": {name: [span.closed, span.open] for name, span in reading.grippers.items()},
            "simulated": file.simulated,
        }
        return Recording(
            id=self.wanted.id_of(file.path.parent.resolve().name, self.numbers[file.path]),
            task=self.wanted.task,
            source=self.wanted.source,
            cameras=cameras,
            motion=log,
            provenance=self.wanted.provenance(
                started_s=sum(earlier.frames for earlier in self.files[:episode]) / reading.rate_hz,
                duration_s=(file.frames - 1) / reading.rate_hz,
                recorder="ALOHA",
                details=details,
            ),
        )

    def write_sheet(self, path: Path) -> None:
        """A sheet of pictures: left as they would be imported, right with red and blue exchanged."""
        write_colour_sheet(self.load(0, None).cameras, path)

    def findings(self) -> Findings:
        reading = self.reading
        sizes = {name: f"{name} ({size[1]} x {size[0]})" for name, size in self.files[0].cameras.items()}
        return Findings(
            what="ALOHA (HDF5)",
            episodes=len(self.files),
            frames=sum(file.frames for file in self.files),
            rate_hz=reading.rate_hz,
            cameras={str(ours): sizes[theirs] for ours, theirs in self.cameras.items()},
            mapping={
                "state": "observations/qpos",
                "action": "action",
                "effectors": f"forward kinematics of both, {self.wanted.robot.name}",
                **{f"{name} grippers": _description(span) for name, span in reading.grippers.items()},
            },
            notes=tuple(self._notes()),
            warnings=tuple(self._warnings()),
        )

    def _notes(self) -> list[str]:
        order, other = self.reading.channel_order, "bgr" if self.reading.channel_order == "rgb" else "rgb"
        notes = [
            f"the files have no clock: {self.reading.rate_hz:g} Hz is taken; --rate-hz changes it",
            f"the files have no colour order: {order} is taken; where colours look wrong, --channel-order {other}",
            "the files have no calibration: a lens of 53 degrees is assumed",
        ]
        if not all(span.given for span in self.reading.grippers.values()):
            notes.append(
                "grippers are scaled by the data set's extremes: if none ever closed empty, 0 is the width of the "
                "object that it held; --gripper-range sets the gripper's own readings"
            )
        ignored = Counter(n for file in self.files for n in file.cameras if n not in self.cameras.values())
        notes += [f"camera {name} of {count} episodes is left out" for name, count in sorted(ignored.items())]
        return notes

    def _warnings(self) -> list[str]:
        warnings = [why for _, why in self.unreadable]
        driven = sum(file.base_moves for file in self.files)
        if driven:
            warnings.append(
                f"the base is driven in {driven} of {len(self.files)} episodes: base_action is left out, so a policy "
                f"cannot move the base"
            )
        lacking = [file.path.name for file in self.files if not set(self.cameras.values()) <= set(file.cameras)]
        if lacking:
            warnings.append(f"{len(lacking)} episodes lack a camera, {lacking[0]} first: they will be refused")
        return warnings


def _description(span: GripperRange) -> str:
    how = "as given" if span.given else "lowest and highest of the data set"
    return f"{span} to 0..1, {how}"
