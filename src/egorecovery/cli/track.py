"""`egorecovery track`."""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional


@dataclass(frozen=True, kw_only=True)
class Track:
    """Find hands in a clip with MediaPipe (docs/hand_tracks.md).

    It runs in an environment of its own: it needs an older numpy.
    """

    clip: Positional[Path]
    """A video, or a folder with head.mp4, head/rgb.mp4 or head/rgb/*.jpg; head/depth_mm.npy where there is depth."""
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
        from egorecovery.capture.formats.hand_clips import clip_cameras
        from egorecovery.capture.hand_tracking.clip_tracking import camera_poses, track_clip
        from egorecovery.capture.hand_tracking.tracker import HandTracker, mediapipe_command
        from egorecovery.cli.console import console, messages, progress_bar
        from egorecovery.episodes import Camera

        camera = clip_cameras(self.clip)[Camera.HEAD].load(None)
        poses = camera_poses(self.camera_poses, len(camera.frames))
        with (
            HandTracker.started(mediapipe_command(self.python, self.model)) as tracker,
            progress_bar("tracking") as advance,
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
        console.print(
            f"next: egorecovery import {self.clip} --hands {self.out} --task TASK --source human_recovery --out STORE",
            soft_wrap=True,
        )
        return 0
