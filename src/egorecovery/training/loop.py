"""A training run from a store to a checkpoint: step, log, score, save, stop cleanly. `run_setup` says how it begins."""

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from egorecovery.episodes import EpisodeStore
from egorecovery.errors import RecipeError, TrainingStopped
from egorecovery.storage.atomic_io import write_file
from egorecovery.training.batch_sampler import StepPlan, learning_rate, plan_step
from egorecovery.training.distributed_stop import Agreement
from egorecovery.training.gpu_lock import turn
from egorecovery.training.logs import LogView, RunLog
from egorecovery.training.recipe import Recipe
from egorecovery.training.run_manifest import seal_run
from egorecovery.training.run_setup import RunRequest, RunSetup, indented, set_up
from egorecovery.training.runtime import Runtime
from egorecovery.training.saving import save_run
from egorecovery.training.stopping import Stopped, signals_noted
from egorecovery.training.validation import Scores, score


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How often, in steps."""

    log: int = 50
    score: int = 500
    save: int = 2000
    look: int = 50  # how often the host looks for a loss that was not finite

    def __post_init__(self) -> None:
        if min(self.log, self.score, self.save, self.look) < 1:
            raise RecipeError("log, score, save and look intervals must be positive")


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What is reported after each logged step."""

    step: int
    steps: int
    samples_per_s: float
    values: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    checkpoint: Path
    scores: dict[str, float]
    waited_s: float = 0.0  # for its turn


def train(
    recipe: Recipe,
    store: EpisodeStore,
    run: Path,
    runtime: Runtime,
    *,
    resume: bool = False,
    schedule: Schedule | None = None,
    stream: bool = False,
    probe: EpisodeStore | None = None,
    turn_file: Path | None = None,
    watch: Callable[[Progress], None] = lambda progress: None,
    stop: Callable[[], bool] = lambda: False,
    decoding: Callable[[int, int], None] = lambda done, total: None,
    stepped: Callable[[int, int], None] = lambda step, steps: None,
    begun: Callable[[Recipe], None] = lambda recipe: None,
    locked: bool = False,
    size_of_store: bool = False,
    what_is_there: bool = False,
    given: Collection[str] = (),
    logs: Sequence[LogView] = (),
) -> Outcome:
    """Trains to the recipe's last step. Files appear in `run`: recipe.json, log.jsonl, checkpoints/.

    A `probe` is another store, all of whose episodes of the task are scored beside the held-out ones. Trainings that
    are given the same `turn_file` get ready side by side and step one after another. `stop` is asked after every step,
    by several processes about twice a second; if it says so, or a signal did, the run saves and raises `Stopped`.
    One training at a time writes to `run`; with `locked` the caller sees to that. With `size_of_store` the policy takes
    pictures of the size that they have in the store, whatever the recipe says. With `what_is_there` a budget that the
    store cannot fill is lowered, but for the amounts that `given` names; `begun` gets the recipe that comes of it.
    `logs` get what `log.jsonl` gets.
    """
    request = RunRequest(
        recipe=recipe,
        store=store,
        run=run,
        runtime=runtime,
        resume=resume,
        stream=stream,
        probe=probe,
        locked=locked,
        size_of_store=size_of_store,
        what_is_there=what_is_there,
        given=given,
        decoding=decoding,
        begun=begun,
    )
    with ExitStack() as held:
        setup = set_up(request, held)
        job = _Run(setup=setup, schedule=schedule or Schedule(), watch=watch, stop=stop, stepped=stepped, logs=logs)
        try:
            with turn(turn_file) as waited_s:
                return replace(job.go(), waited_s=waited_s)
        finally:
            setup.pictures.close()


