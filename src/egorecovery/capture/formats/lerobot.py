"""`egorecovery import --format lerobot`: LeRobot data sets (v3.0, v2.1, v2.0) of two-armed robots as recordings."""

# N samples of an episode

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from egorecovery.capture.fitted_pictures import raw_camera
from egorecovery.capture.formats.camera_names import chosen_cameras
from egorecovery.capture.formats.grippers import COLUMNS, normalised
from egorecovery.capture.formats.importer import Findings, ImportAs, Importer
from egorecovery.capture.formats.lerobot_files import (
    EFFECTORS,
    INFO,
    DataSet,
    EpisodeRow,
    Feature,
    inside,
)
from egorecovery.capture.formats.lerobot_metadata import read_data_set
from egorecovery.capture.formats.lerobot_pictures import frames_of_video, pictures_of_table
from egorecovery.capture.formats.lerobot_streams import Table, read_table
from egorecovery.capture.formats.options import LeRobotOptions
from egorecovery.capture.formats.pictures import guessed_intrinsics, require_size
from egorecovery.capture.picture_fit import PictureFit
from egorecovery.capture.recording import RawCamera, Recording, RobotLog
from egorecovery.episodes import RATE_HZ, Camera, Provenance
from egorecovery.episodes.vocabulary import EFFECTOR_DIM, RECOVERY_PROPOSAL, STATE_DIM
from egorecovery.errors import RecordingError
from egorecovery.kinematics import unpack
from egorecovery.motion.resampling import common_grid, nearest

INTERVENTIONS = ("intervention", "is_intervention")  # last part of a feature's name
SUCCESSES = ("next.success", "success")
BOOKKEEPING = ("timestamp", "frame_index", "episode_index", "index", "task_index")
NAMED = 10  # empty episodes, in a warning
OPENINGS_01 = (-0.05, 1.05)  # of grippers that are scaled 0 to 1


def open_paths(paths: Sequence[Path], wanted: ImportAs, options: LeRobotOptions) -> "LeRobotDataSet":
    if wanted.source.is_human:
        raise RecordingError(
            f"LeRobot data sets are imported as a robot's, not as {wanted.source}: say --source robot_recovery"
        )
    if wanted.transform:
        raise RecordingError("--transform does not go with LeRobot data sets: place the arms in --robot FILE instead")
    if len(paths) != 1:
        raise RecordingError("import one LeRobot data set at a time: name its directory, the one that has meta/")
    return LeRobotDataSet(root=paths[0], wanted=wanted, options=options)


@lru_cache(maxsize=4)
def _known(root: Path) -> DataSet:
    return read_data_set(root)


