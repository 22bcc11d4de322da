"""The rules of a comparison: which starts, how long, and how a policy's chunks are executed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from egorecovery.episodes import RATE_HZ
from egorecovery.errors import RecipeError
from egorecovery.randomness import generator_for
from egorecovery.storage.typed_json import to_json
from egorecovery.workcell.appearance import PLAIN
from egorecovery.workcell.rules import Protocol
from egorecovery.workcell.scene import TaskScene
from egorecovery.workcell.staging import with_appearance
from egorecovery.workcell.starts import Start
from egorecovery.workcell.tasks import scene_named

Regime = Literal["initial", "recovery"]
REGIMES: tuple[Regime, ...] = get_args(Regime)

COMPARISON = "comparison"  # the starts on which methods are compared ...
VALIDATION = "validation"  # ... and those on which anything may be tuned

# `bench`: three and a half to five times what a demonstration takes. A policy that has not succeeded by
# then practically never does, and 300 s of a policy that hangs cost most of an evaluation's time.
BENCH_TIME_LIMIT_S: Mapping[str, float] = {
    "cup_brush": 30.0,
    "table_sweep": 36.0,
    "round_disk": 30.0,
    "cube_stack": 30.0,
}
MOST_CAMERA_PX = 1280  # a side of what the workcell's renderer draws
OWN_TASK_TIME_LIMIT_S = 60.0  # for tasks that `bench` does not name

# Of a chunk of 100. Chosen among 20, 35, 50 and 70 with robot recovery on validation starts of all tasks (docs/log.md).
REPLAN_STEPS = 35


@dataclass(frozen=True, kw_only=True)
class EvaluationProtocol:
    """Appendix, closed-loop evaluation protocol. Everything here but `rollouts` is part of a result's identity."""

    name: str = "paper"
    rollouts: int = 20  # per regime; start k is the same start however many are asked for
    starts_seed: str = COMPARISON  # by name, so that training data cannot have used it by accident
    time_limit_s: float = 300.0
    stable_s: float = 3.0  # the goal must hold this long
    replan_steps: int = REPLAN_STEPS  # of a chunk are executed before the policy looks again
    ensemble: bool = False  # average all chunks that speak of the same step, instead of executing the newest
    ensemble_decay: float = 0.01  # ACT's m: weights exp(-m age rank), the oldest chunk first
    varied_appearance: bool = True  # light, colours and cameras differ from start to start
    clutter: bool = False  # distractors on the table, for tests outside the training distribution
    # Share of decisions made without proprioception, as in training with augmentation.state_dropout. A policy that
    # stands still or repeats a miss sees the same thing again and again; this lets it decide otherwise.
    state_dropout: float = 0.0
    # Of the cameras' pictures, such as "640x480", for policies of a lab's own data: the rule that fitted those pictures
    # fits these. "" are squares of the policy's size, as the workcell's own data have.
    camera_size: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.state_dropout <= 1:
            raise RecipeError(f"state_dropout must lie in 0..1, got {self.state_dropout}")
        if self.rollouts < 1:
            raise RecipeError(f"--rollouts must be at least 1, got {self.rollouts}")
        if self.replan_steps < 1:
            raise RecipeError(f"--replan must be at least 1, got {self.replan_steps}")
        if not self.starts_seed:
            raise RecipeError("starts_seed must be a name, such as 'comparison' or 'validation'")
        if not self.ensemble_decay >= 0:
            raise RecipeError(f"ensemble_decay must not be negative, got {self.ensemble_decay}")
        _ = self.camera_wh
        self.judging()

    @property
    def camera_wh(self) -> tuple[int, int] | None:
        """Width and height; a sensor is at least as wide as it is high."""
        if not self.camera_size:
            return None
        width, _, height = self.camera_size.partition("x")
        sane = width.isdecimal() and height.isdecimal() and len(width) <= 4 and len(height) <= 4
        if not sane or not 16 <= int(height) <= int(width) <= MOST_CAMERA_PX:
            wanted = f"write WIDTHxHEIGHT, as in 640x480, at most {MOST_CAMERA_PX} and at least as wide as high"
            raise RecipeError(f"camera_size {self.camera_size!r}: {wanted}")
        return int(width), int(height)

    def judging(self) -> Protocol:
        """What ends a rollout in the workcell."""
        return Protocol(time_limit_s=self.time_limit_s, stable_s=self.stable_s)

    def identity(self) -> dict[str, Any]:
        """What must be equal for two results to be comparable, or for one to replace the other."""
        decides = {name: value for name, value in to_json(self).items() if name != "rollouts"}
        if not self.state_dropout:  # younger than published results, which keep their identity
            del decides["state_dropout"]
        if not self.camera_size:
            del decides["camera_size"]
        return decides

    @property
    def longest_steps(self) -> int:
        return round(self.time_limit_s * RATE_HZ) + 1


def paper_protocol(horizon: int | None = None) -> EvaluationProtocol:
    """20 starts per regime, five minutes each; for policies whose chunks are `horizon` steps long."""
    return EvaluationProtocol(replan_steps=_replan_steps(horizon))


def bench_protocol(task: str, horizon: int | None = None) -> EvaluationProtocol:
    """The paper's rules with a time limit that fits the task."""
    limit_s = BENCH_TIME_LIMIT_S.get(task, OWN_TASK_TIME_LIMIT_S)
    return replace(paper_protocol(horizon), name="bench", time_limit_s=limit_s)


def _replan_steps(horizon: int | None) -> int:
    """The usual number, but of short chunks half."""
    return REPLAN_STEPS if horizon is None else max(1, min(REPLAN_STEPS, horizon // 2))


def starts(protocol: EvaluationProtocol, task: str, regime: Regime) -> list[Start]:
    """The starts of a comparison, the same for every method."""
    scene = scene_named(task)
    return [draw_start(protocol, scene, regime, index) for index in range(protocol.rollouts)]


def draw_start(protocol: EvaluationProtocol, scene: TaskScene, regime: Regime, index: int, redraw: int = 0) -> Start:
    """Start number `index`. Where it cannot be staged the next `redraw` takes its place, in the same failure mode."""
    where: dict[str, str | int] = {"task": scene.task.name, "regime": regime, "index": index}
    purpose = f"evaluation start: {protocol.starts_seed}"  # no collection draws from a purpose of this name
    rng = generator_for(seed=0, purpose=purpose, redraw=redraw, **where)
    if regime == "initial":
        start = scene.draw_initial(rng)
    else:
        names, weights = list(scene.modes), np.array(list(scene.modes.values()))
        # The mode has a generator of its own: redrawing must not thin out a mode that is hard to stage.
        mode = str(generator_for(seed=0, purpose=f"{purpose}, mode", **where).choice(names, p=weights / weights.sum()))
        start = scene.draw_failure(rng, mode)
    seen = with_appearance(start, rng)
    return seen if protocol.varied_appearance else _plain(seen)


def _plain(start: Start) -> Start:
    return replace(start, appearance=PLAIN)
