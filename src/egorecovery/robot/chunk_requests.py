"""Requests chunks: observe, refuse stale observations, send, pass the chunk on. Every failure stops the robot."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from egorecovery.errors import RobotError, ServerError, ServerSilent
from egorecovery.robot.clock import Clock
from egorecovery.robot.controller import Controller
from egorecovery.robot.guard import Cause, Fault, staleness
from egorecovery.robot.limits import Limits
from egorecovery.robot.robot import Observation, Robot
from egorecovery.serving.client import PolicyClient
from egorecovery.serving.metadata import ALOHA_CAMERAS, ServerMetadata

FIRST_CHUNK_TIMEOUT_S = 30.0  # the first inference loads and compiles; the robot stands still meanwhile

Connect = Callable[[], PolicyClient]


class ChunkRequester:
    """Requests the chunks of one robot. Connects on first use, and again after a re-arm if the connection broke."""

    def __init__(self, robot: Robot, connect: Connect, controller: Controller, clock: Clock, prompt: str = "") -> None:
        self._robot, self._connect, self._controller, self._clock = robot, connect, controller, clock
        self._prompt = prompt
        self._client: PolicyClient | None = None
        self._answered = False

    def connect(self) -> ServerMetadata:
        """Connects and returns the server's metadata. A server that does not fit the robot is refused."""
        if self._client is None:
            client = self._connect()
            try:
                check_fit(client.metadata, self._robot, self._controller.limits)
            except RobotError:
                client.close()
                raise
            self._client, self._answered = client, False
        return self._client.metadata

    def request_if_due(self) -> bool:
        """Requests a chunk if one is due. True if it arrived."""
        if not self._controller.wants_chunk(self._clock.now_s()):
            return False
        try:
            return self._ask()
        except (ServerError, RobotError) as error:
            cause = Cause.NO_ANSWER if isinstance(error, ServerSilent) else Cause.SERVER
            self._controller.stop(Fault(cause, str(error)), self._clock.now_s())
        except Exception as error:  # a driver may raise anything, and the robot must be stopped
            self._controller.stop(Fault(Cause.DRIVER, f"read: {type(error).__name__}: {error}"), self._clock.now_s())
        # A late answer must not be mistaken for the next one. Closing takes time, so the robot is stopped first.
        self.close()
        return False

    def _ask(self) -> bool:
        metadata = self.connect()
        assert self._client is not None
        seen = self._robot.read()
        now_s = self._clock.now_s()
        reason = refusal(seen, now_s, metadata, self._controller.limits)
        if reason is not None:
            self._controller.refuse(reason, now_s)
            return False
        timeout_s = self._controller.limits.answer_s if self._answered else FIRST_CHUNK_TIMEOUT_S
        reply = self._client.infer(message(seen, metadata, self._prompt), timeout_s)
        is_first, self._answered = not self._answered, True
        now_s = self._clock.now_s()
        took_s = now_s - seen.captured_s
        if is_first and took_s > self._controller.limits.answer_s:
            # Its observation is too old to act on. The server is warm now, so the next answer is in time.
            self._controller.refuse(f"the first answer took {took_s:.1f} s: the policy is queried again", now_s)
            return False
        self._controller.add(reply, seen.captured_s, now_s)
        return True

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def check_fit(metadata: ServerMetadata, robot: Robot, limits: Limits) -> None:
    """Refuses a server, robot and limits that do not fit together."""
    if limits.names != tuple(robot.joint_names):
        raise RobotError(
            f"the limits are for joints {', '.join(limits.names)}; the robot has {', '.join(robot.joint_names)}, in "
            "this order"
        )
    if metadata.action_space != "joint":
        raise RobotError(
            f"the server answers in {metadata.action_space} space; robots here take joint targets: start the server "
            "with --answer joints"
        )
    joints = len(limits.joints)
    if metadata.action_dim != joints or metadata.state_dim != joints:
        raise RobotError(
            f"the server takes {metadata.state_dim} joints and answers {metadata.action_dim}; the robot has {joints}"
        )
    if abs(metadata.action_hz - robot.rate_hz) > 1e-6 * robot.rate_hz:
        raise RobotError(
            f"the server's chunks are {metadata.action_hz:g} steps a second, the robot takes {robot.rate_hz:g}: start "
            f"the server with --client-hz {robot.rate_hz:g}"
        )
    hides = bool(getattr(robot, "hides_embodiment", False))  # drivers without the attribute hide nothing
    if metadata.hidden_embodiment and not hides:
        raise RobotError(
            "the policy was trained on pictures without arms and hands, and this robot's show them: hide them in its "
            "driver as import --hide-embodiment does (docs/formats.md), and set hides_embodiment = True there"
        )
    if hides and not metadata.hidden_embodiment:
        raise RobotError("this robot hides its arms from pictures, and the policy was trained on pictures with them")


def refusal(seen: Observation, now_s: float, metadata: ServerMetadata, limits: Limits) -> str | None:
    """Why an observation must not be sent to the policy, or None."""
    stale = staleness(now_s, seen.captured_s, limits.observation_age_s)
    if stale is not None:
        return f"the observation is {stale}"
    if seen.joints.shape != (len(limits.joints),) or not np.isfinite(seen.joints).all():
        return f"observed joints must be {len(limits.joints)} finite numbers, got {seen.joints}"
    names = {ALOHA_CAMERAS.get(name, name) for name in seen.images}
    missing = [camera for camera in metadata.cameras if camera not in names]
    return f"the policy needs camera {', '.join(missing)}, which the robot does not have" if missing else None


def message(seen: Observation, metadata: ServerMetadata, prompt: str) -> Mapping[str, Any]:
    """An observation as a wire message, with the policy's cameras only."""
    images = {
        name: np.ascontiguousarray(image)
        for name, image in seen.images.items()
        if ALOHA_CAMERAS.get(name, name) in metadata.cameras
    }
    # Double precision: the server computes poses from the joints, and rounding would change the last bits.
    observation: dict[str, Any] = {"state": np.asarray(seen.joints, np.float64), "images": images}
    return {**observation, "prompt": prompt} if prompt else observation
