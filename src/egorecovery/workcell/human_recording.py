"""The rig's recording of a person: three cameras and a hand tracker with their own clocks and errors."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator
from scipy.spatial.transform import Rotation

from egorecovery.capture import HandTracks, RawCamera, Recording
from egorecovery.episodes import RATE_HZ, Camera, JpegFrames, Provenance, Source, Task, episode_id
from egorecovery.motion import KeypointOrder, resample_linear, resample_rotations
from egorecovery.workcell.human_hands import HandsSeen, HumanHands
from egorecovery.workcell.maneuver import Script
from egorecovery.workcell.render import Cameras


@dataclass(frozen=True, kw_only=True)
class CameraClock:
    """Timestamps of frames with the errors of a host that stamps their arrival."""

    delay_s: float = 0.006  # largest constant delay of a stream
    jitter_s: float = 0.003  # in either direction


@dataclass(frozen=True, kw_only=True)
class HandTracker:
    """Errors of a hand reconstruction from RGB-D."""

    rate_hz: float = 30.0
    clock_jitter_s: float = 0.002
    noise_m: float = 0.0015  # of the whole hand, per axis, from sample to sample
    point_noise_m: float = 0.001  # of each keypoint
    noise_rad: float = 0.015
    drift_m: float = 0.003  # slow error, per axis
    drift_rad: float = 0.02
    drift_s: float = 1.0  # correlation time of the drift
    jumps_per_s: float = 0.25  # of each hand, which then appears elsewhere for some samples
    jump_samples: tuple[int, int] = (1, 4)
    jump_m: tuple[float, float] = (0.04, 0.15)
    jump_rad: float = 0.6  # at most
    dropouts_per_s: float = 0.25  # in which no hand is found
    dropout_samples: tuple[int, int] = (1, 5)


class Film:
    """A demonstration, tick by tick: pictures and true hands."""

    def __init__(self, person: HumanHands, cameras: Cameras, depth: bool = False) -> None:
        self._person, self._cameras, self._depth = person, cameras, depth
        self._images: dict[Camera, list[ndarray]] = {camera: [] for camera in Camera}
        self._depth_mm: dict[Camera, list[ndarray]] = {camera: [] for camera in Camera}
        self._seen: list[HandsSeen] = []
        self.boundary_s: float | None = None  # the end of the correction, from the script

    def shoot(self, script: Script, rng: Generator) -> None:
        """Records a script from its first tick to its final state."""
        self._person.demonstrate(script, rng, self._take, self._mark_boundary)
        self._take(self._person.seen())

    def _take(self, seen: HandsSeen) -> None:
        self._seen.append(seen)
        for camera in Camera:
            self._images[camera].append(self._cameras.render(self._person.data, camera))
            if self._depth:
                self._depth_mm[camera].append(self._cameras.depth_mm(self._person.data, camera))

    def _mark_boundary(self) -> None:
        # The last frame of the correction is the one just executed.
        self.boundary_s = max(len(self._seen) - 1, 0) / RATE_HZ

    @property
    def duration_s(self) -> float:
        return (len(self._seen) - 1) / RATE_HZ

    @property
    def ticks_s(self) -> Float[ndarray, " T"]:
        return np.arange(len(self._seen)) / RATE_HZ

    def camera(self, camera: Camera, clock: CameraClock, rng: Generator) -> RawCamera:
        late_s = rng.uniform(0, clock.delay_s) + rng.uniform(-clock.jitter_s, clock.jitter_s, len(self._seen))
        return RawCamera(
            frames=JpegFrames.encode(self._images[camera]),
            timestamps_s=self.ticks_s + late_s,
            intrinsics=self._cameras.intrinsics(camera),
            depth_mm=np.stack(self._depth_mm[camera]) if self._depth else None,
        )

    def hands(self, tracker: HandTracker, rng: Generator) -> HandTracks:
        """True hands at the tracker's times, interpolated between ticks."""
        times_s = _tracker_times(self.duration_s, tracker, rng)
        true_m = resample_linear(self.ticks_s, np.stack([seen.keypoints_m for seen in self._seen]), times_s)
        axes = np.stack([seen.wrist_rotation for seen in self._seen])
        keypoints_m, matrices = np.empty_like(true_m), np.empty((len(times_s), 2, 3, 3))
        confidence = rng.uniform(0.8, 1.0, (len(times_s), 2))
        for hand in range(2):
            quaternions = Rotation.from_matrix(axes[:, hand]).as_quat()
            wrist = Rotation.from_quat(resample_rotations(self.ticks_s, quaternions, times_s))
            keypoints_m[:, hand], matrices[:, hand] = _reconstructed(true_m[:, hand], wrist, tracker, rng)
            for lost in _stretches(len(times_s), tracker.dropouts_per_s, tracker.dropout_samples, tracker, rng):
                keypoints_m[lost, hand], matrices[lost, hand] = np.nan, np.nan
                confidence[lost, hand] *= 0.3
        return HandTracks(
            timestamps_s=times_s,
            keypoints_m=keypoints_m,
            wrist_rotation=matrices,
            confidence=confidence,
            order=KeypointOrder.MANO,
        )


