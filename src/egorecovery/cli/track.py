"""`egorecovery track`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tyro.conf import Positional

from egorecovery.cli.words import command

if TYPE_CHECKING:
    from egorecovery.capture import RawCamera


@dataclass(frozen=True, kw_only=True)
class Track:
    """Find hands in a clip with MediaPipe (docs/hand_tracks.md).

    It runs in an environment of its own: it needs an older numpy.
    """

    EXAMPLE: ClassVar = "track clip.mp4 --python trackers/bin/python --out clip.npz"

    clip: Positional[Path]
    """A recording, a video, or a folder with head.mp4, head/rgb.mp4 or head/rgb/*.jpg, and head/depth_mm.npy."""
    out: Path
    """The hand file to write, npz."""
    python: Path
    """The interpreter of the environment in which mediapipe is installed."""
    model: Path | None = None
    """A hand_landmarker.task file; without it, the models inside the mediapipe wheel."""
    camera_poses: Path | None = None
    """Where the camera was: npy of shape (N, 4, 4), world from camera; without it, the camera stood still."""
    mirrored: bool = False
    """The pictures are mirrored, as a front camera shows them."""

    def run(self) -> int:
        from egorecovery.capture.hand_tracking.clip_tracking import camera_poses, track_clip
        from egorecovery.capture.hand_tracking.tracker import HandTracker, mediapipe_command
        from egorecovery.cli.console import console, messages, progress_bar

        camera = self._head()
        poses = camera_poses(self.camera_poses, len(camera.frames))
        with (
            HandTracker.started(mediapipe_command(self.python, self.model)) as tracker,
            progress_bar("Tracking hands", "pictures") as advance,
        ):
            tracked = track_clip(camera, tracker, self.mirrored, advance)
        tracked.require_handedness()
        tracked.save(self.out, poses)
        if camera.depth_mm is None:
            messages.print(
                "note: there is no depth: distances follow from a usual hand's size, and are wrong by as much as the "
                "hand is larger or smaller",
                soft_wrap=True,
            )
        if self.camera_poses is None:
            messages.print("note: the camera is taken to have stood still; --camera-poses where it moved")
        seen = ", ".join(f"{hand} {share:.0%}" for hand, share in tracked.seen().items())
        console.print(f"{len(camera.frames)} pictures, hands seen: {seen} ({tracked.tracker})", soft_wrap=True)
        console.print(f"wrote: {self.out}", soft_wrap=True)
        following = command("import", self.clip, "--hands", self.out, *_still_to_say(self.clip), "--out", "STORE")
        console.print(f"next: {following}", soft_wrap=True)
        return 0

    def _head(self) -> "RawCamera":
        from egorecovery.capture.formats.hand_clips import clip_pictures
        from egorecovery.episodes import Camera
        from egorecovery.errors import RecordingError

        head = clip_pictures(self.clip, None, (Camera.HEAD,)).get(Camera.HEAD)
        if head is None:
            raise RecordingError(f"{self.clip}: no head camera was recorded, and hands are tracked in its pictures")
        return head


def _still_to_say(clip: Path) -> list[str]:
    from egorecovery.capture.recording_files import is_recording

    return [] if is_recording(clip) else ["--task", "TASK", "--source", "human_recovery"]
