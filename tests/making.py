"""Episodes and recordings for tests: small, whole, and easy to spoil in one respect."""

from typing import Any

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

PROVENANCE = Provenance(
    operator="ada",
    started_at="2026-03-01T10:00:00+00:00",
    stopped_at="2026-03-01T10:00:04+00:00",
    staging_s=3.0,
    reset_s=2.0,
    details={"offset_mm": 4.5, "mode": "misplaced"},
)


def make_path(frames: int) -> np.ndarray:
    """Both effectors on slow arcs, well above the stationary threshold."""
    along = np.linspace(0, 1, frames)
    arc = np.stack([0.3 + 0.2 * along, 0.1 * np.sin(3 * along), 0.1 + 0.1 * along**2], axis=1)
    return np.stack([arc, arc * [1, -1, 1]], axis=1).astype(np.float32)


def make_images(frames: int, size: int, seed: int = 0) -> np.ndarray:
    """Noise over a moving gradient: no two frames alike."""
    rng = np.random.default_rng(seed)
    ramp = (np.arange(size)[None, :, None, None] * 3 + np.arange(frames)[:, None, None, None] * 5) % 200
    return (ramp + rng.integers(0, 40, (frames, size, size, 3))).astype(np.uint8)


def make_camera(frames: int, size: int = 16, seed: int = 0, depth: bool = False) -> CameraStream:
    rng = np.random.default_rng(seed)
    return CameraStream(
        frames=JpegFrames.encode(make_images(frames, size, seed)),
        timestamps_s=np.arange(frames) / RATE_HZ,
        intrinsics=Intrinsics(width=size, height=size, fx=20.0, fy=20.0, cx=size / 2, cy=size / 2),
        depth_mm=rng.integers(300, 900, (frames, size, size)).astype(np.uint16) if depth else None,
    )


def make_episode(
    name: str = "ep-0", frames: int = 40, source: Source = Source.ROBOT_RECOVERY, **changes: Any
) -> Episode:
    rng = np.random.default_rng(frames)
    whole: dict[str, Any] = {
        "id": episode_id(name),
        "task": PAPER_TASKS["cube_stack"],
        "source": source,
        "timestamps_s": np.arange(frames) / RATE_HZ,
        "state": rng.normal(size=(frames, 14)).astype(np.float32),
        "action": rng.normal(size=(frames, 14)).astype(np.float32),
        "effector_m": make_path(frames),
        "reliable": np.ones((frames, 2), bool),
        "cameras": {camera: make_camera(frames, seed=index) for index, camera in enumerate(Camera)},
        "provenance": PROVENANCE,
    }
    return Episode(**{**whole, **changes})
