"""Synthetic recordings with known ground truth, seen by an imperfect tracker, for the demo and the tests."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator
from scipy.spatial.transform import Rotation

from egorecovery.capture.recording import HandTracks, RawCamera, Recording, RobotLog
from egorecovery.episodes import Camera, Intrinsics, JpegFrames, Provenance, Source, Task, episode_id
from egorecovery.motion import KeypointOrder

HOME_M = np.array([[0.35, 0.18, 0.12], [0.35, -0.18, 0.12]])  # left, right, above the table
EPOCH = datetime(2026, 1, 1, 9, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class TrackerFaults:
    """Errors of a monocular hand tracker."""

    noise_m: float = 0.002
    noise_rad: float = 0.02
    jumps: int = 2  # excursions to a wrong place
    jump_frames: int = 2
    gaps: int = 1  # stretches without a hand
    gap_frames: int = 4
    clock_jitter_s: float = 0.002


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """The true motion of a recording, as a function of time."""

    knots_s: Float[ndarray, " N"]
    waypoints_m: Float[ndarray, "N 2 3"]
    angles_rad: Float[ndarray, "N 2 3"]
    opening_01: Float[ndarray, "N 2"]
    boundary_s: float | None  # end of the correction

    def effector_m(self, times_s: Float[ndarray, " T"]) -> Float[ndarray, "T 2 3"]:
        return self._eased(self.waypoints_m, times_s)

    def rotation(self, times_s: Float[ndarray, " T"], hand: int) -> Rotation:
        return Rotation.from_euler("xyz", self._eased(self.angles_rad, times_s)[:, hand])

    def aperture_01(self, times_s: Float[ndarray, " T"]) -> Float[ndarray, "T 2"]:
        return self._eased(self.opening_01, times_s)

    @property
    def duration_s(self) -> float:
        return float(self.knots_s[-1])

    def _eased(self, values: ndarray, times_s: ndarray) -> ndarray:
        """Minimum-jerk motion between knots, at rest at each knot."""
        leg = np.clip(np.searchsorted(self.knots_s, times_s, side="right") - 1, 0, len(self.knots_s) - 2)
        along = np.clip((times_s - self.knots_s[leg]) / np.diff(self.knots_s)[leg], 0, 1)
        eased = along**3 * (10 - 15 * along + 6 * along**2)
        return values[leg] + (values[leg + 1] - values[leg]) * eased.reshape(-1, *(1,) * (values.ndim - 1))


def synthetic_recording(
    name: str,
    task: Task,
    source: Source,
    rng: Generator,
    faults: TrackerFaults | None = None,
    image_size: int = 64,
) -> tuple[Recording, Truth]:
    """A correction (for recovery sources), a short pause, then a reach-and-place, by hands or by a slower robot."""
    truth = _motion(task, source, rng)
    cameras = {camera: _film(camera, truth, rng, image_size) for camera in Camera}
    motion = _track_hands(truth, faults or TrackerFaults(), rng) if source.is_human else _log_robot(truth)
    started = EPOCH + timedelta(seconds=float(rng.uniform(0, 3600)))
    provenance = Provenance(
        operator="synthetic",
        started_at=started.isoformat(timespec="milliseconds"),
        stopped_at=(started + timedelta(seconds=truth.duration_s)).isoformat(timespec="milliseconds"),
        staging_s=2.0 if source.is_human else 25.0,
        reset_s=1.0 if source.is_human else 15.0,
        recorder="egorecovery.capture.synthetic",
        details={"true_boundary_s": truth.boundary_s},
    )
    recording = Recording(
        id=episode_id(name), task=task, source=source, cameras=cameras, motion=motion, provenance=provenance
    )
    return recording, truth


def _motion(task: Task, source: Source, rng: Generator) -> Truth:
    """Waypoints of the active hand. The other hand is still except for a little sway."""
    slower = 1.0 if source.is_human else 2.0
    correction_m = [rng.uniform([-0.05, -0.05, 0.03], [0.05, 0.05, 0.08])] * source.is_recovery
    reach_m = [rng.uniform([0.05, -0.03, 0.05], [0.12, 0.03, 0.10]), rng.uniform([0.12, -0.06, -0.06], [0.2, 0.06, 0])]
    offsets_m = [np.zeros(3), *(m for m in correction_m for _ in range(2)), *reach_m, reach_m[-1]]
    seconds = [*([0.9, 0.25] * source.is_recovery), 0.9, 0.9, 0.4]
    knots_s = np.concatenate([[0], np.cumsum(np.array(seconds) * slower * rng.uniform(0.8, 1.25, len(seconds)))])
    shape = (len(knots_s), 2, 3)
    waypoints_m = np.broadcast_to(HOME_M, shape) + rng.normal(0, 0.001, shape)
    # Roll near pi, so that wrapping always occurs.
    angles_rad = np.array([np.pi, 0.2, 0.0]) + rng.normal(0, 0.15, shape)
    opening_01 = rng.uniform(0.2, 0.9, shape[:2])
    for effector in task.active_effectors:
        waypoints_m[:, effector] += offsets_m
    boundary_s = float(knots_s[1]) if source.is_recovery else None
    return Truth(
        knots_s=knots_s, waypoints_m=waypoints_m, angles_rad=angles_rad, opening_01=opening_01, boundary_s=boundary_s
    )


def _clock(truth: Truth, rate_hz: float, jitter_s: float, rng: Generator) -> Float[ndarray, " N"]:
    ticks_s = np.arange(int(truth.duration_s * rate_hz) + 1) / rate_hz
    return np.clip(ticks_s + rng.uniform(-jitter_s, jitter_s, len(ticks_s)), 0, truth.duration_s) + 1e-9 * ticks_s


def _track_hands(truth: Truth, faults: TrackerFaults, rng: Generator) -> HandTracks:
    times_s = _clock(truth, 30.0, faults.clock_jitter_s, rng)
    wrist_m = truth.effector_m(times_s) + rng.normal(0, faults.noise_m, (len(times_s), 2, 3))
    rotation = np.empty((len(times_s), 2, 3, 3))
    for hand in range(2):
        shake = Rotation.from_rotvec(rng.normal(0, faults.noise_rad, (len(times_s), 3)))
        rotation[:, hand] = (shake * truth.rotation(times_s, hand)).as_matrix()
    keypoints_m = wrist_m[:, :, None] + _hand_shape(truth.aperture_01(times_s))
    confidence = rng.uniform(0.85, 1.0, (len(times_s), 2))
    for hand in range(2):
        for start in _places(len(times_s), faults.jump_frames, faults.jumps, rng):
            keypoints_m[start : start + faults.jump_frames, hand] += rng.choice([-1, 1], 3) * rng.uniform(0.04, 0.15, 3)
        for start in _places(len(times_s), faults.gap_frames, faults.gaps, rng):
            for stream in (keypoints_m, rotation, confidence):
                stream[start : start + faults.gap_frames, hand] = np.nan
    return HandTracks(
        timestamps_s=times_s,
        keypoints_m=keypoints_m,
        wrist_rotation=rotation,
        confidence=np.nan_to_num(confidence),
        order=KeypointOrder.MANO,
    )


def _places(samples: int, length: int, count: int, rng: Generator) -> ndarray:
    """Starts of `count` stretches, none touching the ends."""
    room = np.arange(3, max(samples - length - 3, 4))
    return rng.choice(room, min(count, len(room)), replace=False)


def _hand_shape(aperture_01: Float[ndarray, "N 2"]) -> Float[ndarray, "N 2 21 3"]:
    """A schematic hand about its wrist: fingers along x, the thumb-index distance as wanted."""
    points = np.zeros((*aperture_01.shape, 21, 3))
    points[..., 1:, 0] = np.linspace(0.03, 0.1, 20)
    gap_m = 0.03 + 0.05 * aperture_01
    order = KeypointOrder.MANO
    points[..., order.thumb_tip, :] = np.array([0.09, 0.0, 0.0])
    points[..., order.index_tip, :] = np.array([0.09, 0.0, 0.0])
    points[..., order.thumb_tip, 1] += gap_m / 2
    points[..., order.index_tip, 1] -= gap_m / 2
    return points


def _log_robot(truth: Truth) -> RobotLog:
    times_s = np.arange(int(truth.duration_s * 50) + 1) / 50  # joints are logged faster than video
    effector_m = truth.effector_m(times_s)
    arms = [
        np.column_stack(
            [effector_m[:, side], truth.rotation(times_s, side).as_rotvec(), truth.aperture_01(times_s)[:, side]]
        )
        for side in range(2)
    ]
    state = np.concatenate(arms, axis=1)
    action = np.concatenate([state[1:], state[-1:]])
    return RobotLog(timestamps_s=times_s, state=state, action=action, effector_m=effector_m)


def _film(camera: Camera, truth: Truth, rng: Generator, size: int) -> RawCamera:
    """Two coloured discs over a table, which show the motion and compress like real pictures."""
    times_s = _clock(truth, 25.0, 0.004, rng)
    rows, columns = np.mgrid[0:size, 0:size]
    table = np.stack([120 + 60 * rows / size, 100 + 40 * rows / size, np.full((size, size), 90.0)], axis=-1)
    images = []
    for effector_m in truth.effector_m(times_s):
        image = table + rng.normal(0, 2, table.shape)
        for (x, y, z), colour in zip(effector_m, ((220, 190, 60), (60, 170, 90)), strict=True):
            zoom = 1.0 if camera is Camera.HEAD else 1.4
            row, column = size * (0.9 - zoom * (x - 0.2)), size * (0.5 - zoom * y)
            image[(rows - row) ** 2 + (columns - column) ** 2 < (size * (0.05 + 0.3 * max(z, 0))) ** 2] = colour
        images.append(np.clip(image, 0, 255).astype(np.uint8))
    focal = 1.2 * size
    return RawCamera(
        frames=JpegFrames.encode(images),
        timestamps_s=times_s,
        intrinsics=Intrinsics(width=size, height=size, fx=focal, fy=focal, cx=size / 2, cy=size / 2),
    )
