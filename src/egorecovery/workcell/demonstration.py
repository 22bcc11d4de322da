"""One attempt at a demonstration: staged, executed, recorded, and judged by the task's rules."""

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator

from egorecovery.capture import HandTracks, RawCamera, RobotLog
from egorecovery.episodes import RATE_HZ, Camera, JpegFrames
from egorecovery.errors import EgoRecoveryError
from egorecovery.workcell.kinematics import workcell_arms
from egorecovery.workcell.rules import Outcome
from egorecovery.workcell.scene import TaskScene
from egorecovery.workcell.starts import Start
from egorecovery.workcell.teleoperator import Aim, OutOfReach, Teleoperator
from egorecovery.workcell.workcell import StagingFailed, Workcell

OPERATOR = Aim(miss_m=0.02, tremble_rad=0.002)
# A hand that always arrives with the correct rotation teaches a policy to copy the rotation of its own hand. With the
# hand reset to 0 over a handle, the policy requests 0.09 of the handle's rotation, whatever it sees (docs/log.md).
TURNING_OPERATOR = replace(OPERATOR, miss_rad=0.3)
PATIENCE_S = 1.0  # beyond the stability window: how long to wait for the judge after the demonstrator has finished


@dataclass(frozen=True, kw_only=True, eq=False)
class Attempt:
    """The result of an attempt. A failed one counts its time and has no data."""

    motion: RobotLog | HandTracks | None
    cameras: dict[Camera, RawCamera]
    duration_s: float
    failure: str | None  # why it cannot be used
    correction_done_s: float | None = None  # the true end of the correction, on the recording's clock
    target_objects_m: Float[ndarray, "T 3"] | None = None  # true positions of the target objects, robots only

    @classmethod
    def failed(cls, duration_s: float, reason: str) -> "Attempt":
        return cls(motion=None, cameras={}, duration_s=duration_s, failure=reason)


@runtime_checkable
class Demonstrator(Protocol):
    """A demonstrator of one task."""

    scene: TaskScene

    def attempt(self, start: Start, rng: Generator) -> Attempt:
        """Stages the start and follows the task's script."""
        ...

    def close(self) -> None:
        """Close the renderer."""
        ...


class Ended(EgoRecoveryError):
    """The rollout was judged before the script ended."""


class RobotDemonstrator:
    """A teleoperator at the robot."""

    def __init__(
        self, scene: TaskScene, *, image_size: int = 96, aim: Aim = OPERATOR, hidden_embodiment: bool = False
    ) -> None:
        self.scene = scene
        self._workcell = Workcell(scene, image_size=image_size, hidden_embodiment=hidden_embodiment)
        self._aim = aim

    def attempt(self, start: Start, rng: Generator) -> Attempt:
        workcell, scene = self._workcell, self.scene
        try:
            workcell.reset(start)
        except (StagingFailed, OutOfReach) as error:
            return Attempt.failed(0.0, f"staging: {error}")
        take = _Take(workcell)
        teleoperator = Teleoperator(workcell.robot, scene, step=take.step)
        teleoperator.aim = self._aim
        script = scene.recover(teleoperator, rng) if start.kind == "recovery" else scene.succeed(teleoperator, rng)
        try:
            teleoperator.demonstrate(script, rng, take.look, take.correction_done)
            outcome = take.outcome or _wait(workcell)
        except (OutOfReach, Ended) as error:
            return Attempt.failed(take.seconds, str(error))
        if outcome is None or not outcome.succeeded:
            return Attempt.failed(take.seconds, outcome.reason if outcome else "the goal was not reached")
        return take.attempt()

    def close(self) -> None:
        self._workcell.close()


class _Take:
    """Records observations and commands, tick by tick."""

    def __init__(self, workcell: Workcell) -> None:
        self._workcell = workcell
        self._images: dict[Camera, list[ndarray]] = {camera: [] for camera in Camera}
        self._states: list[ndarray] = []
        self._actions: list[ndarray] = []
        self._effectors_m: list[ndarray] = []
        self._sought_m: list[ndarray] = []
        self._correction_done_s: float | None = None
        self.outcome: Outcome | None = None

    @property
    def seconds(self) -> float:
        return len(self._actions) / RATE_HZ

    def look(self, action: Float[ndarray, "14"]) -> None:
        """Records the observation before the action is executed, as a policy would see it."""
        observation = self._workcell.observe()
        for camera, image in observation.images.items():
            self._images[camera].append(image)
        self._states.append(observation.state)
        self._actions.append(action)
        self._effectors_m.append(self._workcell.robot.effector_m())
        self._sought_m.append(self._workcell.target_objects_m())

    def step(self, action: Float[ndarray, "14"]) -> None:
        outcome = self._workcell.step(action)
        if outcome is not None and not outcome.succeeded:
            raise Ended(outcome.reason)
        self.outcome = self.outcome or outcome

    def correction_done(self) -> None:
        # The last executed frame is the last frame of the correction.
        self._correction_done_s = max(len(self._actions) - 1, 0) / RATE_HZ

    def attempt(self) -> Attempt:
        times_s = np.arange(len(self._actions)) / RATE_HZ
        states, actions = np.array(self._states), np.array(self._actions)
        log = RobotLog(
            timestamps_s=times_s,
            state=states,
            action=actions,
            effector_m=np.array(self._effectors_m),
            effector_state=workcell_arms().effector_vectors(states),
            effector_action=workcell_arms().effector_vectors(actions),
        )
        cameras = {
            camera: RawCamera(
                frames=JpegFrames.encode(images),
                timestamps_s=times_s,
                intrinsics=self._workcell.cameras.intrinsics(camera),
            )
            for camera, images in self._images.items()
        }
        return Attempt(
            motion=log,
            cameras=cameras,
            duration_s=self.seconds,
            failure=None,
            correction_done_s=self._correction_done_s,
            target_objects_m=np.array(self._sought_m),
        )


def _wait(workcell: Workcell) -> Outcome | None:
    """Waits until the goal has held long enough."""
    hold = workcell.robot.target()
    for _ in range(round((workcell.protocol.stable_s + PATIENCE_S) * RATE_HZ)):
        outcome = workcell.step(hold)
        if outcome is not None:
            return outcome
    return None
