"""The words everything else is said in: sources, tasks, cameras, sides."""

import difflib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from egorecovery.errors import EpisodeError

HIDDEN_EMBODIMENT = "hidden_embodiment"  # in an episode's details: arms and hands are removed from its pictures
PICTURE_FIT = "picture_fit"  # in an episode's details: the rule that its pictures went through (capture/picture_fit.py)
RECOVERY_PROPOSAL = "recovery_proposal"  # in an episode's details: {"end_s": ...}, where its data marks the recovery
RATE_HZ = 25.0  # every episode, after import (paper, recording setup)
STATE_DIM = 14  # robot: 6 joints + gripper per arm; human: x y z rx ry rz aperture per hand
EFFECTORS = 2  # left, right
EFFECTOR_DIM = 20  # position, opening axis, approach axis and opening per effector

EpisodeId = NewType("EpisodeId", str)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def episode_id(text: str) -> EpisodeId:
    """A name that is safe as a directory on every file system."""
    if not _ID.fullmatch(text):
        raise EpisodeError(f"episode id {text!r} must be 1-128 letters, digits, '_', '-' or '.', not starting with '.'")
    return EpisodeId(text)


def is_episode_id(text: str) -> bool:
    return bool(_ID.fullmatch(text))


class Embodiment(StrEnum):
    ROBOT = "robot"
    HUMAN = "human"


class Phase(StrEnum):
    SUCCESS = "success"
    RECOVERY = "recovery"


class Source(StrEnum):
    """The paper's four kinds of demonstration."""

    ROBOT_SUCCESS = "robot_success"
    ROBOT_RECOVERY = "robot_recovery"
    HUMAN_SUCCESS = "human_success"
    HUMAN_RECOVERY = "human_recovery"

    @property
    def embodiment(self) -> Embodiment:
        return Embodiment(self.value.split("_")[0])

    @property
    def phase(self) -> Phase:
        return Phase(self.value.split("_")[1])

    @property
    def is_recovery(self) -> bool:
        return self.phase is Phase.RECOVERY

    @property
    def is_human(self) -> bool:
        return self.embodiment is Embodiment.HUMAN


class Side(StrEnum):
    LEFT = "left"
    RIGHT = "right"

    @property
    def effector(self) -> int:
        """Index on the effector axis of `effector_m`."""
        return 0 if self is Side.LEFT else 1


class Camera(StrEnum):
    HEAD = "head"
    LEFT_WRIST = "left_wrist"
    RIGHT_WRIST = "right_wrist"

    @property
    def side(self) -> Side | None:
        """The arm that carries it; None for the head."""
        return {Camera.LEFT_WRIST: Side.LEFT, Camera.RIGHT_WRIST: Side.RIGHT}.get(self)


@dataclass(frozen=True)
class Task:
    """A task and its active sides: those whose motion is the correction. Labs add their own by name."""

    name: str
    active: tuple[Side, ...]

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", self.name):
            raise EpisodeError(f"task name {self.name!r} must be lower case letters, digits and '_'")
        if not self.active or len(set(self.active)) != len(self.active):
            raise EpisodeError(f"task {self.name!r} must name one or two different active sides, got {self.active}")

    @property
    def active_effectors(self) -> tuple[int, ...]:
        return tuple(side.effector for side in self.active)


# Active arms: the brush and the broom are in the left hand, the disk in the right (paper, off-nominal starts);
# cube stacking uses one unnamed arm there, the right one here.
CUP_BRUSH = Task("cup_brush", (Side.LEFT,))
TABLE_SWEEP = Task("table_sweep", (Side.LEFT,))
ROUND_DISK = Task("round_disk", (Side.RIGHT,))
CUBE_STACK = Task("cube_stack", (Side.RIGHT,))
PAPER_TASKS = {task.name: task for task in (CUP_BRUSH, TABLE_SWEEP, ROUND_DISK, CUBE_STACK)}


def task_named(name: str, active: tuple[Side, ...] = ()) -> Task:
    """A task of the paper by name, or one's own when its active sides are given."""
    if active:
        return Task(name, active)
    if name not in PAPER_TASKS:
        near = difflib.get_close_matches(name, PAPER_TASKS, n=1)
        hint = f"did you mean {near[0]}? For a task of your own" if near else "for a task of your own"
        raise EpisodeError(
            f"task {name!r} is not one of {', '.join(PAPER_TASKS)}; {hint} name its active sides: --active left, right "
            "or both"
        )
    return PAPER_TASKS[name]
