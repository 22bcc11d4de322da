"""The interface of a task's scene. Your own task implements this and nothing else."""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator

from egorecovery.episodes import Side, Task
from egorecovery.workcell.kinematics import ToolPose
from egorecovery.workcell.maneuver import Script, World
from egorecovery.workcell.physics import MjData, MjModel, MjSpec
from egorecovery.workcell.starts import Start

OBJECT_M = "object_m"  # in `provenance.details`: the middle of the target objects, one x y z per frame, workspace frame


@runtime_checkable
class Stage(Protocol):
    """Operations with which a scene stages a start, for any embodiment. Every call leaves the scene at rest."""

    def put(self, body: str, position_m: Any, quaternion_wxyz: Any = (1, 0, 0, 0)) -> None:
        """Place a free object."""
        ...

    def place(self, side: Side, pose: ToolPose, opening_01: float = 1.0) -> None:
        """Put a hand at a pose without motion."""
        ...

    def hold(self, side: Side, body: str, width_m: float) -> None:
        """Close the hand on an object that lies between its fingers."""
        ...

    def perform(self, script: Script) -> None:
        """Execute a failing attempt, so that the failure state results from physics."""
        ...

    def settle(self, seconds: float) -> None:
        """Let time pass with the hands still."""
        ...

    @property
    def world(self) -> World[Any]:
        """The world, for scripts that `perform` runs."""
        ...


@runtime_checkable
class TaskScene(Protocol):
    """One task: its objects, its starts, its rules, its demonstrations."""

    task: Task
    graspable: tuple[str, ...]  # bodies that a hand can hold
    target_objects: tuple[str, ...]  # bodies that a policy must find; their centre is recorded as simulator truth
    modes: ClassVar[Mapping[str, float]]  # failure modes and their probabilities
    # Small misses that policies make, and their probabilities. An option for collection only; evaluation uses `modes`.
    near_misses: ClassVar[Mapping[str, float]]

    def add_objects(self, spec: MjSpec) -> None:
        """Add the task's bodies, geoms and materials."""
        ...

    def draw_initial(self, rng: Generator) -> Start:
        """A nominal start."""
        ...

    def draw_failure(self, rng: Generator, mode: str) -> Start:
        """A random start of a failure mode or near miss."""
        ...

    def failure_descriptor(self, failure: Start) -> Float[ndarray, " G"]:
        """A few numbers that describe a failure within its mode. Similar failures have similar numbers."""
        ...

    def stage(self, stage: Stage, start: Start) -> None:
        """Stage a start."""
        ...

    def facts(self, model: MjModel, data: MjData) -> Any:
        """All inputs of the rules, and nothing else of the simulator."""
        ...

    def goal(self, facts: Any) -> bool:
        """Whether the current state is the goal state."""
        ...

    def terminal(self, facts: Any, first: Any) -> str | None:
        """A description of a failure that no retry can repair, or None. `first` are the facts at the start."""
        ...

    def invalid_reason(self, facts: Any, start: Start) -> str | None:
        """Why a staged scene does not match its start, or None."""
        ...

    def succeed(self, world: World[Any], rng: Generator) -> Script:
        """The script of the nominal demonstration."""
        ...

    def recover(self, world: World[Any], rng: Generator) -> Script:
        """The script from a failure: correct it, mark the end of the correction, finish the task."""
        ...
