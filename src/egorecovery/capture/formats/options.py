"""Options of each format. Few imports, because the command line's help loads it."""

from dataclasses import dataclass
from typing import Literal

Format = Literal["recordings", "aloha", "lerobot", "egoverse"]


@dataclass(frozen=True, kw_only=True)
class AlohaOptions:
    """ALOHA only."""

    rate_hz: float = 50.0
    """Samples per second, which the files do not say."""
    channel_order: Literal["rgb", "bgr"] = "rgb"
    """Order of the colours in the files; look at the dry run's sheet."""


@dataclass(frozen=True, kw_only=True)
class LeRobotOptions:
    """LeRobot only."""

    state_key: str = "observation.state"
    """The feature that is the robot's state, 14 numbers."""
    action_key: str = "action"
    """The feature that is the robot's action, 14 numbers."""
    joint_columns: tuple[int, ...] = ()
    """For features of another size, the 14 columns that are left joints, left gripper, right joints, right
    gripper."""
    intervention_key: str = ""
    """The feature that marks interventions, if it is not called intervention."""
    interventions: Literal["propose", "cut"] = "propose"
    """The end of the first intervention is proposed as the recovery boundary; cut also leaves out what came
    before it."""


@dataclass(frozen=True, kw_only=True)
class EgoVerseOptions:
    """EgoVerse only."""

    keypoint_order: Literal["aria", "openpose", "mano"] = "aria"
    """How the 21 points of a hand are numbered."""


Options = AlohaOptions | LeRobotOptions | EgoVerseOptions