def human_recording(
    film: Film,
    name: str,
    *,
    task: Task,
    source: Source,
    provenance: Provenance,
    rng: Generator,
    tracker: HandTracker | None = None,
    clock: CameraClock | None = None,
) -> Recording:
    """The raw recording of a demonstration, without cleaning."""
    cameras = {camera: film.camera(camera, clock or CameraClock(), rng) for camera in Camera}
    return Recording(
        id=episode_id(name),
        task=task,
        source=source,
        cameras=cameras,
        motion=film.hands(tracker or HandTracker(), rng),
        provenance=provenance,
    )


def _tracker_times(duration_s: float, tracker: HandTracker, rng: Generator) -> Float[ndarray, " N"]:
    """A tracker's sample times, from a random moment within the first period, within the recording."""
    even_s = np.arange(rng.uniform(0, 1 / tracker.rate_hz), duration_s, 1 / tracker.rate_hz)
    jitter_s = rng.uniform(-tracker.clock_jitter_s, tracker.clock_jitter_s, len(even_s))
    return even_s + jitter_s


def _reconstructed(
    true_m: Float[ndarray, "N 21 3"], wrist: Rotation, tracker: HandTracker, rng: Generator
) -> tuple[Float[ndarray, "N 21 3"], Float[ndarray, "N 3 3"]]:
    """One hand with noise, drift and jumps in position and rotation."""
    samples = len(true_m)
    shift_m = rng.normal(0, tracker.noise_m, (samples, 3)) + tracker.drift_m * _drift(samples, tracker, rng)
    turn_rad = rng.normal(0, tracker.noise_rad, (samples, 3)) + tracker.drift_rad * _drift(samples, tracker, rng)
    for wrong in _stretches(samples, tracker.jumps_per_s, tracker.jump_samples, tracker, rng):
        shift_m[wrong] += rng.uniform(*tracker.jump_m) * _direction(rng)
        turn_rad[wrong] += rng.uniform(0, tracker.jump_rad) * _direction(rng)
    turn = Rotation.from_rotvec(turn_rad)
    from_wrist_m = np.einsum("nij,nkj->nki", turn.as_matrix(), true_m - true_m[:, :1])
    noise_m = rng.normal(0, tracker.point_noise_m, true_m.shape)
    return true_m[:, :1] + shift_m[:, None] + from_wrist_m + noise_m, (turn * wrist).as_matrix()


def _drift(samples: int, tracker: HandTracker, rng: Generator) -> Float[ndarray, "N 3"]:
    """Drift of unit variance with correlation time `drift_s`."""
    keep = float(np.exp(-1 / (tracker.drift_s * tracker.rate_hz)))
    drift = np.empty((samples, 3))
    drift[:1] = rng.normal(0, 1, (1, 3))
    for sample in range(1, samples):
        drift[sample] = keep * drift[sample - 1] + np.sqrt(1 - keep**2) * rng.normal(0, 1, 3)
    return drift


def _stretches(
    samples: int, per_s: float, length: tuple[int, int], tracker: HandTracker, rng: Generator
) -> list[slice]:
    """Samples affected by faults, which occur any number of times."""
    starts = np.flatnonzero(rng.random(samples) < per_s / tracker.rate_hz)
    return [slice(int(start), int(start + rng.integers(length[0], length[1], endpoint=True))) for start in starts]


def _direction(rng: Generator) -> Float[ndarray, "3"]:
    way = rng.normal(0, 1, 3)
    return way / np.linalg.norm(way)
