"""A served policy: joints and camera pictures in, targets at the robot's rate out."""

# B observations, V views, S picture side, H steps of a chunk, A action dimensions

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from egorecovery.capture.picture_fit import PictureFit
from egorecovery.episodes import RATE_HZ
from egorecovery.episodes.vocabulary import EFFECTOR_DIM, STATE_DIM
from egorecovery.errors import ServingError
from egorecovery.kinematics import pack, unpack
from egorecovery.kinematics.arms import Arms
from egorecovery.motion import resample_linear
from egorecovery.policy.action_source import ActionSource, action_space_of, wants_hidden_embodiment
from egorecovery.serving.metadata import Fit, ServerMetadata
from egorecovery.serving.observation import Observation

AnswerAs = Literal["joints", "poses"]
SLOWEST_HZ, FASTEST_HZ = 1.0, 1000.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """An observation with pictures of the policy's size."""

    pictures_VSS3: np.ndarray
    state_A: np.ndarray  # joints, float64


@dataclass(frozen=True, kw_only=True, eq=False)
class Chunk:
    """One chunk of actions for a robot, with gate and intent."""

    actions_HA: np.ndarray  # at the client's rate
    gate: float | None
    intent: list[float] | None
    unreachable: int  # targets out of the arms' reach, replaced by the nearest pose
    inference_s: float  # of the batch that it was in, without kinematics
    answering_s: float  # with kinematics and resampling of the whole batch


