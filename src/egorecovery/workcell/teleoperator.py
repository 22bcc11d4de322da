"""A person at the leader arms: turns scripts into joint targets for the robot, and stages its starts."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator

from egorecovery.episodes import RATE_HZ, Side
from egorecovery.errors import EgoRecoveryError
from egorecovery.workcell.arm import ARM_JOINTS, OPENING_M
from egorecovery.workcell.kinematics import ArmKinematics, ToolPose, home_rad
from egorecovery.workcell.maneuver import CorrectionDone, Script
from egorecovery.workcell.objects import put
from egorecovery.workcell.robot import RobotCell
from egorecovery.workcell.scene import TaskScene
from egorecovery.workcell.trajectory import TELEOPERATOR, HandTarget, Style, leg

REACHED_M, REACHED_RAD = 0.004, 0.05  # how far a path may leave the wanted pose before the arm counts as out of reach
Tick = Callable[[Float[ndarray, "14"]], None]


class OutOfReach(EgoRecoveryError):
    """A demonstration that the arm cannot follow; it is discarded like any failed attempt."""


class Teleoperator:
    """Implements `World` and `Stage` for the robot. `on_tick` is called with each action before it is executed."""

    def __init__(
        self, robot: RobotCell, scene: TaskScene, style: Style = TELEOPERATOR, step: Tick | None = None
    ) -> None:
        self.robot, self.scene, self.style = robot, scene, style
        self._step = step or robot.step  # a recorder steps through the judge
        self.noise_rad = 0.0  # executed on top of the recorded action: widens the band of states the data covers
        self._arms = {side: ArmKinematics(side) for side in Side}
        self._joints = {side: home_rad(side) for side in Side}
        self._hands: dict[Side, HandTarget] = {}
        self.take_over()

    @property
    def world(self) -> "Teleoperator":
        return self

    def take_over(self) -> None:
        """Start from wherever the robot was last told to be."""
        target = self.robot.target().reshape(2, ARM_JOINTS + 1)
        for side in Side:
            self._joints[side] = target[side.effector, :ARM_JOINTS]
            pose = self._arms[side].tool_pose(self._joints[side])
            self._hands[side] = HandTarget(pose, float(target[side.effector, ARM_JOINTS]))

    def facts(self) -> Any:
        return self.scene.facts(self.robot.model, self.robot.data)

    def tool(self, side: Side) -> ToolPose:
        return self._hands[side].pose

    def opening_01(self, side: Side) -> float:
        return self._hands[side].opening_01

    def demonstrate(
        self, script: Script, rng: Generator, on_tick: Tick, on_correction_done: Callable[[], None]
    ) -> None:
        """Carries a script out to its end."""
        drift = np.zeros(2 * (ARM_JOINTS + 1))
        for wanted in script:
            if isinstance(wanted, CorrectionDone):
                on_correction_done()
                continue
            for hands in leg(self._hands, wanted, self.style, rng):
                action = self._solve(hands)
                on_tick(action)
                drift = self._wander(drift, rng)
                self._step(action + drift)

    def _wander(self, drift: Float[ndarray, "14"], rng: Generator) -> Float[ndarray, "14"]:
        """Slow noise on the joints, none on the grippers."""
        if self.noise_rad == 0.0:
            return drift
        fresh = rng.normal(0, self.noise_rad, len(drift))
        fresh[[ARM_JOINTS, -1]] = 0.0
        return 0.9 * drift + np.sqrt(1 - 0.9**2) * fresh

    def _solve(self, hands: dict[Side, HandTarget]) -> Float[ndarray, "14"]:
        action = []
        for side in Side:
            wanted, known = hands[side], self._hands[side]
            if wanted.pose is not known.pose:
                found = self._arms[side].solve(wanted.pose, self._joints[side])
                if not found.reached(REACHED_M, REACHED_RAD):
                    raise OutOfReach(
                        f"{side} arm: {np.round(wanted.pose.position_m, 3)} m is missed by "
                        f"{found.position_error_m * 1000:.0f} mm and {np.rad2deg(found.rotation_error_rad):.0f} degrees"
                    )
                self._joints[side] = found.joints_rad
            action.append(np.append(self._joints[side], wanted.opening_01))
        self._hands = hands
        return np.concatenate(action)

    # The stage: a start is made by placing things, and by attempts that fail.

    def put(self, body: str, position_m: Any, quaternion_wxyz: Any = (1, 0, 0, 0)) -> None:
        put(self.robot.model, self.robot.data, body, np.asarray(position_m, float), np.asarray(quaternion_wxyz, float))
        self.robot.refresh()

    def place(self, side: Side, pose: ToolPose, opening_01: float = 1.0) -> None:
        found = self._arms[side].search(pose)
        if not found.reached(REACHED_M, REACHED_RAD):
            raise OutOfReach(f"{side} arm cannot be placed at {np.round(pose.position_m, 3)} m")
        self._joints[side] = found.joints_rad
        self._hands[side] = HandTarget(pose, opening_01)
        self._place(side, np.append(found.joints_rad, opening_01))

    def hold(self, side: Side, body: str, width_m: float) -> None:
        """The fingers are set to touch the object, then squeeze: nothing falls while they close."""
        self._place(side, np.append(self._joints[side], width_m / OPENING_M))
        self._hands[side] = HandTarget(self._hands[side].pose, 0.0, width_m)
        self.settle(0.4)

    def _place(self, side: Side, arm: Float[ndarray, "7"]) -> None:
        """One arm; the other stays as it is, its fingers around what they hold."""
        joints, target = (
            vector.reshape(2, ARM_JOINTS + 1) for vector in (self.robot.proprioception(), self.robot.target())
        )
        joints[side.effector] = target[side.effector] = arm
        self.robot.place(joints.ravel(), target.ravel())

    def perform(self, script: Script) -> None:
        # Staging is part of the start, so its small variations must not depend on the demonstrator's.
        self.demonstrate(script, np.random.default_rng(0), lambda action: None, lambda: None)

    def settle(self, seconds: float) -> None:
        action = self._solve(dict(self._hands))
        for _ in range(round(seconds * RATE_HZ)):
            self.robot.step(action)
