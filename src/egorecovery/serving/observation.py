"""A robot's observation, checked, from a decoded wire message."""

# A joints and grippers, H W height and width of a picture

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from egorecovery.errors import ServingError
from egorecovery.serving.metadata import ALOHA_CAMERAS, IGNORED_CAMERAS

LARGEST_SIDE_PX = 4096


@dataclass(frozen=True, kw_only=True, eq=False)
class Observation:
    """One observation, with pictures in the order of the policy's cameras."""

    state_A: np.ndarray  # float64: six joint angles and a gripper per arm, left arm first
    pictures: tuple[np.ndarray, ...]  # uint8 (H, W, 3) each, of the robot's own size


@dataclass(frozen=True, kw_only=True)
class CameraNames:
    """Maps picture names on the wire to the policy's cameras."""

    cameras: tuple[str, ...]  # the policy's
    names: Mapping[str, str] = field(default_factory=dict)  # additional wire names, to the policy's names

    def __post_init__(self) -> None:
        known = {*self.cameras, *ALOHA_CAMERAS.values()}
        for name, camera in self.names.items():
            if camera not in known:
                raise ServingError(f"camera '{name}' is mapped to '{camera}'; known are {', '.join(sorted(known))}")

    def chosen(self, images: Mapping[str, object]) -> tuple[object, ...]:
        """The policy's pictures in its order. Unknown names are refused, because one may be a typing error."""
        known = {**{camera: camera for camera in self.cameras}, **ALOHA_CAMERAS, **self.names}
        pictures: dict[str, object] = {}
        for name, picture in images.items():
            if name in IGNORED_CAMERAS and name not in self.names:
                continue
            if name not in known:
                raise ServingError(f"there is no camera '{name:.60}'; {self._wanted()}")
            if known[name] in pictures:
                raise ServingError(f"two pictures are of camera '{known[name]}'; {self._wanted()}")
            pictures[known[name]] = picture
        missing = [camera for camera in self.cameras if camera not in pictures]
        if missing:
            raise ServingError(f"the observation lacks camera '{missing[0]}'; {self._wanted()}")
        return tuple(pictures[camera] for camera in self.cameras)

    def _wanted(self) -> str:
        aloha = {camera: name for name, camera in ALOHA_CAMERAS.items()}
        named = [f"{camera} (or {aloha[camera]})" if camera in aloha else camera for camera in self.cameras]
        return f"the policy's cameras are {', '.join(named)}; map other names with the server's --camera"


def observation_of(message: object, cameras: CameraNames, state_dim: int) -> Observation:
    """A checked observation from a message. Other keys, such as `prompt`, are ignored."""
    if not isinstance(message, Mapping):
        raise ServingError(f"an observation must be a map with 'state' and 'images', got {type(message).__name__}")
    images = message.get("images")
    if not isinstance(images, Mapping) or not all(isinstance(name, str) for name in images):
        raise ServingError("an observation must have 'images', a map from camera names to pictures")
    pictures = cameras.chosen(images)
    return Observation(
        state_A=_state(message.get("state"), state_dim),
        pictures=tuple(_picture(picture, name) for name, picture in zip(cameras.cameras, pictures, strict=True)),
    )


def _state(state: object, state_dim: int) -> np.ndarray:
    if not isinstance(state, np.ndarray) or state.dtype.kind not in "iuf" or state.shape != (state_dim,):
        got = f"{state.dtype} {state.shape}" if isinstance(state, np.ndarray) else type(state).__name__
        raise ServingError(
            f"'state' must be an array of {state_dim} numbers (six joint angles in radians and a gripper 0..1 per arm, "
            f"left arm first), got {got}"
        )
    state_A = state.astype(np.float64)
    if not np.isfinite(state_A).all():
        raise ServingError(f"'state' has a value that is not finite, at {int(np.argmin(np.isfinite(state_A)))}")
    return state_A


def _picture(picture: object, camera: str) -> np.ndarray:
    if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.ndim != 3:
        got = f"{picture.dtype} {picture.shape}" if isinstance(picture, np.ndarray) else type(picture).__name__
        raise ServingError(f"the picture of '{camera}' must be uint8 (H, W, 3) or (3, H, W), got {got}")
    if picture.shape[2] == 3:
        found_HW3 = picture
    elif picture.shape[0] == 3:
        found_HW3 = picture.transpose(1, 2, 0)
    else:
        raise ServingError(f"the picture of '{camera}' must be uint8 (H, W, 3) or (3, H, W), got {picture.shape}")
    if not all(1 <= side <= LARGEST_SIDE_PX for side in found_HW3.shape[:2]):
        raise ServingError(
            f"the picture of '{camera}' must have sides of 1..{LARGEST_SIDE_PX} pixels, got {found_HW3.shape[:2]}"
        )
    return found_HW3
