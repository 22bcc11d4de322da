"""A teleoperator at the leader arms: turns scripts into joint targets for the robot, and stages its starts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator
from scipy.spatial.transform import Rotation

from egorecovery.episodes import RATE_HZ, Side
from egorecovery.errors import EgoRecoveryError
from egorecovery.workcell.arm import ARM_JOINTS, OPENING_M
from egorecovery.workcell.kinematics import ArmKinematics, ToolPose, home_rad
from egorecovery.workcell.maneuver import CorrectionDone, Reach, Script, Waypoint
from egorecovery.workcell.objects import put
from egorecovery.workcell.robot import RobotCell
from egorecovery.workcell.scene import TaskScene
from egorecovery.workcell.trajectory import TELEOPERATOR, HandTarget, Style, eased, leg

REACHED_M, REACHED_RAD = 0.004, 0.05  # larger errors from the wanted pose count as out of reach
Tick = Callable[[Float[ndarray, "14"]], None]


class OutOfReach(EgoRecoveryError):
    """A demonstration that the arm cannot follow. It is discarded like any failed attempt."""


@dataclass(frozen=True, kw_only=True)
class Aim:
    """Offsets between the executed and the recorded motion.

    A hand that is always at the target teaches a policy to infer the target from its own joints and to repeat its
    mistakes. A hand that arrives beside the target and then aligns teaches it to look.
    """

    miss_m: float = 0.0  # sideways at the end of a free leg, standard deviation; half as much with an object in hand
    miss_rad: float = 0.0  # about the vertical, likewise
    align_s: float = 0.4  # time to align afterwards
    tremble_rad: float = 0.0  # per joint, at the end of a straight leg


class Teleoperator:
    """Implements `World` and `Stage` for the robot. `on_tick` gets each action before it is executed."""

    def __init__(
        self, robot: RobotCell, scene: TaskScene, style: Style = TELEOPERATOR, step: Tick | None = None
    ) -> None:
        self.robot, self.scene, self.style = robot, scene, style
        self._step = step or robot.step  # recorders pass a step that also judges
        self.aim = Aim()
        self._arms = {side: ArmKinematics(side) for side in Side}
        self._joints = {side: home_rad(side) for side in Side}
        self._hands: dict[Side, HandTarget] = {}
        self.take_over()

    @property
    def world(self) -> "Teleoperator":
        return self

    def take_over(self) -> None:
        """Starts from the robot's last commanded pose."""
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
        """Executes a script."""
        off = np.zeros(2 * (ARM_JOINTS + 1))
        for wanted in script:
            if isinstance(wanted, CorrectionDone):
                on_correction_done()
                continue
            path = list(leg(self._hands, wanted, self.style, rng))
            aligned = self._trembling(off, wanted, rng)
            if wanted.straight or not (self.aim.miss_m or self.aim.miss_rad):
                self._follow(path, off, aligned, on_tick)
            else:
                missed = self._missing(aligned, wanted, rng)
                self._follow(path, off, missed, on_tick)
                self._follow([path[-1]] * round(self.aim.align_s * RATE_HZ), missed, aligned, on_tick)
            off = aligned

    def _follow(
        self,
        path: list[dict[Side, HandTarget]],
        off: Float[ndarray, "14"],
        next_off: Float[ndarray, "14"],
        on_tick: Tick,
    ) -> None:
        """Executes a path tick by tick. Executed and recorded motion differ by a start offset and an end offset."""
        for tick, hands in enumerate(path, start=1):
            action = self._solve(hands)
            on_tick(action)
            self._step(action + off + eased(tick / len(path)) * (next_off - off))

    def _trembling(self, off: Float[ndarray, "14"], wanted: Waypoint, rng: Generator) -> Float[ndarray, "14"]:
        """A small offset of the moving arms. Other arms keep theirs; grippers have none."""
        drawn = rng.normal(0, self.aim.tremble_rad, (2, ARM_JOINTS + 1))
        drawn[:, ARM_JOINTS] = 0.0
        resting = [side.effector for side in Side if side not in wanted.reaches]
        drawn[resting] = off.reshape(2, ARM_JOINTS + 1)[resting]
        return drawn.ravel()

    def _missing(self, aligned: Float[ndarray, "14"], wanted: Waypoint, rng: Generator) -> Float[ndarray, "14"]:
        """The offset in joints of hands that arrive beside or above their targets, never below."""
        missed = aligned.reshape(2, ARM_JOINTS + 1).copy()
        for side, reach in wanted.reaches.items():
            beside_m = self.aim.miss_m * np.clip(rng.normal(0, 1, 3), -2, 2) * [1.0, 1.0, 0.5]
            beside_m[2] = abs(beside_m[2])
            there = self._arms[side].solve(reach.pose, self._joints[side])
            off_m = reach.pose.position_m + beside_m * (0.5 if reach.holds_m else 1.0)
            turned = self._turned(reach, rng) if self.aim.miss_rad else reach.pose.rotation
            beside = self._arms[side].solve(ToolPose(off_m, turned), there.joints_rad)
            if there.reached(REACHED_M, REACHED_RAD) and beside.reached(REACHED_M, REACHED_RAD):
                missed[side.effector, :ARM_JOINTS] += beside.joints_rad - there.joints_rad
        return missed.ravel()

    def _turned(self, reach: Reach, rng: Generator) -> Rotation:
        off_rad = self.aim.miss_rad * float(np.clip(rng.normal(), -2, 2)) * (0.5 if reach.holds_m else 1.0)
        return Rotation.from_euler("z", off_rad) * reach.pose.rotation

    def _solve(self, hands: dict[Side, HandTarget]) -> Float[ndarray, "14"]:
        action = []
        for side in Side:
            wanted, known = hands[side], self._hands[side]
            if wanted.pose is not known.pose:
                solution = self._arms[side].solve(wanted.pose, self._joints[side])
                if not solution.reached(REACHED_M, REACHED_RAD):
                    raise OutOfReach(
                        f"{side} arm: {np.round(wanted.pose.position_m, 3)} m is missed by "
                        f"{solution.position_error_m * 1000:.0f} mm and "
                        f"{np.rad2deg(solution.rotation_error_rad):.0f} degrees"
                    )
                self._joints[side] = solution.joints_rad
            action.append(np.append(self._joints[side], wanted.opening_01))
        self._hands = hands
        return np.concatenate(action)

    # `Stage`: starts are made by placing objects and by failing attempts.

    def put(self, body: str, position_m: Any, quaternion_wxyz: Any = (1, 0, 0, 0)) -> None:
        put(self.robot.model, self.robot.data, body, np.asarray(position_m, float), np.asarray(quaternion_wxyz, float))
        self.robot.refresh()

    def place(self, side: Side, pose: ToolPose, opening_01: float = 1.0) -> None:
        solution = self._arms[side].find(pose)
        if not solution.reached(REACHED_M, REACHED_RAD):
            raise OutOfReach(f"{side} arm cannot be placed at {np.round(pose.position_m, 3)} m")
        self._joints[side] = solution.joints_rad
        self._hands[side] = HandTarget(pose, opening_01)
        self._place(side, np.append(solution.joints_rad, opening_01))

    def hold(self, side: Side, body: str, width_m: float) -> None:
        """Sets the fingers to touch the object, then squeezes, so that nothing falls while they close."""
        self._place(side, np.append(self._joints[side], width_m / OPENING_M))
        self._hands[side] = HandTarget(self._hands[side].pose, 0.0, width_m)
        self.settle(0.4)

    def _place(self, side: Side, arm: Float[ndarray, "7"]) -> None:
        """Places one arm. The other stays as it is, with its grip."""
        joints, target = (
            vector.reshape(2, ARM_JOINTS + 1) for vector in (self.robot.proprioception(), self.robot.target())
        )
        joints[side.effector] = target[side.effector] = arm
        self.robot.place(joints.ravel(), target.ravel())

    def perform(self, script: Script) -> None:
        # Staging is part of the start, so its variations must not depend on the demonstrator's.
        self.demonstrate(script, np.random.default_rng(0), lambda action: None, lambda: None)

    def settle(self, seconds: float) -> None:
        action = self._solve(dict(self._hands))
        for _ in range(round(seconds * RATE_HZ)):
            self.robot.step(action)
