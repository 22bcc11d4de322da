"""Episodes small enough to write by the hundred, with every kind of file a real one has."""

import numpy as np

from egorecovery.episodes import (
    PAPER_TASKS,
    RATE_HZ,
    Camera,
    CameraStream,
    Episode,
    Intrinsics,
    JpegFrames,
    Provenance,
    Source,
    episode_id,
)

FRAMES = 20
PIXELS = 16


def tiny_episode(name: str, cameras: int = 2) -> Episode:
    """A random walk of its own for each name, seen by noisy cameras, the first with depth."""
    rng = np.random.default_rng(list(name.encode()))
    state = np.cumsum(rng.normal(0, 0.01, (FRAMES, 14)), axis=0).astype(np.float32)
    return Episode(
        id=episode_id(name),
        task=PAPER_TASKS["cube_stack"],
        source=Source.HUMAN_RECOVERY,
        timestamps_s=np.arange(FRAMES) / RATE_HZ,
        state=state,
        action=np.concatenate([state[1:], state[-1:]]),
        effector_m=np.cumsum(rng.normal(0, 0.02, (FRAMES, 2, 3)), axis=0).astype(np.float32),
        reliable=np.ones((FRAMES, 2), np.bool_),
        cameras={camera: _tiny_camera(rng, with_depth=camera is Camera.HEAD) for camera in list(Camera)[:cameras]},
        provenance=Provenance(
            operator="tester", started_at="2026-01-01T09:00:00+00:00", stopped_at="2026-01-01T09:00:01+00:00"
        ),
    )


def _tiny_camera(rng: np.random.Generator, *, with_depth: bool) -> CameraStream:
    images = rng.integers(0, 256, (FRAMES, PIXELS, PIXELS, 3), dtype=np.uint8)
    return CameraStream(
        frames=JpegFrames.encode(images),
        timestamps_s=np.arange(FRAMES) / RATE_HZ,
        intrinsics=Intrinsics(width=PIXELS, height=PIXELS, fx=20.0, fy=20.0, cx=8.0, cy=8.0),
        depth_mm=rng.integers(300, 3000, (FRAMES, PIXELS, PIXELS), dtype=np.uint16) if with_depth else None,
    )
