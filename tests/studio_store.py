"""A store whose pictures carry their clip's, camera's and frame's number, to be read back from a canvas."""

from pathlib import Path

import numpy as np

from egorecovery.episodes import (
    RATE_HZ,
    Camera,
    CameraStream,
    Episode,
    EpisodeStore,
    Intrinsics,
    JpegFrames,
    Source,
)
from making import make_episode

FRAMES = 60
PAUSE = 24  # the frame between the two bursts of motion: the candidate lies near it
BITS, CELL = 10, 8  # one cell of a picture for each bit
WIDTH, HEIGHT = BITS * CELL, 3 * CELL  # rows: frame, camera, clip

# In the page: what the canvas shows, decoded from its pixels.
READ_NUMBERS = """canvas => {
  const pen = canvas.getContext("2d");
  const cell = %d, bits = %d;
  const row = at => Array.from({length: bits}, (_, bit) =>
    pen.getImageData(bit * cell + cell / 2, at * cell + cell / 2, 1, 1).data[0] > 127 ? 2 ** bit : 0
  ).reduce((a, b) => a + b);
  return {frame: row(0), camera: row(1), clip: row(2)};
}""" % (CELL, BITS)  # noqa: UP031 - braces are the script's


def painted(frame: int, camera: int, clip: int) -> np.ndarray:
    numbers = np.array([frame, camera, clip])
    bits = (numbers[:, None] >> np.arange(BITS)) & 1
    grey = np.where(bits, 235, 20).astype(np.uint8).repeat(CELL, axis=0).repeat(CELL, axis=1)
    return np.repeat(grey[..., None], 3, axis=2)


def two_bursts(frames: int) -> np.ndarray:
    """Correction, a pause, then carrying on; both effectors."""

    def burst(start: float, stop: float, metres: float) -> np.ndarray:
        along = np.clip((np.arange(frames) - start) / (stop - start), 0, 1)
        return metres * along**3 * (10 - 15 * along + 6 * along**2)

    path = np.zeros((frames, 2, 3), np.float32)
    path[..., 0] = (burst(0, PAUSE - 2, 0.15) + burst(PAUSE + 2, frames, 0.3))[:, None]
    return path


def painted_episode(name: str, number: int, source: Source = Source.HUMAN_RECOVERY, frames: int = FRAMES) -> Episode:
    cameras = {
        camera: CameraStream(
            frames=JpegFrames.encode([painted(frame, index, number) for frame in range(frames)]),
            timestamps_s=np.arange(frames) / RATE_HZ,
            intrinsics=Intrinsics(width=WIDTH, height=HEIGHT, fx=20.0, fy=20.0, cx=WIDTH / 2, cy=HEIGHT / 2),
        )
        for index, camera in enumerate(Camera)
    }
    return make_episode(name, frames, source, cameras=cameras, effector_m=two_bursts(frames))


def painted_store(root: Path, recoveries: int = 4, successes: int = 1) -> EpisodeStore:
    """Clips `clip-0` on, numbered from 1 in their pictures, and `good-0` on, which have no boundary."""
    store = EpisodeStore.create(root)
    with store.writing() as writer:
        for number in range(recoveries):
            source = Source.HUMAN_RECOVERY if number % 2 == 0 else Source.ROBOT_RECOVERY
            writer.add(painted_episode(f"clip-{number}", number + 1, source))
        for number in range(successes):
            writer.add(painted_episode(f"good-{number}", 100 + number, Source.ROBOT_SUCCESS))
    return store
