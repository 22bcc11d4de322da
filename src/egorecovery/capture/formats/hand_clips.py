"""`egorecovery import CLIP... --hands FILE`: pictures of people, and hand tracks made elsewhere, as recordings."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from egorecovery.capture.formats.clip_pictures import VIDEOS, ClipCamera
from egorecovery.capture.formats.hand_file import HandFile
from egorecovery.capture.formats.importer import Findings, ImportAs, Importer
from egorecovery.capture.formats.marker import workspace_from_world
from egorecovery.capture.picture_fit import PictureFit
from egorecovery.capture.recording import Recording
from egorecovery.episodes import Camera, EpisodeId, episode_id
from egorecovery.errors import EpisodeError, RecordingError


@dataclass(frozen=True, kw_only=True)
class Clip:
    """One clip: its cameras, its hands, and where its world lies."""

    path: Path
    cameras: dict[Camera, ClipCamera]
    hands: Path
    transform: Path | None


@dataclass(frozen=True, kw_only=True)
class HandClips(Importer):
    """Clips of people, each with a hand file."""

    clips: tuple[Clip, ...]
    wanted: ImportAs

    @classmethod
    def found(cls, paths: Sequence[Path], wanted: ImportAs, hands: Path, transform: Path | None) -> "HandClips":
        """`hands` and `transform` are a file for one clip, or a folder with CLIP.npz and CLIP.json for each."""
        if not wanted.source.is_human:
            raise RecordingError(f"--hands is for people, not for {wanted.source}; say --source human_recovery")
        for given, what in ((hands, "--hands"), (transform, "--transform")):
            if given is not None and not given.exists():
                raise RecordingError(f"{what} {given}: there is no such file or folder")
        if hands.is_file() and len(paths) > 1:
            raise RecordingError(
                f"{hands} is of one clip, but {len(paths)} are given; give a folder with CLIP.npz each"
            )
        clips = tuple(
            Clip(
                path=path,
                cameras=clip_cameras(path),
                hands=_beside(hands, path, ".npz"),
                transform=None if transform is None else _beside(transform, path, ".json"),
            )
            for path in paths
        )
        return cls(clips=clips, wanted=wanted)

    def places(self) -> list[str]:
        return [str(clip.path) for clip in self.clips]

    def load(self, episode: int, fit: PictureFit | None) -> Recording:
        clip = self.clips[episode]
        hands = HandFile.load(clip.hands)
        placed = None if clip.transform is None else workspace_from_world(clip.transform, hands.world_from_camera)
        return Recording(
            id=self._id(clip),
            task=self.wanted.task,
            source=self.wanted.source,
            cameras={name: camera.load(fit) for name, camera in clip.cameras.items()},
            motion=hands.tracks(placed),
            provenance=self.wanted.provenance(
                started_s=0.0,
                duration_s=float(hands.timestamps_s[-1] - hands.timestamps_s[0]),
                recorder="video and hand tracks",
                details={
                    "format": "hands",
                    "file": clip.hands.name,
                    "tracker": hands.tracker,
                    "frame": hands.frame,
                    "transform": clip.transform.name if clip.transform else "none",
                    "wrist_rotation": "from the palm" if hands.wrist_rotation is None else "of the tracker",
                },
            ),
        )

    def _id(self, clip: Clip) -> EpisodeId:
        """The clip's own name, so that a clip that comes later renames nothing."""
        try:
            return episode_id(f"{self.wanted.name}-{clip.path.stem}" if self.wanted.name else clip.path.stem)
        except EpisodeError as error:
            raise RecordingError(f"{clip.path}: {error}; rename the clip") from None

    def findings(self) -> Findings:
        read, unreadable = self._read
        if not read:
            raise RecordingError(unreadable[0])
        first = read[0]
        seen = ", ".join(f"{hand} {share:.0%}" for hand, share in first.seen().items())
        notes = [f"hands of the first clip are seen in: {seen} of samples"]
        if first.wrist_rotation is None:
            notes.append("wrist rotations are derived from the palm, the same way for every tracker")
        if first.frame != "workspace" and self.clips[0].transform is None:
            notes.append(
                "no --transform: the tracker's world is taken as the workspace. It starts anew with each clip and "
                "need not be level: positions of two clips, and of people and robot, will not agree. Intent targets, "
                "which are lengths of motion, do not suffer; actions in effector space do"
            )
        return Findings(
            what=f"clips with hand tracks ({first.tracker})",
            episodes=len(self.clips),
            frames=sum(len(hands.timestamps_s) for hands in read),
            rate_hz=None,
            cameras={str(name): camera.path.name for name, camera in self.clips[0].cameras.items()},
            mapping={"motion": f"21 points per hand, {first.order} order, {first.frame} frame"},
            notes=tuple(notes),
            warnings=tuple(unreadable),
        )

    @cached_property
    def _read(self) -> tuple[list[HandFile], list[str]]:
        """Hand files, and why others cannot be read."""
        read, unreadable = [], []
        for clip in self.clips:
            try:
                read.append(HandFile.load(clip.hands))
            except RecordingError as error:
                unreadable.append(str(error))
        return read, unreadable


def _beside(given: Path, clip: Path, suffix: str) -> Path:
    return given / f"{clip.stem}{suffix}" if given.is_dir() else given


def clip_cameras(path: Path) -> dict[Camera, ClipCamera]:
    """A video is the head camera's; a folder has CAMERA.mp4, CAMERA/rgb.mp4 or CAMERA/rgb/ for each."""
    if path.is_file():
        return {Camera.HEAD: ClipCamera(path)}
    found = {}
    for camera in Camera:
        videos = [path / f"{camera}{suffix}" for suffix in VIDEOS] + [path / camera / f"rgb{s}" for s in VIDEOS]
        there = [video for video in videos if video.is_file()]
        there += [path / camera] if (path / camera / "rgb").is_dir() else []
        if len(there) > 1:
            raise RecordingError(f"{path}: {there[0].name} and {there[1].name} are both of {camera}; remove one")
        if there:
            found[camera] = ClipCamera(there[0])
    if Camera.HEAD not in found:
        raise RecordingError(f"{path}: no head camera; head.mp4, head/rgb.mp4 or head/rgb/000000.jpg is wanted")
    return found
