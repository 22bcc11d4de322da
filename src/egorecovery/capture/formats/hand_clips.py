"""`egorecovery import CLIP... --hands FILE`: pictures of people, and hand tracks made elsewhere, as recordings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from egorecovery.capture.formats.clip_pictures import VIDEOS, ClipCamera
from egorecovery.capture.formats.hand_file import HandFile
from egorecovery.capture.formats.importer import Findings, ImportAs, Importer
from egorecovery.capture.formats.marker import workspace_from_world
from egorecovery.capture.picture_fit import PictureFit
from egorecovery.capture.recording import RawCamera, Recording
from egorecovery.capture.recording_files import (
    RecordingHeader,
    find_recordings,
    is_recording,
    load_header,
    recorded_cameras,
)
from egorecovery.episodes import Camera, EpisodeId, episode_id
from egorecovery.errors import EpisodeError, RecordingError


@dataclass(frozen=True, kw_only=True)
class Clip:
    """One clip: its pictures, hand file and transform."""

    path: Path
    hands: Path
    transform: Path | None
    header: RecordingHeader | None  # of a clip that is a recording, which has its own provenance

    @classmethod
    def at(cls, path: Path, hands: Path, transform: Path | None) -> "Clip":
        header = load_header(path) if is_recording(path) else None
        if header is None:
            clip_cameras(path)
        elif not header.source.is_human:
            raise RecordingError(f"{path}: a recording of {header.source} has a robot's log, and takes no --hands")
        return cls(
            path=path,
            hands=_beside(hands, path, ".npz"),
            transform=None if transform is None else _beside(transform, path, ".json"),
            header=header,
        )

    def pictures(self) -> dict[str, str]:
        """Camera names and their picture files."""
        if self.header is not None:
            return {str(camera): str(camera) for camera in self.header.intrinsics}
        return {str(name): camera.path.name for name, camera in clip_cameras(self.path).items()}


@dataclass(frozen=True, kw_only=True)
class HandClips(Importer):
    """Clips of people with hand files."""

    clips: tuple[Clip, ...]
    wanted: ImportAs | None  # of clips that are no recordings

    @classmethod
    def found(cls, paths: Sequence[Path], wanted: ImportAs | None, hands: Path, transform: Path | None) -> "HandClips":
        """`hands` and `transform` are a file for one clip, or folders with CLIP.npz and CLIP.json for several."""
        if wanted is not None and not wanted.source.is_human:
            raise RecordingError(f"--hands is for people, not for {wanted.source}; say --source human_recovery")
        for given, what in ((hands, "--hands"), (transform, "--transform")):
            if given is not None and not given.exists():
                raise RecordingError(f"{what} {given}: there is no such file or folder")
        if len(paths) > 1:
            if hands.is_file():
                raise RecordingError(
                    f"{hands} is of one clip, but {len(paths)} are given; give a folder with CLIP.npz each"
                )
            if wanted is not None and wanted.has_clock:
                raise RecordingError(
                    f"--recorded-at says when one clip began, but {len(paths)} are given; import them one by one"
                )
        return cls(clips=tuple(Clip.at(path, hands, transform) for path in paths), wanted=wanted)

    def places(self) -> list[str]:
        return [str(clip.path) for clip in self.clips]

    def load(self, episode: int, fit: PictureFit | None) -> Recording:
        clip = self.clips[episode]
        hands = HandFile.load(clip.hands)
        if clip.transform is not None and hands.frame == "workspace":
            raise RecordingError(f"{clip.hands}: points are in the workspace frame already; leave --transform out")
        placed = None if clip.transform is None else workspace_from_world(clip.transform, hands.world_from_camera)
        cameras, motion = clip_pictures(clip.path, fit), hands.tracks(placed)
        details = {
            "format": "hands",
            "file": clip.hands.name,
            "tracker": hands.tracker,
            "frame": hands.frame,
            "transform": clip.transform.name if clip.transform else "none",
            "wrist_rotation": "from the palm" if hands.wrist_rotation is None else "of the tracker",
        }
        if clip.header is not None:
            made = clip.header.provenance
            return Recording(
                id=clip.header.id,
                task=clip.header.task,
                source=clip.header.source,
                cameras=cameras,
                motion=motion,
                provenance=replace(made, details={**made.details, **details}),
            )
        assert self.wanted is not None, "required for clips that are not recordings"
        return Recording(
            id=self._id(clip),
            task=self.wanted.task,
            source=self.wanted.source,
            cameras=cameras,
            motion=motion,
            provenance=self.wanted.provenance(
                started_s=0.0,
                duration_s=float(hands.timestamps_s[-1] - hands.timestamps_s[0]),
                recorder="video and hand tracks",
                details=details,
            ),
        )

    def _id(self, clip: Clip) -> EpisodeId:
        """An id from the clip's own name, so that later clips do not change earlier ids."""
        own = _name(clip.path)
        try:
            return episode_id(f"{self.wanted.name}-{own}" if self.wanted and self.wanted.name else own)
        except EpisodeError as error:
            raise RecordingError(f"{clip.path}: {error}; rename the clip") from None

    def findings(self) -> Findings:
        read, unreadable = self._read()
        if not read:
            raise RecordingError(unreadable[0])
        first = read[0]
        seen = ", ".join(f"{hand} {share:.0%}" for hand, share in first.seen().items())
        notes = [f"hands of the first clip are seen in: {seen} of samples"]
        if first.wrist_rotation is None:
            notes.append("wrist rotations are derived from the palm, the same way for every tracker")
        if first.frame != "workspace" and self.clips[0].transform is None:
            notes.append(
                "no --transform: the tracker's world is taken as the workspace. It starts again with each clip and "
                "need not be level: positions of two clips, and of people and robot, will not agree. Intent targets, "
                "which are lengths of motion, do not suffer; actions in effector space do"
            )
        return Findings(
            what=f"clips with hand tracks ({first.tracker})",
            episodes=len(self.clips),
            frames=sum(len(hands.timestamps_s) for hands in read),
            rate_hz=None,
            cameras=self.clips[0].pictures(),
            mapping={"motion": f"21 points per hand, {first.order} order, {first.frame} frame"},
            notes=tuple(notes),
            warnings=tuple(unreadable),
        )

    def _read(self) -> tuple[list[HandFile], list[str]]:
        """Hand files and the errors of unreadable ones. Not cached, because the importer is sent to every worker."""
        read, unreadable = [], []
        for clip in self.clips:
            try:
                read.append(HandFile.load(clip.hands))
            except RecordingError as error:
                unreadable.append(str(error))
        return read, unreadable


