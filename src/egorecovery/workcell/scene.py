"""What a task brings to the workcell. A task of one's own implements this and nothing else."""

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
    """How a scene puts itself into a start, whoever works there. Every call leaves the scene at rest."""

    def put(self, body: str, position_m: Any, quaternion_wxyz: Any = (1, 0, 0, 0)) -> None:
        """Place a free object."""
        ...

    def place(self, side: Side, pose: ToolPose, opening_01: float = 1.0) -> None:
        """Put a hand somewhere without moving there."""
        ...

    def hold(self, side: Side, body: str, width_m: float) -> None:
        """Close the hand on an object that lies between its fingers."""
        ...

    def perform(self, script: Script) -> None:
        """Carry out a (failing) attempt, so that the failure state is one that physics made."""
        ...

    def settle(self, seconds: float) -> None:
        """Let go of time, hands held."""
        ...

    @property
    def world(self) -> World[Any]:
        """For scripts that `perform` runs."""
        ...


@runtime_checkable
class TaskScene(Protocol):
    """One task: its objects, its starts, its rules, its demonstrations."""

    task: Task
    graspable: tuple[str, ...]  # bodies that a hand can hold
    target_objects: tuple[str, ...]  # bodies that a policy must find; the middle of them is recorded as simulator truth
    modes: ClassVar[Mapping[str, float]]  # failure modes and how often each is drawn
    # Small misses that policies themselves make on the way, and how often each is drawn: for collection only, as an
    # option; evaluation starts from `modes`. Empty where there are none.
    near_misses: ClassVar[Mapping[str, float]]

    def add_objects(self, spec: MjSpec) -> None:
        """Bodies, geoms and materials, with names of the task's own."""
        ...

    def draw_initial(self, rng: Generator) -> Start:
        """A nominal start."""
        ...

    def draw_failure(self, rng: Generator, mode: str) -> Start:
        """A start of the failure family, anywhere in it; or one of the near misses."""
        ...

    def failure_descriptor(self, failure: Start) -> Float[ndarray, " G"]:
        """The few numbers that tell a failure from others of its mode; near ones are alike."""
        ...

    def stage(self, stage: Stage, start: Start) -> None:
        """Bring the scene into a start."""
        ...

    def facts(self, model: MjModel, data: MjData) -> Any:
        """All that the rules look at, and nothing else of the simulator."""
        ...

    def goal(self, facts: Any) -> bool:
        """The goal state, at this instant."""
        ...

    def terminal(self, facts: Any, first: Any) -> str | None:
        """A failure that no retry can mend, in words; `first` are the facts at the start."""
        ...

    def invalid_reason(self, facts: Any, start: Start) -> str | None:
        """Why a staged scene is not the start it should be; None when it is."""
        ...

    def succeed(self, world: World[Any], rng: Generator) -> Script:
        """The nominal demonstration."""
        ...

    def recover(self, world: World[Any], rng: Generator) -> Script:
        """From a failure: correct it, say so, finish the task."""
        ...
