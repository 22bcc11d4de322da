"""What the demo does: three policies that differ only in the demonstrations they learn from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from egorecovery.episodes import Camera
from egorecovery.evaluation import EvaluationProtocol, bench_protocol
from egorecovery.experiments import Condition, Suite
from egorecovery.training import RECIPES, Budget, Recipe

TaskName = Literal["cup_brush", "table_sweep", "round_disk", "cube_stack"]

ROBOT_SUCCESS, ROBOT_RECOVERY, HUMAN_CLIPS = "robot_success_effector", "robot_recovery_effector", "shared_decoder"
METHODS = (
    ROBOT_SUCCESS,
    ROBOT_RECOVERY,
    HUMAN_CLIPS,
)  # each learns from what those before it do, and from one thing more
NAMES: Mapping[str, str] = {
    ROBOT_SUCCESS: "robot successes",
    ROBOT_RECOVERY: "with robot recoveries",
    HUMAN_CLIPS: "with human clips",
}

# Human samples of a step, beside the robot's 40: of the policy that has human clips.
HUMAN_SAMPLES = 24

# The left arm rests while cubes are stacked: its camera would only take a fifth of a training's time.
CAMERAS: Mapping[str, tuple[Camera, ...]] = {"cube_stack": (Camera.HEAD, Camera.RIGHT_WRIST)}  # else all

# Light and colours never change in the demo's room: a policy that has minutes to learn need not expect it.
SAME_COLOURS = {"brightness": 0.0, "contrast": 0.0, "saturation": 0.0, "hue_turns": 0.0}


@dataclass(frozen=True, kw_only=True)
class DemoPlan:
    """The defaults take 24 processor minutes (docs/log.md); two policies train at a time."""

    task: TaskName = "cube_stack"  # human clips help it most (docs/log.md)
    robot_success: int = 40
    robot_recovery: int = 20  # few, as on a real robot: each needs a failure set up by hand
    human_recovery: int = 200
    steps: int = 3200  # of each training
    rollouts: int = 100  # per kind of start and policy
    films: int = 3  # starts that all policies are filmed from
    seed: int = 0  # of the trainings

    def recipe(self, task: str) -> Recipe:
        small = RECIPES["demo"](task)
        return replace(
            small,
            policy=replace(small.policy, cameras=CAMERAS.get(task, small.policy.cameras)),
            batch=replace(small.batch, human=HUMAN_SAMPLES),
            augmentation=replace(small.augmentation, **SAME_COLOURS),
            optimisation=replace(small.optimisation, steps=self.steps),
        )

    def suite(self) -> Suite:
        """The policy with human clips first: its training takes longest, so two cores are done together."""
        conditions = tuple(
            Condition(method=method, budget=Budget(**self.episodes(method))) for method in reversed(METHODS)
        )
        return Suite(name="demo", conditions=conditions, tasks=(self.task,))

    def episodes(self, method: str) -> dict[str, int]:
        """What a policy learns from, by source."""
        return {
            "robot_success": self.robot_success,
            "robot_recovery": self.robot_recovery if method != ROBOT_SUCCESS else 0,
            "human_recovery": self.human_recovery if method == HUMAN_CLIPS else 0,
        }


def demo_protocol(task: str) -> EvaluationProtocol:
    """Always the same room: a policy this small has seen too little to look through changes of light and colour."""
    protocol = bench_protocol(task, RECIPES["demo"](task).policy.horizon)
    return replace(protocol, name="demo", varied_appearance=False)
