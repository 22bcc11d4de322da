"""The first message of a connection: the server's inputs and outputs, so that a client can refuse a mismatch."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal

from egorecovery.errors import WireError
from egorecovery.storage.typed_json import from_json, to_json

AnswerSpace = Literal["joint", "effector"]
Fit = Literal["letterbox", "crop", "exact"]

# Camera names of ALOHA robots on the wire, and the names in this project.
ALOHA_CAMERAS = {"cam_high": "head", "cam_left_wrist": "left_wrist", "cam_right_wrist": "right_wrist"}
IGNORED_CAMERAS = frozenset({"cam_low"})  # of ALOHA; no policy here uses it


@dataclass(frozen=True, kw_only=True)
class ServerMetadata:
    """The first message of a connection. On the wire it is a map of plain values under these names."""

    action_hz: float  # rate at which the steps of a chunk must be played
    policy_hz: float  # rate the policy was trained at; chunks are resampled from it
    horizon: int  # steps of a chunk, at action_hz
    action_space: AnswerSpace  # joint: 14 targets (6 joints and a gripper per arm); effector: 20, two poses
    action_dim: int
    state_dim: int  # of `state` in observations: always joints, left arm first
    cameras: tuple[str, ...]  # required in `images`; ALOHA's names for them are accepted too
    image_size: int  # side of the policy's pictures in pixels
    picture_fit: Fit  # how pictures of other sizes are fitted
    hidden_embodiment: bool  # the policy needs pictures without arms
    model: str  # a description
    checkpoint: str  # SHA-256 of the checkpoint's card
    task: str | None = None  # that the policy was trained for; servers of earlier versions do not say

    def __post_init__(self) -> None:
        for name in ("action_hz", "policy_hz"):
            if not 0 < getattr(self, name) < math.inf:
                raise WireError(f"metadata: {name} must be positive, got {getattr(self, name)}")
        for name in ("horizon", "action_dim", "state_dim", "image_size"):
            if getattr(self, name) < 1:
                raise WireError(f"metadata: {name} must be positive, got {getattr(self, name)}")
        if not self.cameras:
            raise WireError("metadata: there must be at least one camera")

    def to_message(self) -> dict[str, Any]:
        return to_json(self)

    @classmethod
    def from_message(cls, message: object) -> "ServerMetadata":
        """Metadata from a received message. Unknown keys are ignored, because a newer server may send more."""
        if not isinstance(message, Mapping):
            raise WireError(f"metadata must be a map, got {type(message).__name__}")
        names = [field.name for field in fields(cls)]
        missing = [field.name for field in fields(cls) if field.default is MISSING and field.name not in message]
        if missing:
            raise WireError(f"the server's metadata lack {', '.join(missing)}: it is not a server of this project")
        return from_json(cls, {name: message[name] for name in names if name in message}, "metadata: ", WireError)