def clips_among(paths: Sequence[Path]) -> list[Path]:
    """The clips at these paths; a folder of recordings gives those in it."""
    clips: list[Path] = []
    for path in paths:
        folder = path.is_dir() and not is_recording(path) and any(map(is_recording, path.iterdir()))
        clips += find_recordings([path]) if folder else [path]
    return clips


def _name(clip: Path) -> str:
    return clip.name if clip.is_dir() else clip.stem


def _beside(given: Path, clip: Path, suffix: str) -> Path:
    return given / f"{_name(clip)}{suffix}" if given.is_dir() else given


def clip_pictures(
    path: Path, fit: PictureFit | None, wanted: Sequence[Camera] = tuple(Camera)
) -> dict[Camera, RawCamera]:
    """Cameras on the clip's clock: that of its files, or seconds since the first frame of the head's video."""
    if is_recording(path):
        return recorded_cameras(path, load_header(path), wanted)
    cameras = clip_cameras(path)
    films = {name: cameras[name].load(fit) for name in wanted if name in cameras}
    if Camera.HEAD not in films or cameras[Camera.HEAD].has_clock:
        return films
    first_s = films[Camera.HEAD].timestamps_s[0]  # not 0 in every container
    return {
        name: film if cameras[name].has_clock else replace(film, timestamps_s=film.timestamps_s - first_s)
        for name, film in films.items()
    }


def clip_cameras(path: Path) -> dict[Camera, ClipCamera]:
    """Cameras of a clip. A single video is the head's; a folder has CAMERA.mp4, CAMERA/rgb.mp4 or CAMERA/rgb/."""
    if not path.exists():
        raise RecordingError(f"{path} does not exist; name a recording, a video, or a folder with head.mp4")
    if path.is_file():
        return {Camera.HEAD: ClipCamera(path)}
    cameras = {}
    for camera in Camera:
        videos = [path / f"{camera}{suffix}" for suffix in VIDEOS] + [path / camera / f"rgb{s}" for s in VIDEOS]
        there = [video for video in videos if video.is_file()]
        there += [path / camera] if (path / camera / "rgb").is_dir() else []
        if len(there) > 1:
            raise RecordingError(f"{path}: {there[0].name} and {there[1].name} are both of {camera}; remove one")
        if there:
            cameras[camera] = ClipCamera(there[0])
    if Camera.HEAD not in cameras:
        raise RecordingError(f"{path}: no head camera; head.mp4, head/rgb.mp4 or head/rgb/000000.jpg is wanted")
    return cameras
