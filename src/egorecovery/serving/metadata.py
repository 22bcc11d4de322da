"""The first message of a connection: the server's inputs and outputs, so that a client can refuse a mismatch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from egorecovery.errors import WireError

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
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**record, "cameras": [str(camera) for camera in self.cameras]}

    @classmethod
    def from_message(cls, message: object) -> "ServerMetadata":
        """Metadata from a received message. Unknown keys are ignored, because a newer server may send more."""
        if not isinstance(message, Mapping):
            raise WireError(f"metadata must be a map, got {type(message).__name__}")
        missing = [field.name for field in fields(cls) if field.name not in message]
        if missing:
            raise WireError(f"the server's metadata lack {', '.join(missing)}: it is not a server of this project")
        return cls(**{field.name: _checked(field.name, message[field.name]) for field in fields(cls)})


_CHOICES: dict[str, tuple[str, ...]] = {"action_space": get_args(AnswerSpace), "picture_fit": get_args(Fit)}
_NUMBERS: dict[str, tuple[type, ...]] = {
    "action_hz": (int, float),
    "policy_hz": (int, float),
    **dict.fromkeys(("horizon", "action_dim", "state_dim", "image_size"), (int,)),
    "hidden_embodiment": (bool,),
}


def _checked(name: str, value: Any) -> Any:
    if name == "cameras":
        if not isinstance(value, list | tuple) or not all(isinstance(camera, str) for camera in value):
            raise WireError(f"metadata: cameras must be a list of names, got {value!r:.60}")
        return tuple(value)
    if name in _NUMBERS:
        kinds = _NUMBERS[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise WireError(f"metadata: {name} must be {kinds[-1].__name__}, got {value!r:.60}")
        return kinds[-1](value)
    if not isinstance(value, str) or value not in _CHOICES.get(name, (value,)):
        wanted = " or ".join(_CHOICES.get(name, ("text",)))
        raise WireError(f"metadata: {name} must be {wanted}, got {value!r:.60}")
    return value