@dataclass(frozen=True, kw_only=True)
class LeRobotDataSet(Importer):
    """A data set directory with meta/info.json. It is sent to workers without metadata, which each reads once."""

    root: Path
    wanted: ImportAs
    options: LeRobotOptions

    def __post_init__(self) -> None:
        data_set = self._data_set
        columns = self.options.joint_columns
        if columns and (len(columns) != STATE_DIM or min(columns) < 0):
            raise RecordingError(f"--joint-columns takes {STATE_DIM} columns, counted from 0, got {len(columns)}")
        for key, option in ((self.options.state_key, "--state-key"), (self.options.action_key, "--action-key")):
            self._require_joints(data_set.feature(key, option))
        self._cameras_of(depth=False)

    @property
    def _data_set(self) -> DataSet:
        return _known(self.root)

    def places(self) -> list[str]:
        return [f"{self.root}: episode {row.index}" for row in self._rows]

    def name(self, episode: int) -> str:
        return f"episode {self._rows[episode].index}"

    @property
    def _rows(self) -> list[EpisodeRow]:
        """Episodes with samples. Of one without any nothing is lost, so it is a warning and no failed import."""
        return [row for row in self._data_set.episodes if row.length]

    def load(self, episode: int, fit: PictureFit | None) -> Recording:
        row = self._rows[episode]
        try:
            return self._load(row, fit)
        except RecordingError as error:  # many episodes share one file
            raise RecordingError(f"episode {row.index}: {error}") from None

    def _load(self, row: EpisodeRow, fit: PictureFit | None) -> Recording:
        data_set = self._data_set
        table = read_table(data_set, row, self._columns)
        recovery = self._recovery(table)
        if recovery and self.options.interventions == "cut":
            table, recovery = table.starting(recovery.first), recovery.starting(recovery.first)
        times_s = table.times_s(data_set.rate_hz)
        cameras = self._cameras_of(depth=False)
        return Recording(
            id=self.wanted.id_of(self.root.resolve().name, row.index),
            task=self.wanted.task,
            source=self.wanted.source,
            cameras={camera: self._camera(camera, row, table, times_s, fit) for camera in cameras},
            motion=self._log(table, times_s - times_s[0]),
            provenance=self._provenance(row, table, times_s - times_s[0], recovery),
        )

    def findings(self) -> Findings:
        data_set = self._data_set
        cameras, depths = self._cameras_of(depth=False), self._cameras_of(depth=True)
        used = {*self._columns, *(feature.name for feature in (*cameras.values(), *depths.values())), *BOOKKEEPING}
        return Findings(
            what=f"LeRobot {data_set.version}, robot {data_set.robot}",
            episodes=len(self._rows),
            frames=data_set.frames,
            rate_hz=data_set.rate_hz,
            cameras={str(camera): _description(feature, depths.get(camera)) for camera, feature in cameras.items()},
            mapping=self._mapping(),
            notes=("no calibration is in the data set: a lens of 53 degrees is assumed",),
            warnings=(
                *self._missing_episodes(),
                *self._empty_episodes(),
                *(f"feature {name} is left out" for name in data_set.features if name not in used),
            ),
        )

    def _missing_episodes(self) -> list[str]:
        data_set = self._data_set
        if data_set.counted is None or data_set.counted <= len(data_set.episodes):
            return []
        return [
            f"info.json counts {data_set.counted} episodes, its metadata lists {len(data_set.episodes)}: the others "
            "are not imported; download or copy the whole data set, then run the same command again"
        ]

    def _empty_episodes(self) -> list[str]:
        empty = [str(row.index) for row in self._data_set.episodes if not row.length]
        more = f" and {len(empty) - NAMED} more" if len(empty) > NAMED else ""
        if len(empty) < 2:
            return [f"episode {index} has no samples (length 0): skipped" for index in empty]
        return [f"episodes {', '.join(empty[:NAMED])}{more} have no samples (length 0): skipped"]

    def _mapping(self) -> dict[str, str]:
        effectors = (
            f"{EFFECTORS[0]} and its like" if self._has_effectors else f"forward kinematics, {self.wanted.robot.name}"
        )
        mapping = {"state": self.options.state_key, "action": self.options.action_key, "effectors": effectors}
        intervention, success = self._intervention_key, self._column(SUCCESSES)
        if intervention:
            mapping["recovery proposal"] = f"the first run of {intervention}"
        if success:
            mapping["completed"] = f"{success} in any sample"
        return mapping

    @property
    def _intervention_key(self) -> str | None:
        return self.options.intervention_key or self._column(INTERVENTIONS)

    def _column(self, names: Sequence[str]) -> str | None:
        """The feature of one of these names, alone or as the last part, as in complementary_info.is_intervention."""
        flags = [feature.name for feature in self._data_set.features.values() if feature.shape == (1,)]
        return next((flag for name in names for flag in flags if flag == name or flag.endswith(f".{name}")), None)

    @property
    def _has_effectors(self) -> bool:
        return all(name in self._data_set.features for name in EFFECTORS)

    @property
    def _columns(self) -> list[str]:
        """The needed columns of the parquet files."""
        marks = [name for name in (self._intervention_key, self._column(SUCCESSES)) if name]
        images = [feature.name for feature in self._cameras_of(depth=False).values() if feature.dtype == "image"]
        return [self.options.state_key, self.options.action_key, *marks, *images, *(EFFECTORS * self._has_effectors)]

    def _require_joints(self, feature: Feature) -> None:
        columns = self.options.joint_columns
        if columns and feature.shape != (STATE_DIM,) and max(columns) >= feature.shape[0]:
            raise RecordingError(f"--joint-columns: {feature.name} has columns 0..{feature.shape[0] - 1}")
        if not columns and feature.shape != (STATE_DIM,):
            raise RecordingError(
                f"{self.root / INFO}: {feature.name} has shape {feature.shape}, {STATE_DIM} wanted: six "
                f"joints and a gripper of the left arm, then the right; say which columns they are with --joint-columns"
            )

    def _cameras_of(self, *, depth: bool) -> dict[Camera, Feature]:
        """Cameras or depth maps by our names. Depth maps are named after their camera: cam_high_depth."""
        every = self._data_set.features
        cameras = {name: feature for name, feature in every.items() if feature.is_camera and not feature.is_depth}
        chosen = {camera: cameras[name] for camera, name in chosen_cameras(self.wanted.cameras, list(cameras)).items()}
        if not depth:
            return chosen
        depths = {camera: every.get(f"{feature.name}_depth") for camera, feature in chosen.items()}
        return {
            camera: feature
            for camera, feature in depths.items()
            if feature and feature.is_depth and feature.dtype == "video"
        }

    def _camera(
        self, camera: Camera, row: EpisodeRow, table: Table, times_s: Float[ndarray, " N"], fit: PictureFit | None
    ) -> RawCamera:
        shown, data_set = _shown(times_s), self._data_set
        feature, depth = self._cameras_of(depth=False)[camera], self._cameras_of(depth=True).get(camera)
        require_size(feature.size_hw, f"{self.root / INFO}: {feature.name}")

        def film(of: Feature) -> Iterator[ndarray]:
            span = row.videos[of.name]
            return frames_of_video(inside(self.root, span.path), span, of, times_s[shown], data_set.rate_hz)

        if feature.dtype == "video":
            pictures = film(feature)
        else:
            pictures = pictures_of_table([table.rows(feature.name)[sample] for sample in shown], feature, table.where)
        return raw_camera(
            pictures,
            times_s[shown] - times_s[0],
            guessed_intrinsics(feature.size_hw),
            fit,
            depth_mm=np.stack(list(film(depth))) if depth else None,
        )

    def _log(self, table: Table, clock_s: Float[ndarray, " N"]) -> RobotLog:
        state = self._joints(table, self.options.state_key, "state")
        action = self._joints(table, self.options.action_key, "action")
        if self._has_effectors:
            effector_m = table.numbers(EFFECTORS[0], 6)
            vectors = [table.numbers(name, EFFECTOR_DIM) for name in EFFECTORS[1:]]
        else:
            vectors = [self.wanted.robot.arms().effector_vectors(joints) for joints in (state, action)]
            effector_m = unpack(vectors[0]).position_m
        return RobotLog(
            timestamps_s=clock_s,
            state=state,
            action=action,
            effector_m=effector_m.reshape(-1, 2, 3),
            effector_state=vectors[0],
            effector_action=vectors[1],
        )

    def _joints(self, table: Table, key: str, stream: str) -> Float[ndarray, "N 14"]:
        values = table.numbers(key, self._data_set.features[key].shape[0])
        if self.options.joint_columns:
            values = values[:, list(self.options.joint_columns)]
        if stream in self.wanted.grippers:
            return normalised(values, self.wanted.grippers[stream])
        lowest, highest = float(values[:, COLUMNS].min()), float(values[:, COLUMNS].max())
        if lowest < OPENINGS_01[0] or highest > OPENINGS_01[1]:
            raise RecordingError(
                f"{table.where}: the grippers of {key} read {lowest:.3g} to {highest:.3g}, from 0 (closed) to 1 (open) "
                f"wanted; say what they read with --gripper-range {stream}=CLOSED,OPEN"
            )
        return values

    def _recovery(self, table: Table) -> "Intervention | None":
        """The first interval in which a person took over."""
        key = self._intervention_key
        marked = np.flatnonzero(table.marks(key)) if key else np.empty(0, int)
        if key is None or not len(marked):
            return None
        ends = np.flatnonzero(np.diff(marked) > 1)
        return Intervention(column=key, first=int(marked[0]), last=int(marked[ends[0] if len(ends) else -1]))

    def _provenance(
        self, row: EpisodeRow, table: Table, clock_s: Float[ndarray, " N"], recovery: "Intervention | None"
    ) -> Provenance:
        details: dict[str, object] = {
            "format": "lerobot",
            "data_set": self.root.resolve().name,
            "episode": row.index,
            "rate_hz": self._data_set.rate_hz,
            "intrinsics": "assumed",
        }
        if recovery:
            start_s, end_s = (float(clock_s[sample]) for sample in (recovery.first, recovery.last))
            details[RECOVERY_PROPOSAL] = {"start_s": start_s, "end_s": end_s, "from": recovery.column}
        made = self.wanted.provenance(
            started_s=row.first_frame / self._data_set.rate_hz,
            duration_s=float(clock_s[-1]),
            recorder=f"LeRobot ({self._data_set.robot})",
            details=details,
        )
        success = self._column(SUCCESSES)
        return replace(made, completed=success is None or bool(table.marks(success).any()))


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """First and last sample in which a person controls the robot."""

    column: str
    first: int
    last: int

    def starting(self, sample: int) -> "Intervention":
        return replace(self, first=self.first - sample, last=self.last - sample)


def _shown(times_s: Float[ndarray, " N"]) -> Int[ndarray, " M"]:
    """Samples whose pictures appear on the 25 Hz grid, and both ends, which keep the clock's length."""
    if (np.diff(times_s) <= 0).any():
        return np.arange(len(times_s))  # the import reports the faulty clock
    return np.unique([0, len(times_s) - 1, *nearest(times_s, common_grid([times_s], RATE_HZ))])


def _description(camera: Feature, depth: Feature | None) -> str:
    height, width = camera.size_hw
    return f"{camera.name} ({width} x {height}, {camera.dtype}" + (", with depth)" if depth else ")")