class ServedPolicy:
    """Answers batches of observations; one thread at a time."""

    def __init__(
        self,
        source: ActionSource,
        *,
        horizon: int,
        checkpoint: str,
        client_hz: float = 50.0,
        fit: Fit = "exact",
        answer: AnswerAs = "joints",
        arms: Arms | None = None,
    ) -> None:
        if not SLOWEST_HZ <= client_hz <= FASTEST_HZ:
            raise ServingError(f"the client's rate must lie in {SLOWEST_HZ:g}..{FASTEST_HZ:g} Hz, got {client_hz:g}")
        self._source = source
        self._acts_in_effector_space = action_space_of(source) == "effector"
        self._answer = answer
        self._arms = arms
        self._horizon = horizon
        if self._acts_in_effector_space and arms is None:
            raise ServingError(f"{source.name} acts in effector space and needs the robot's arms; give --robot FILE")
        if answer == "poses" and not self._acts_in_effector_space:
            raise ServingError(f"{source.name} acts in joint space and cannot answer with poses")
        self.fit = PictureFit(source.image_size, fit)
        self.metadata = ServerMetadata(
            action_hz=client_hz,
            policy_hz=RATE_HZ,
            horizon=steps_at(horizon, client_hz),
            action_space="effector" if answer == "poses" else "joint",
            action_dim=EFFECTOR_DIM if answer == "poses" else STATE_DIM,
            state_dim=STATE_DIM,
            cameras=tuple(str(camera) for camera in source.cameras),
            image_size=source.image_size,
            picture_fit=fit,
            hidden_embodiment=wants_hidden_embodiment(source),
            model=source.name,
            checkpoint=checkpoint,
            task=getattr(source, "task", None),
        )

    def prepare(self, observation: Observation) -> Prepared:
        """Fits pictures. May run on any thread."""
        side = self.fit.image_size
        pictures_VSS3 = self._buffer_for(observation.pictures)
        for into_SS3, picture in zip(pictures_VSS3, observation.pictures, strict=True):
            height, width = picture.shape[:2]
            if self.fit.fit == "exact" and not self.fit.fits(height, width):
                raise ServingError(
                    f"the picture has {width} x {height} pixels, {side} x {side} are wanted; send that size, or start "
                    "the server with --fit letterbox or --fit crop"
                )
            into_SS3[:] = self.fit.apply(picture)
        return Prepared(pictures_VSS3=pictures_VSS3, state_A=observation.state_A)

    def _buffer_for(self, pictures: Sequence[np.ndarray]) -> np.ndarray:
        """A buffer in the pictures' memory layout. Policies accept both layouts; converting costs most of the time."""
        side, views = self.fit.image_size, len(pictures)
        if all(picture.strides[2] > picture.strides[1] for picture in pictures):  # channels first
            return np.empty((views, 3, side, side), np.uint8).transpose(0, 2, 3, 1)
        return np.empty((views, side, side, 3), np.uint8)

    def warm_up(self, batch: int) -> None:
        """Answers blank observations of every batch size up to `batch`, so that no robot waits for the first ones."""
        size, views = self._source.image_size, len(self._source.cameras)
        blank = Prepared(pictures_VSS3=np.zeros((views, size, size, 3), np.uint8), state_A=np.zeros(STATE_DIM))
        for rows in sorted({1, *(2**power for power in range(1, 10) if 2**power < batch), batch}):
            self.answer([blank] * rows)

    def answer(self, prepared: Sequence[Prepared]) -> list[Chunk]:
        started_s = time.perf_counter()
        states_BA = np.stack([observation.state_A for observation in prepared])
        if self._acts_in_effector_space:
            assert self._arms is not None
            states_BA = self._arms.effector_vectors(states_BA)
        deciding_s = time.perf_counter()
        decision = self._source.infer(
            prepared[0].pictures_VSS3[None]
            if len(prepared) == 1
            else np.stack([observation.pictures_VSS3 for observation in prepared]),
            states_BA.astype(np.float32),
        )
        inference_s = time.perf_counter() - deciding_s
        self._check(decision.action_BHA, decision.gate_B, decision.intent_BC)
        targets = [
            self._targets(actions_HA, observation.state_A)
            for actions_HA, observation in zip(decision.action_BHA, prepared, strict=True)
        ]
        answering_s = time.perf_counter() - started_s
        return [
            Chunk(
                actions_HA=actions_HA,
                gate=None if decision.gate_B is None else float(decision.gate_B[row]),
                intent=None if decision.intent_BC is None else [float(x) for x in decision.intent_BC[row]],
                unreachable=unreachable,
                inference_s=inference_s,
                answering_s=answering_s,
            )
            for row, (actions_HA, unreachable) in enumerate(targets)
        ]

    def _check(self, action_BHA: np.ndarray, *others: np.ndarray | None) -> None:
        """Refuses values that are not finite, and chunks of another length than the metadata state."""
        if not all(np.isfinite(part).all() for part in (action_BHA, *others) if part is not None):
            raise ServingError(f"{self._source.name} answered with values that are not finite")
        if action_BHA.ndim != 3 or action_BHA.shape[1] != self._horizon:
            raise ServingError(
                f"{self._source.name} answered with actions of shape {action_BHA.shape[1:]}, not {self._horizon} steps"
            )

    def _targets(self, actions_HA: np.ndarray, joints_A: np.ndarray) -> tuple[np.ndarray, int]:
        """A chunk in the client's space and rate, and the number of its poses that are out of reach."""
        unreachable = 0
        if self._acts_in_effector_space and self._answer == "joints":
            assert self._arms is not None
            solved = self._arms.joint_chunk(actions_HA, joints_A)
            actions_HA, unreachable = solved.joints, solved.unreachable
        at_rate_HA = at_client_rate(actions_HA, self.metadata.action_hz)
        # Predicted and interpolated axes are neither unit nor orthogonal.
        return (pack(unpack(at_rate_HA)) if self._answer == "poses" else at_rate_HA), unreachable


def steps_at(horizon: int, client_hz: float) -> int:
    """The number of steps at another rate that last as long as `horizon` steps at 25 Hz."""
    return max(1, round(horizon * client_hz / RATE_HZ))


def at_client_rate(actions_HA: np.ndarray, client_hz: float) -> np.ndarray:
    """A chunk resampled linearly: step k is the target k / client_hz after the observation; the last one is held."""
    if client_hz == RATE_HZ:
        return actions_HA
    horizon = len(actions_HA)
    return resample_linear(
        np.arange(horizon) / RATE_HZ, actions_HA, np.arange(steps_at(horizon, client_hz)) / client_hz
    )
