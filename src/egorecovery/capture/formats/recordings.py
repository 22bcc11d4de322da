"""The importer of this project's own recordings (docs/formats.md)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from egorecovery.capture.formats.importer import Findings, Importer, Robot
from egorecovery.capture.picture_fit import PictureFit
from egorecovery.capture.recording import Recording, RobotLog
from egorecovery.capture.recording_files import find_recordings, load_recording, look_at
from egorecovery.capture.recording_images import damaged_image


@dataclass(frozen=True)
class RecordingFolders(Importer):
    """Directories of raw recordings. With a robot, logs without effector space get it."""

    directories: tuple[Path, ...]
    robot: Robot | None = None

    @classmethod
    def found(cls, paths: Sequence[Path], robot: Robot | None = None) -> "RecordingFolders":
        return cls(tuple(find_recordings(list(paths))), robot)

    def places(self) -> list[str]:
        return [str(directory) for directory in self.directories]

    def load(self, episode: int, fit: PictureFit | None) -> Recording:
        recording = load_recording(self.directories[episode])
        log = recording.motion
        if self.robot is None or not isinstance(log, RobotLog) or log.effector_state is not None:
            return recording
        return replace(recording, motion=self._in_effector_space(log, self.robot))

    def damaged_picture(self, episode: int) -> str | None:
        image = damaged_image(self.directories[episode])  # a JPEG may have a whole header and a broken picture
        return str(image) if image else None

    def findings(self) -> Findings:
        looked = [look_at(directory) for directory in self.directories]
        sizes = {name: size for _, cameras in looked for name, size in cameras.items()}
        return Findings(
            what="recordings (docs/formats.md)",
            episodes=len(looked),
            frames=sum(frames for frames, _ in looked),
            rate_hz=None,
            cameras={name: f"{name} ({width} x {height})" for name, (width, height) in sizes.items()},
            mapping={"motion": "hands.npz or robot.npz"},
        )

    @staticmethod
    def _in_effector_space(log: RobotLog, robot: Robot) -> RobotLog:
        arms = robot.arms()
        vectors = {f"effector_{name}": arms.effector_vectors(getattr(log, name)) for name in ("state", "action")}
        positions = np.stack([vectors["effector_state"][:, :3], vectors["effector_state"][:, 10:13]], axis=1)
        return replace(log, effector_m=positions, **vectors)
