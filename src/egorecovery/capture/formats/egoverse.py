"""`egorecovery import --format egoverse`: Zarr episodes of EgoVerse, EgoMimic and the paper's authors as recordings."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from egorecovery.capture.formats.camera_names import chosen_cameras
from egorecovery.capture.formats.egoverse_labels import packed
from egorecovery.capture.formats.egoverse_motion import MotionReader
from egorecovery.capture.formats.egoverse_reading import POSE, EgoVerseEpisode, EgoVerseStreams, Kind, look_at
from egorecovery.capture.formats.grippers import COLUMNS, STREAMS, GripperRange, ranges_of
from egorecovery.capture.formats.importer import Findings, ImportAs, Importer, episode_numbers
from egorecovery.capture.formats.options import EgoVerseOptions
from egorecovery.capture.formats.pictures import guessed_intrinsics
from egorecovery.capture.formats.placement import Placement
from egorecovery.capture.picture_fit import PictureFit
from egorecovery.capture.recording import RawCamera, Recording
from egorecovery.episodes import Camera
from egorecovery.errors import RecordingError

OF_ROBOTS: tuple[Kind, ...] = ("joints", "poses")
OF_PEOPLE: tuple[Kind, ...] = ("keypoints", "hands")


def open_paths(paths: Sequence[Path], wanted: ImportAs, options: EgoVerseOptions) -> "EgoVerseEpisodes":
    return EgoVerseEpisodes.found(paths, wanted, options)


@dataclass(frozen=True, kw_only=True)
class EgoVerseEpisodes(Importer):
    """Episodes of one data set. `--source` decides whether they are of robots or of people, not their metadata."""

    episodes: tuple[EgoVerseEpisode, ...]
    unreadable: tuple[tuple[Path, str], ...]  # episodes and errors, which are raised again on loading
    numbers: dict[Path, int]
    kind: Kind
    cameras: dict[Camera, str]
    grippers: dict[str, GripperRange]
    wanted: ImportAs
    options: EgoVerseOptions
    placement: Placement = field(default_factory=Placement.none)

    @classmethod
    def found(cls, paths: Sequence[Path], wanted: ImportAs, options: EgoVerseOptions) -> "EgoVerseEpisodes":
        episodes, unreadable = [], []
        places = find_episodes(paths)
        for path in places:
            try:
                episodes.append(look_at(path))
            except RecordingError as error:
                unreadable.append((path, str(error)))
        if not episodes:
            raise RecordingError(unreadable[0][1])
        kind = _kind(episodes[0], wanted)
        return cls(
            episodes=tuple(episodes),
            unreadable=tuple(unreadable),
            numbers=episode_numbers(places),
            kind=kind,
            cameras=chosen_cameras(wanted.cameras, list(episodes[0].cameras)),
            grippers=_gripper_ranges(episodes, kind, wanted),
            wanted=wanted,
            options=options,
            placement=Placement.load(wanted.transform) if wanted.transform else Placement.none(),
        )

    def places(self) -> list[str]:
        return [str(episode.path) for episode in self.episodes] + [str(path) for path, _ in self.unreadable]

    def load(self, episode: int, fit: PictureFit | None) -> Recording:
        if episode >= len(self.episodes):
            raise RecordingError(self.unreadable[episode - len(self.episodes)][1])
        current = self.episodes[episode]
        if self.kind not in current.kinds:
            raise RecordingError(f"{current.path} has no {self.kind}, which the first episode has")
        if current.rate_hz is None:
            raise RecordingError(
                f"{current.path}: fps is missing or no rate; write it into the attributes of zarr.json"
            )
        streams = EgoVerseStreams(current)
        clock_s = np.arange(current.frames) / current.rate_hz
        details: dict[str, object] = {
            "format": "egoverse",
            "file": current.path.name,
            "rate_hz": current.rate_hz,
            "motion": self.kind,
            "intrinsics": "assumed",
            "transform": self.placement.name or "none",
            "theirs": dict(current.described),
        }
        if current.labels:
            details["their_labels"] = packed(streams.labels(), current.rate_hz)
        return Recording(
            id=self.wanted.id_of(current.path.parent.resolve().name, self.numbers[current.path]),
            task=self.wanted.task,
            source=self.wanted.source,
            cameras={ours: self._camera(streams, theirs, clock_s) for ours, theirs in self.cameras.items()},
            motion=self._motion.motion(streams, clock_s),
            provenance=self.wanted.provenance(
                started_s=sum(
                    (earlier.frames / (earlier.rate_hz or 25.0) for earlier in self.episodes[:episode]), start=0.0
                ),
                duration_s=float(clock_s[-1]),
                recorder="EgoVerse",
                details=details,
            ),
        )

    def _camera(self, streams: EgoVerseStreams, name: str, clock_s: Float[ndarray, " N"]) -> RawCamera:
        if name not in streams.episode.cameras:
            raise RecordingError(f"{streams.episode.path}: camera {name} is missing; the first episode has it")
        frames = streams.pictures(name)
        return RawCamera(frames=frames, timestamps_s=clock_s, intrinsics=guessed_intrinsics(frames.size_hw))

    @property
    def _motion(self) -> MotionReader:
        return MotionReader(
            kind=self.kind,
            robot=self.wanted.robot,
            grippers=self.grippers,
            keypoint_order=self.options.keypoint_order,
            placement=self.placement,
        )

    def findings(self) -> Findings:
        first = self.episodes[0]
        rates = {episode.rate_hz for episode in self.episodes}
        return Findings(
            what="EgoVerse (Zarr v3)",
            episodes=len(self.episodes),
            frames=sum(episode.frames for episode in self.episodes),
            rate_hz=first.rate_hz if len(rates) == 1 else None,
            cameras={str(ours): theirs for ours, theirs in self.cameras.items()},
            mapping=self._mapping(),
            notes=tuple(self._notes()),
            warnings=tuple(self._warnings()),
        )

    def _mapping(self) -> dict[str, str]:
        words: dict[Kind, dict[str, str]] = {
            "joints": {"state": "joint angles, measured", "action": "joint angles, commanded"},
            "poses": {"state": "obs_ee_pose and gripper as x y z roll pitch yaw", "action": "cmd_ee_pose, the same"},
            "keypoints": {"motion": f"21 points per hand, numbered as {self.options.keypoint_order}"},
            "hands": {"motion": "wrist poses and openings, as cleaned by others"},
        }
        spans = {f"{name} grippers": f"{span} to 0..1" for name, span in self.grippers.items()}
        labels = {name for episode in self.episodes for name in episode.labels}
        kept = {"their labels": f"{', '.join(sorted(labels))}: kept beside ours"} if labels else {}
        return {**words[self.kind], **spans, **kept}

    def _notes(self) -> list[str]:
        notes = ["calibrations are not read: a lens of 53 degrees is assumed"]
        if not self.placement.name:
            notes.append(
                "no --transform: their frame is taken as the workspace's. Robots have one frame per arm, people a "
                "frame that starts again with each clip, so left and right, or two clips, may not agree"
            )
        if self.kind == "poses":
            notes.append("there are no joint angles: train with --action-space effector, not joint")
            if self.placement.tool_axes is None:
                notes.append("no tool_axes in --transform: there will be no effector streams")
        if self.kind == "joints":
            notes.append(self._effector_note())
        return notes

    def _effector_note(self) -> str:
        name = self.wanted.robot.name
        if self.wanted.robot.given:
            return f"effectors: forward kinematics of {name}"
        note = f"effectors: as recorded where they are, else forward kinematics of {name}"
        if self.placement.tool_axes is None:
            note += ". Recorded ones give no effector streams without tool_axes in --transform; --robot FILE does"
        return note

    def _warnings(self) -> list[str]:
        warnings = [why for _, why in self.unreadable]
        without = Counter(self.kind in episode.kinds for episode in self.episodes)[False]
        if without:
            warnings.append(f"{without} episodes have no {self.kind} and will be refused")
        return warnings


def find_episodes(paths: Sequence[Path]) -> list[Path]:
    """Zarr groups among these paths, or directly inside them. Links are not followed."""
    folders: list[Path] = []
    for path in paths:
        inside = [path] if (path / "zarr.json").is_file() else sorted(p.parent for p in path.glob("*/zarr.json"))
        inside = [episode for episode in inside if not episode.is_symlink()]
        if not inside:
            raise RecordingError(f"{path}: no Zarr v3 group there or one level down (a folder with zarr.json)")
        folders += inside
    return folders


def _kind(first: EgoVerseEpisode, wanted: ImportAs) -> Kind:
    asked = OF_PEOPLE if wanted.source.is_human else OF_ROBOTS
    for kind in asked:
        if kind in first.kinds:
            return kind
    have = ", ".join(first.kinds) or "no motion that is known"
    hint = " (wrist poses alone do not tell how far a hand is open)" if wanted.source.is_human else ""
    raise RecordingError(f"{first.path} has {have}; for {wanted.source} {' or '.join(asked)} are wanted{hint}")


def _gripper_ranges(episodes: Sequence[EgoVerseEpisode], kind: Kind, wanted: ImportAs) -> dict[str, GripperRange]:
    """Gripper ranges of robots: from the lowest to the highest reading of state and of action in the data set."""
    if kind in OF_PEOPLE:
        return {}
    lowest: dict[str, float] = dict.fromkeys(STREAMS, np.inf)
    highest: dict[str, float] = dict.fromkeys(STREAMS, -np.inf)
    refused: list[RecordingError] = []
    for episode in episodes:
        try:
            streams = EgoVerseStreams(episode)
            read = streams.joints() if kind == "joints" else [p[..., POSE] for p in streams.tool_poses()]
        except RecordingError as error:
            refused.append(error)  # raised again on loading
            continue
        for name, numbers in zip(STREAMS, read, strict=True):
            readings = numbers[:, COLUMNS] if kind == "joints" else numbers
            lowest[name] = min(lowest[name], float(readings.min()))
            highest[name] = max(highest[name], float(readings.max()))
    if len(refused) == len(episodes):
        raise refused[0]
    return ranges_of(lowest, highest, wanted.grippers)
