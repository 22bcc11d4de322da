"""The smallest experiment that does everything for real; also a process that kills itself in the middle of it.

`python tiny_experiment.py OUT STAGE DONE` runs it and dies of SIGKILL at the first event of that stage and progress.
"""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from egorecovery.episodes import Camera
from egorecovery.evaluation import EvaluationProtocol
from egorecovery.experiments import Condition, Event, Resources, Suite, SuiteOutcome, plan_suite, run_suite
from egorecovery.experiments.condition import episodes
from egorecovery.policy import Intervention, PolicyConfig, VisionConfig
from egorecovery.training import Batch, Optimisation, Recipe

TASK = "cube_stack"
STEPS = 4
CELLS = {
    "plain": "cube_stack-robot_success-b1.0.0.0-s0",
    "full": "cube_stack-egorecovery-b1.1.0.1-s0",
    "closed": "cube_stack-egorecovery-b1.1.0.1-gate_0-s0",
}
SUITE = Suite(
    name="tiny",
    conditions=(
        Condition(method="egorecovery", budget=episodes(1, 1, human_recovery=1), variant="full"),
        Condition(
            method="egorecovery",
            budget=episodes(1, 1, human_recovery=1),
            intervention=Intervention(gate="0"),
            variant="closed",
        ),
        Condition(method="robot_success", budget=episodes(1)),
    ),
    tasks=(TASK,),
)


def recipe(task: str) -> Recipe:
    policy = PolicyConfig(
        cameras=(Camera.HEAD,),
        image_size=32,
        vision=VisionConfig(stem_width=8, widths=(8, 16), depths=(1, 1), group_channels=4),
        width=32,
        heads=2,
        mlp_ratio=2,
        stem_tokens=4,
        action_tokens=6,
        blocks=1,
        decoder_layers=1,
        horizon=8,
    )
    optimisation = Optimisation(steps=STEPS, learning_rate=1e-3)
    return Recipe(
        name="tiny", task=task, policy=policy, batch=Batch(robot=4, human=4), optimisation=optimisation, held_out=1
    )


def protocol(task: str) -> EvaluationProtocol:
    return EvaluationProtocol(name="tiny", time_limit_s=1.0, stable_s=0.4, replan_steps=8)


def run_tiny(out: Path, **choices) -> SuiteOutcome:
    """`choices` are those of plan and run; without any, the whole suite is run, here and not in other processes."""
    planned = {"recipe": recipe, "protocol": protocol, "rollouts": 2, "starts_seed": "tests"}
    planned |= {name: choices.pop(name) for name in (*planned, "tasks", "seeds", "only") if name in choices}
    plan = plan_suite(choices.pop("suite", SUITE), **planned)
    schedule = {"log": 1, "score": 2, "save": 1, "look": 1}
    at_once = choices.pop("trainings_at_once", 1)
    resources = Resources(workers=1, device="cpu", trainings_at_once=at_once, schedule=schedule)
    return run_suite(plan, out, resources=resources, **choices)


def with_steps(steps: int):
    """Another recipe."""
    return lambda task: replace(recipe(task), optimisation=Optimisation(steps=steps, learning_rate=1e-3))


def die_at(stage: str, done: int):
    def watch(event: Event) -> None:
        if event.stage == stage and event.done >= done:
            os.kill(os.getpid(), signal.SIGKILL)

    return watch


if __name__ == "__main__":
    run_tiny(Path(sys.argv[1]), on_event=die_at(sys.argv[2], int(sys.argv[3])))
