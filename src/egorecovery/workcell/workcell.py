"""The benchmark environment: reset to a start, step with joint targets, observe on demand, judge."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from numpy import ndarray

from egorecovery.episodes import Camera
from egorecovery.errors import EgoRecoveryError
from egorecovery.workcell.appearance import Room
from egorecovery.workcell.arena import build_arena
from egorecovery.workcell.clutter import scatter, with_clutter
from egorecovery.workcell.kinematics import HOME
from egorecovery.workcell.physics import PhysicsDiverged, PhysicsState
from egorecovery.workcell.render import Cameras
from egorecovery.workcell.robot import RobotCell
from egorecovery.workcell.rules import Judge, Outcome, Protocol, Result
from egorecovery.workcell.scene import TaskScene
from egorecovery.workcell.starts import Start
from egorecovery.workcell.teleoperator import Teleoperator


class StagingFailed(EgoRecoveryError):
    """A start that could not be staged. Sample another one."""


@dataclass(frozen=True, eq=False)
class Observation:
    """The policy's input: pictures and joints, without simulator state."""

    images: Mapping[Camera, UInt8[ndarray, "H W 3"]]
    state: Float[ndarray, "14"]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a rollout that can be resumed, bit for bit."""

    physics: PhysicsState
    judge: dict[str, Any]


class Workcell:
    """One task with the robot. Compiled once, reset often. Renders only in `observe`."""

    def __init__(
        self,
        scene: TaskScene,
        *,
        protocol: Protocol | None = None,
        image_size: int = 96,
        image_width: int | None = None,
        clutter: bool = False,
        hidden_embodiment: bool = False,
    ) -> None:
        self.scene = scene
        self.protocol = protocol or Protocol()
        self.image_size, self.image_width = image_size, image_width
        self.clutter = clutter
        self.hidden_embodiment = hidden_embodiment  # pictures without arms, see hidden_embodiment.py
        self.robot = RobotCell(build_arena(with_clutter(scene.add_objects) if clutter else scene.add_objects))
        self._room = Room(self.robot.model)
        self._cameras: Cameras | None = None
        self._judge = Judge(self.protocol, HOME)
        self._first: Any = None

    def reset(self, start: Start) -> None:
        """Stages a start and checks it."""
        self.robot.reset()
        self._room.dress(start.appearance)
        teleoperator = Teleoperator(self.robot, self.scene)
        if self.clutter:
            scatter(self.robot.model, self.robot.data, np.random.default_rng([start.appearance, 0xC1]))
        self.scene.stage(teleoperator, start)
        self.robot.data.time = 0.0
        self._first = self.facts()
        invalid_reason = self.scene.invalid_reason(self._first, start)
        if invalid_reason is not None:
            raise StagingFailed(f"{start.task} {start.kind} ({start.mode}): {invalid_reason}")
        self._judge = Judge(self.protocol, HOME)

    def step(self, action: Float[ndarray, "14"]) -> Outcome | None:
        """One 40 ms step. Returns the outcome once there is one. Diverged physics is a failed rollout, not a crash."""
        try:
            self.robot.step(action)
        except PhysicsDiverged as error:
            return Outcome(Result.FAILURE, f"physics diverged: {error}", self._judge.frame + 1)
        facts = self.facts()
        return self._judge.watch(
            goal=self.scene.goal(facts),
            terminal=self.scene.terminal(facts, self._first),
            joints=self.robot.proprioception(),
        )

    def observe(self) -> Observation:
        return Observation(self.cameras.render_all(self.robot.data), self.robot.proprioception())

    @property
    def cameras(self) -> Cameras:
        if self._cameras is None:
            self._cameras = Cameras(
                self.robot.model, self.image_size, self.hidden_embodiment, width_px=self.image_width
            )
        return self._cameras

    def facts(self) -> Any:
        return self.scene.facts(self.robot.model, self.robot.data)

    def target_objects_m(self) -> Float[ndarray, "3"]:
        """The centre of the objects that a policy must find."""
        robot = self.robot
        return np.mean([robot.data.xpos[robot.model.body(name).id] for name in self.scene.target_objects], axis=0)

    def save(self) -> Checkpoint:
        return Checkpoint(self.robot.save(), dict(vars(self._judge)))

    def restore(self, checkpoint: Checkpoint) -> None:
        """Resumes a saved rollout exactly. It must have had the same start."""
        self.robot.restore(checkpoint.physics)
        vars(self._judge).update(checkpoint.judge)

    def close(self) -> None:
        if self._cameras is not None:
            self._cameras.close()
            self._cameras = None

    def __enter__(self) -> "Workcell":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
