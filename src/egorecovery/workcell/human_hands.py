"""A person at the table: turns scripts into hand motion, and stages starts like the teleoperator of the robot."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from numpy.random import Generator

from egorecovery.episodes import RATE_HZ, Side
from egorecovery.workcell import physics
from egorecovery.workcell.arena import build_arena
from egorecovery.workcell.arm import OPENING_M
from egorecovery.workcell.grip import add_welds, let_go, pinch_name, take_hold, within_grasp
from egorecovery.workcell.hand import WIDEST_M, add_hands, hand_keypoints_m, pose_hand, wrist_pose
from egorecovery.workcell.kinematics import ToolPose, pointing_down
from egorecovery.workcell.maneuver import CorrectionDone, Script, Waypoint
from egorecovery.workcell.objects import put
from egorecovery.workcell.physics import MjData, MjModel, MjSpec, mujoco
from egorecovery.workcell.robot import SUBSTEPS
from egorecovery.workcell.scene import TaskScene
from egorecovery.workcell.trajectory import PERSON, HandTarget, Style, leg
from egorecovery.workcell.tremor import Tremor

# Rest positions of the pinch points: the lower corners of the head view, like the robot's grippers.
HOME_M = {Side.LEFT: (-0.075, 0.13, 0.06), Side.RIGHT: (-0.075, -0.13, 0.06)}
ELBOW_M = {Side.LEFT: (-0.45, 0.32, 0.14), Side.RIGHT: (-0.45, -0.32, 0.14)}
# Trackers reject 30 mm between two samples as a jump (0.9 m/s at 30 Hz), and add noise of their own.
WRIST_LIMIT_MPS = 0.55
GRASP_WITHIN_M = 0.02  # from the pinch point to the grasped surface; a tube is grasped from inside
ALONG_TICK = np.arange(1, SUBSTEPS + 1) / SUBSTEPS
SLACK_M = 0.001  # fingers nearer than this have closed on an object; farther, they have released it


@dataclass(frozen=True, eq=False)
class HandsSeen:
    """The output of a perfect tracker for both hands, left then right, in the workspace frame."""

    keypoints_m: Float[ndarray, "2 21 3"]
    wrist_rotation: Float[ndarray, "2 3 3"]


Tick = Callable[[HandsSeen], None]


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a person holds hands and arms. It varies little between episodes."""

    # Rotation from straight down about the opening axis: from the person's side and below the line of sight.
    pitch_rad: float = float(np.deg2rad(78.0))
    elbow_shift_m: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @classmethod
    def draw(cls, rng: Generator) -> "Manner":
        pitch_rad = cls.pitch_rad + float(rng.normal(0, np.deg2rad(3.0)))
        forward_m, left_m, up_m = (float(shift_m) for shift_m in rng.normal(0, 0.02, 3))
        return cls(pitch_rad=pitch_rad, elbow_shift_m=(forward_m, left_m, up_m))


@dataclass(frozen=True)
class Grip:
    """A held object."""

    body: str
    width_m: float


def human_cell(scene: TaskScene) -> MjModel:
    """The scene with hands instead of arms."""

    def add_objects(spec: MjSpec) -> None:
        scene.add_objects(spec)
        add_welds(spec, scene.graspable)

    return build_arena(add_objects, embodiment=add_hands)