@dataclass(kw_only=True, eq=False)
class _Run:
    """The loop itself."""

    setup: RunSetup
    schedule: Schedule
    watch: Callable[[Progress], None]
    stop: Callable[[], bool]
    stepped: Callable[[int, int], None]
    logs: Sequence[LogView]
    scores: Scores = field(default_factory=lambda: Scores(values={}, robot_gates=[]))
    log: RunLog | None = None

    def go(self) -> Outcome:
        resumed_from, run = self.setup.resumed_from, self.setup.run
        done = resumed_from.step if resumed_from else 0
        if resumed_from:  # a checkpoint saved before the next scores has the last ones' gates, as if never stopped
            self.scores = Scores(values={}, robot_gates=resumed_from.gate_sample)
        if self.setup.runtime.first:
            self.log = RunLog(run, done, self.logs)
        try:
            with signals_noted() as asked_to_stop:
                checkpoint = self._steps(done, self.setup.recipe.optimisation.steps, asked_to_stop)
        finally:
            if self.log:
                self.log.close()
                seal_run(run)
        return Outcome(checkpoint=checkpoint, scores=self.scores.values)

    def _steps(self, done: int, steps: int, asked_to_stop: list[int]) -> Path:
        checkpoint = self.setup.run / "checkpoints" / f"step_{done:08d}"
        since, since_s = done, time.monotonic()
        agreement = Agreement(self.setup.runtime)
        for index in range(done, steps):
            self.setup.step.run(self.plan(index))
            done = index + 1
            self.stepped(done, steps)
            logging = done % self.schedule.log == 0 or done == steps
            if logging or done % self.schedule.look == 0:
                self._stop_if_not_finite()
            if logging:
                values = self.setup.step.means()
                rate = (done - since) * self.setup.recipe.batch.size / (time.monotonic() - since_s)
                rates = {"learning_rate": learning_rate(self.setup.recipe.optimisation, index), "samples_per_s": rate}
                self._log(done, "train", {**values, **rates})
                self.watch(Progress(step=done, steps=steps, samples_per_s=rate, values=values))
                since, since_s = done, time.monotonic()
            if done % self.schedule.score == 0 or done == steps:
                self._score(done)
                since, since_s = done, time.monotonic()
            stopping = agreement.stopping(lambda: bool(asked_to_stop) or self.stop())
            if done % self.schedule.save == 0 or done == steps or stopping:
                self._stop_if_not_finite()
                checkpoint = save_run(self.setup, done, self.scores.robot_gates)
            if stopping and done < steps:
                raise Stopped(f"stopped as asked at step {done}, saved in {checkpoint}; go on with --resume")
        return checkpoint

    def plan(self, index: int) -> StepPlan:
        return plan_step(self.setup.recipe, self.setup.frames.robot_frames, self.setup.frames.human_frames, index)

    def _stop_if_not_finite(self) -> None:
        bad = self.setup.step.bad_step()
        if bad is None:
            return
        plan = self.plan(bad)
        named = [self.setup.frames.samples[row] for row in plan.frame_B]
        samples = [{"episode": episode, "frame": frame} for episode, frame in named]
        path = self.setup.run / f"not_finite_step_{bad:08d}.json"
        if self.setup.runtime.first:
            write_file(path, indented({"step": bad, "samples": samples}))
        raise TrainingStopped(
            f"the loss or a gradient of step {bad} is not finite; no update was made with it. The step's samples are "
            f"in {path}: look at them with 'egorecovery inspect', or lower optimisation.learning_rate, then use "
            "--resume"
        )

    def _score(self, done: int) -> None:
        if not self.setup.scored:
            return
        policy = self.setup.weights.working if self.setup.weights.average is None else self.setup.weights.averaged()
        policy = policy.to(self.setup.runtime.precision).eval()
        parts = {prefix: score(policy, *what, self.setup.recipe) for prefix, what in self.setup.scored.items()}
        self.scores = Scores(
            values={prefix + name: value for prefix, part in parts.items() for name, value in part.values.items()},
            robot_gates=parts[""].robot_gates if "" in parts else [],  # of held-out episodes, not of the probe
        )
        self._log(done, "held_out", dict(self.scores.values))

    def _log(self, done: int, kind: str, values: dict[str, Any]) -> None:
        if self.log:
            self.log.write(done, kind, values)