class HumanHands:
    """Implements `World` and `Stage` for hands. `on_tick` is called before each 40 ms tick with the hands as seen.

    The model holds the shape of the hands, so each model has one person.
    """

    def __init__(self, model: MjModel, scene: TaskScene, style: Style = PERSON, data: MjData | None = None) -> None:
        self.model, self.scene, self.style = model, scene, style
        self.data = mujoco.MjData(model) if data is None else data
        self.manner = Manner()
        self._hand_row = {side: int(model.body(f"{side}/hand").mocapid[0]) for side in Side}
        self._pinch_row = {side: int(model.body(pinch_name(side)).mocapid[0]) for side in Side}
        self._hands: dict[Side, HandTarget] = {}
        self._grips: dict[Side, Grip] = {}
        self.reset()

    def reset(self, manner: Manner | None = None) -> None:
        """Resets objects to their initial places and empty hands to rest."""
        mujoco.mj_resetData(self.model, self.data)
        self.manner = manner or Manner()
        self._grips = {}
        self._hands = {side: HandTarget(ToolPose(np.array(HOME_M[side]), pointing_down()), 1.0) for side in Side}
        self._jump()

    @property
    def world(self) -> "HumanHands":
        return self

    def facts(self) -> Any:
        return self.scene.facts(self.model, self.data)

    def tool(self, side: Side) -> ToolPose:
        return self._hands[side].pose

    def opening_01(self, side: Side) -> float:
        return self._hands[side].opening_01

    def seen(self) -> HandsSeen:
        """The current state of both hands."""
        keypoints_m, axes = np.empty((2, 21, 3)), np.empty((2, 3, 3))
        for side in Side:
            hand = self.data.body(f"{side}/hand")
            axes[side.effector] = hand.xmat.reshape(3, 3)
            points_m = hand_keypoints_m(side, self._width_m(side))
            keypoints_m[side.effector] = hand.xpos + points_m @ axes[side.effector].T
        return HandsSeen(keypoints_m, axes)

    def demonstrate(
        self, script: Script, rng: Generator, on_tick: Tick, on_correction_done: Callable[[], None]
    ) -> None:
        """Executes a script."""
        tremor = Tremor(self.style, rng)
        for wanted in script:
            if isinstance(wanted, CorrectionDone):
                on_correction_done()
                continue
            for hands in self._unhurried(wanted, rng):
                on_tick(self.seen())
                self._step(hands, tremor.next_m())

    def _unhurried(self, wanted: Waypoint, rng: Generator) -> list[dict[Side, HandTarget]]:
        """Moves along a leg. If the wrist would be too fast for the tracker, the path is repeated at a slower pace."""
        seed = int(rng.integers(2**63))
        ticks = list(leg(self._hands, wanted, self.style, np.random.default_rng(seed)))
        fastest_mps = max(self._wrist_speed_mps([self._hands, *ticks], side) for side in Side)
        if fastest_mps <= WRIST_LIMIT_MPS:
            return ticks
        slower = replace(wanted, pace=wanted.pace * WRIST_LIMIT_MPS / fastest_mps)
        return list(leg(self._hands, slower, self.style, np.random.default_rng(seed)))

    def _wrist_speed_mps(self, ticks: list[dict[Side, HandTarget]], side: Side) -> float:
        """The peak speed of the wrists."""
        moving = [now[side].pose for now in ticks if now[side].pose is not self._hands[side].pose]
        if not moving:
            return 0.0
        wrist_m = [wrist_pose(side, pose, self.manner.pitch_rad)[0] for pose in (self._hands[side].pose, *moving)]
        return float(np.linalg.norm(np.diff(wrist_m, axis=0), axis=1).max() * RATE_HZ)

    def _step(self, hands: dict[Side, HandTarget], shake_m: Float[ndarray, "2 3"]) -> None:
        """One 40 ms tick in physics steps. Hands that jump at 25 Hz would fling held objects."""
        self._hands = hands
        self._release_opened()
        start_m, start_quat = self.data.mocap_pos.copy(), self.data.mocap_quat.copy()
        goal_m, goal_quat = self._mocap_goal(shake_m)
        goal_quat[np.einsum("bq,bq->b", start_quat, goal_quat) < 0] *= -1.0  # the shorter rotation
        for along in ALONG_TICK:
            self.data.mocap_pos[:] = start_m + along * (goal_m - start_m)
            self.data.mocap_quat[:] = start_quat + along * (goal_quat - start_quat)  # MuJoCo normalises it
            mujoco.mj_step(self.model, self.data)
        physics.check(self.model, self.data)
        self._pose_hands()
        self._grasp_closed()

    def _jump(self) -> None:
        """Places the hands without motion."""
        self.data.mocap_pos[:], self.data.mocap_quat[:] = self._mocap_goal(np.zeros((2, 3)))
        self._pose_hands()

    def _mocap_goal(self, shake_m: Float[ndarray, "2 3"]) -> tuple[Float[ndarray, "B 3"], Float[ndarray, "B 4"]]:
        """Poses (quaternions w x y z) of pinch points and hands at the commanded poses."""
        position_m, quaternion = self.data.mocap_pos.copy(), self.data.mocap_quat.copy()
        for side in Side:
            tool = self._hands[side].pose
            wrist_m, wrist_axes = wrist_pose(side, tool, self.manner.pitch_rad)
            position_m[self._hand_row[side]] = wrist_m + shake_m[side.effector]
            mujoco.mju_mat2Quat(quaternion[self._hand_row[side]], wrist_axes.ravel())
            position_m[self._pinch_row[side]] = tool.position_m + shake_m[side.effector]
            quaternion[self._pinch_row[side]] = np.roll(tool.rotation.as_quat(), 1)
        return position_m, quaternion

    def _pose_hands(self) -> None:
        """Updates fingers and forearms. They are only rendered, so once per tick is enough."""
        for side in Side:
            row = self._hand_row[side]
            elbow_m = np.add(ELBOW_M[side], self.manner.elbow_shift_m)
            back, forearm = np.empty(4), np.empty(3)
            mujoco.mju_negQuat(back, self.data.mocap_quat[row])
            mujoco.mju_rotVecQuat(forearm, elbow_m - self.data.mocap_pos[row], back)
            pose_hand(self.model, side, hand_keypoints_m(side, self._width_m(side)), forearm)
        physics.refresh(self.model, self.data)

    def _width_m(self, side: Side) -> float:
        """The distance of thumb and index, at least the width of the object between them."""
        hand, grip = self._hands[side], self._grips.get(side)
        between_m = max(hand.holds_m, grip.width_m if grip else 0.0)
        return float(np.clip(hand.opening_01 * OPENING_M, between_m, WIDEST_M))

    def _grasp_closed(self) -> None:
        for side, hand in self._hands.items():
            closed = hand.holds_m > 0 and hand.opening_01 * OPENING_M <= hand.holds_m + SLACK_M
            if closed and side not in self._grips:
                body = within_grasp(self.model, self.data, side, self.scene.graspable, GRASP_WITHIN_M)
                if body is not None:
                    self._take(side, body, hand.holds_m)

    def _take(self, side: Side, body: str, width_m: float) -> None:
        take_hold(self.model, self.data, side, body)
        self._grips[side] = Grip(body, width_m)

    def _release_opened(self) -> None:
        for side, grip in list(self._grips.items()):
            if self._hands[side].opening_01 * OPENING_M > grip.width_m + SLACK_M:
                self._release(side)

    def _release(self, side: Side) -> None:
        if grip := self._grips.pop(side, None):
            let_go(self.model, self.data, side, grip.body)

    # `Stage`: starts are made by placing objects and by failing attempts.

    def put(self, body: str, position_m: Any, quaternion_wxyz: Any = (1, 0, 0, 0)) -> None:
        for side, grip in list(self._grips.items()):
            if grip.body == body:
                self._release(side)
        put(self.model, self.data, body, np.asarray(position_m, float), np.asarray(quaternion_wxyz, float))
        physics.refresh(self.model, self.data)

    def place(self, side: Side, pose: ToolPose, opening_01: float = 1.0) -> None:
        self._release(side)
        self._hands[side] = HandTarget(pose, opening_01)
        self._jump()

    def hold(self, side: Side, body: str, width_m: float) -> None:
        self._hands[side] = HandTarget(self._hands[side].pose, 0.0, width_m)
        self._jump()
        self._take(side, body, width_m)
        self.settle(0.2)

    def perform(self, script: Script) -> None:
        # Staging is part of the start, so its variations must not depend on the demonstrator's.
        self.demonstrate(script, np.random.default_rng(0), lambda seen: None, lambda: None)

    def settle(self, seconds: float) -> None:
        for _ in range(round(seconds * RATE_HZ)):
            self._step(dict(self._hands), np.zeros((2, 3)))
