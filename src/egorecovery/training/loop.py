"""A training run from a store to a checkpoint: start or resume, step, log, score, save, stop cleanly."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from egorecovery.episodes import Embodiment, EpisodeId, EpisodeStore, Source
from egorecovery.errors import EgoRecoveryError, RecipeError, TrainingStopped
from egorecovery.intent import data_hash
from egorecovery.policy.checkpoint import Checkpoint, save
from egorecovery.policy.normaliser import Statistics
from egorecovery.policy.policy import Policy
from egorecovery.storage.atomic_io import make_folder, write_file
from egorecovery.storage.containment import exists, remove
from egorecovery.storage.typed_json import to_json
from egorecovery.training import frame_table
from egorecovery.training.backend import backend_on
from egorecovery.training.batch_sampler import StepPlan, learning_rate, plan_step
from egorecovery.training.distributed_stop import Agreement
from egorecovery.training.frame_table import FrameTable
from egorecovery.training.gpu_lock import turn
from egorecovery.training.image_source import Pictures, ResidentImages, StreamedImages, decode
from egorecovery.training.logs import LogView, RunLog, run_lock
from egorecovery.training.picture_size import with_picture_size
from egorecovery.training.recipe import Recipe
from egorecovery.training.resuming import checkpoint_to_resume, restore, revision
from egorecovery.training.run_manifest import seal_run, unseal_run
from egorecovery.training.runtime import Runtime, seed_initialisation
from egorecovery.training.splits import everything, in_order, select, with_budget_of_store, with_picture_fit
from egorecovery.training.step import TrainingStep
from egorecovery.training.stopping import Stopped, signals_noted
from egorecovery.training.validation import HeldOut, Scores, score, thinned
from egorecovery.training.weights import Weights

RESIDENT_SHARE = 0.6  # of free device memory that pictures may take


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
    logs: Sequence[LogView] = (),
) -> Outcome:
    """Trains to the recipe's last step. Files appear in `run`: recipe.json, log.jsonl, checkpoints/.

    A `probe` is another store, all of whose episodes of the task are scored beside the held-out ones. Trainings that
    are given the same `turn_file` get ready side by side and step one after another. `stop` is asked after every step,
    by several processes about twice a second; if it says so, or a signal did, the run saves and raises `Stopped`.
    One training at a time writes to `run`; with `locked` the caller sees to that. With `size_of_store` the policy takes
    pictures of the size that they have in the store, whatever the recipe says; with `what_is_there` a budget that the
    store cannot fill is lowered; `begun` gets the recipe that comes of it. `logs` get what `log.jsonl` gets.
    """
    with ExitStack() as held:

        def begin() -> None:
            if runtime.first and not locked:
                is_new = not exists(run)
                held.enter_context(run_lock(run))
                if is_new:  # behind the lock: a training that is refused it removes nothing of the one that holds it
                    held.enter_context(_removed_if_refused(run))

        schedule = schedule or Schedule()
        return _train(
            recipe,
            store,
            run,
            runtime,
            begin,
            resume,
            schedule,
            stream,
            probe,
            turn_file,
            watch,
            stop,
            decoding,
            stepped,
            begun,
            size_of_store,
            what_is_there,
            logs,
        )


@contextmanager
def _removed_if_refused(run: Path) -> Iterator[None]:
    """A run that is refused before its first step leaves no folder."""
    try:
        yield
    except (EgoRecoveryError, OSError):
        if not exists(run / "log.jsonl") and exists(run):
            remove(run)
        raise


def _train(
    recipe: Recipe,
    store: EpisodeStore,
    run: Path,
    runtime: Runtime,
    begin: Callable[[], None],
    resume: bool,
    schedule: Schedule,
    stream: bool,
    probe: EpisodeStore | None,
    turn_file: Path | None,
    watch: Callable[[Progress], None],
    stop: Callable[[], bool],
    decoding: Callable[[int, int], None],
    stepped: Callable[[int, int], None],
    begun: Callable[[Recipe], None],
    size_of_store: bool,
    what_is_there: bool,
    logs: Sequence[LogView],
) -> Outcome:
    if recipe.batch.robot % runtime.ranks or recipe.batch.human % runtime.ranks:
        raise RecipeError(f"batch {recipe.batch} cannot be shared equally by {runtime.ranks} processes")
    if what_is_there:
        recipe = with_budget_of_store(recipe, store)
    pools = select(store, recipe)
    recipe = with_picture_fit(recipe, store, pools)
    if size_of_store:
        recipe = with_picture_size(recipe, store, pools)
    recorded = frame_table.read(store, pools.episodes, recipe)
    statistics = frame_table.fit(recorded, recipe)
    frames = frame_table.table(recorded, statistics, recipe)
    data = data_hash(store, (name for _, name in pools.episodes))
    begin()
    resumed_from = checkpoint_to_resume(run, recipe, data, resume, runtime)
    if resumed_from:
        statistics = resumed_from.statistics
    if runtime.first:
        make_folder(run)
        unseal_run(run)
        write_file(run / "recipe.json", _json(to_json(recipe)))
    begun(recipe)

    seed_initialisation(recipe.seed)
    master = Policy(recipe.policy)
    if recipe.policy.vision.pretrained and not resumed_from:
        master.load_pretrained_vision(recipe.policy.vision.pretrained)
    master = master.on(runtime.device)
    backend = backend_on(runtime.device, runtime.accelerated)
    weights = Weights(master, runtime.precision, recipe.optimisation.average_decay, backend)
    pictures = _pictures(store, frames, recipe, runtime, stream, decoding)
    step = TrainingStep(recipe, frames, pictures, weights, runtime)
    if resumed_from:
        restore(resumed_from, weights, step)
    scored: dict[str, tuple[HeldOut, list[int]]] = {}
    if runtime.first:
        scored |= _to_score("", store, in_order(pools.held_out), statistics, frames, recipe, runtime)
        if probe:
            scored |= _to_score("probe/", probe, everything(probe, recipe), statistics, frames, recipe, runtime)
    job = _Run(
        recipe=recipe,
        run=run,
        runtime=runtime,
        schedule=schedule,
        frames=frames,
        statistics=statistics,
        data=data,
        weights=weights,
        step=step,
        scored=scored,
        watch=watch,
        stop=stop,
        stepped=stepped,
        logs=logs,
    )
    try:
        with turn(turn_file) as waited_s:
            return replace(job.go(resumed_from), waited_s=waited_s)
    finally:
        pictures.close()


@dataclass(kw_only=True, eq=False)
class _Run:
    """The loop itself, with what every part of it needs."""

    recipe: Recipe
    run: Path
    runtime: Runtime
    schedule: Schedule
    frames: FrameTable
    statistics: Statistics
    data: str  # hash of what is trained on
    weights: Weights
    step: TrainingStep
    scored: dict[str, tuple[HeldOut, list[int]]]
    watch: Callable[[Progress], None]
    stop: Callable[[], bool]
    stepped: Callable[[int, int], None]
    logs: Sequence[LogView]
    scores: Scores = field(default_factory=lambda: Scores(values={}, robot_gates=[]))
    log: RunLog | None = None

    def go(self, found: Checkpoint | None) -> Outcome:
        done = found.step if found else 0
        if found:  # a checkpoint saved before the next scores has the last ones' gates, as if never stopped
            self.scores = Scores(values={}, robot_gates=found.gate_sample)
        if self.runtime.first:
            self.log = RunLog(self.run, done, self.logs)
        steps = self.recipe.optimisation.steps
        try:
            with signals_noted() as asked_to_stop:
                checkpoint = self._steps(done, steps, asked_to_stop)
        finally:
            if self.log:
                self.log.close()
                seal_run(self.run)
        return Outcome(checkpoint=checkpoint, scores=self.scores.values)

    def _steps(self, done: int, steps: int, asked_to_stop: list[int]) -> Path:
        checkpoint = self.run / "checkpoints" / f"step_{done:08d}"
        since, since_s = done, time.monotonic()
        agreement = Agreement(self.runtime)
        for index in range(done, steps):
            self.step.run(self.plan(index))
            done = index + 1
            self.stepped(done, steps)
            logging = done % self.schedule.log == 0 or done == steps
            if logging or done % self.schedule.look == 0:
                self._stop_if_not_finite()
            if logging:
                values = self.step.means()
                rate = (done - since) * self.recipe.batch.size / (time.monotonic() - since_s)
                self._log(
                    done,
                    "train",
                    {**values, "learning_rate": learning_rate(self.recipe.optimisation, index), "samples_per_s": rate},
                )
                self.watch(Progress(step=done, steps=steps, samples_per_s=rate, values=values))
                since, since_s = done, time.monotonic()
            if done % self.schedule.score == 0 or done == steps:
                self._score(done)
                since, since_s = done, time.monotonic()
            stopping = agreement.stopping(lambda: bool(asked_to_stop) or self.stop())
            if done % self.schedule.save == 0 or done == steps or stopping:
                self._stop_if_not_finite()
                checkpoint = self._save(done)
            if stopping and done < steps:
                raise Stopped(f"stopped as asked at step {done}, saved in {checkpoint}; go on with --resume")
        return checkpoint

    def plan(self, index: int) -> StepPlan:
        return plan_step(self.recipe, self.frames.robot_frames, self.frames.human_frames, index)

    def _stop_if_not_finite(self) -> None:
        bad = self.step.bad_step()
        if bad is None:
            return
        plan = self.plan(bad)
        samples = [
            {"episode": self.frames.samples[row][0], "frame": self.frames.samples[row][1]} for row in plan.frame_B
        ]
        path = self.run / f"not_finite_step_{bad:08d}.json"
        if self.runtime.first:
            write_file(path, _json({"step": bad, "samples": samples}))
        raise TrainingStopped(
            f"the loss or a gradient of step {bad} is not finite; no update was made with it. The step's samples are "
            f"in {path}: look at them with 'egorecovery inspect', or lower optimisation.learning_rate, then use "
            "--resume"
        )

    def _score(self, done: int) -> None:
        if not self.scored:
            return
        policy = self.weights.working if self.weights.average is None else self.weights.averaged()
        policy = policy.to(self.runtime.precision).eval()
        parts = {prefix: score(policy, *what, self.recipe) for prefix, what in self.scored.items()}
        self.scores = Scores(
            values={prefix + name: value for prefix, part in parts.items() for name, value in part.values.items()},
            robot_gates=parts[""].robot_gates if "" in parts else [],  # of held-out episodes, not of the probe
        )
        self._log(done, "held_out", dict(self.scores.values))

    def _log(self, done: int, kind: str, values: dict[str, Any]) -> None:
        if self.log:
            self.log.write(done, kind, values)

    def _save(self, done: int) -> Path:
        """Every process takes part, the first writes; the others wait, or torchrun would end it with them."""
        folder = self.run / "checkpoints"
        step_state = self._averaged_sums(self.step.state())
        if self.runtime.first:
            self._write(folder, done, step_state)
        if self.runtime.ranks > 1:
            torch.distributed.barrier()
        return folder / f"step_{done:08d}"

    def _averaged_sums(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """What is logged next is a mean over processes: however many resume, each begins with the mean of now."""
        if self.runtime.ranks == 1:
            return state
        sums = {name: value.clone() for name, value in state.items() if name.startswith("sums.")}
        for name in sorted(sums):
            torch.distributed.all_reduce(sums[name])
            sums[name] /= self.runtime.ranks
        return state | sums

    def _write(self, folder: Path, done: int, step_state: dict[str, Tensor]) -> None:
        master = self.weights.master.state_dict()
        state = {f"master.{name}": value for name, value in master.items()} | step_state
        if self.weights.average is not None:
            state |= {f"average.{index:04d}": value for index, value in enumerate(self.weights.average)}
        save(
            folder,
            step=done,
            recipe=to_json(self.recipe),
            statistics=self.statistics,
            data=self.data,
            revision=revision(),
            gate_sample=self.scores.robot_gates,
            computed=self.runtime.words,
            weights=self.weights.averaged().state_dict(),
            training_state=state,
        )


def _pictures(
    store: EpisodeStore,
    frames: FrameTable,
    recipe: Recipe,
    runtime: Runtime,
    stream: bool,
    decoding: Callable[[int, int], None],
) -> Pictures:
    config = recipe.policy
    size = len(frames) * len(config.cameras) * config.image_size**2 * 3
    room = RESIDENT_SHARE * _free_bytes(runtime)
    if not stream and size <= room:
        held = decode(store, frames.samples, config.cameras, config.image_size, runtime.device, decoding)
        return ResidentImages(held)

    if not stream and runtime.first:
        need = f"pictures need {size / 1e9:.1f} GB, and {room / 1e9:.1f} GB of memory are to spare"
        print(f"{need}: they are read from the store while training, which may be slower")

    def frames_of_step(index: int) -> np.ndarray:
        plan = plan_step(recipe, frames.robot_frames, frames.human_frames, index)
        return plan.shard(runtime.rank, runtime.ranks, recipe.batch.robot).frame_B

    return StreamedImages(store, frames.samples, config.cameras, config.image_size, runtime.device, frames_of_step)


def _free_bytes(runtime: Runtime) -> int:
    """A GPU is one process's own; a machine's memory is shared by all of them."""
    if runtime.device.type == "cuda":
        return torch.cuda.mem_get_info(runtime.device)[0]
    with Path("/proc/meminfo").open() as lines:
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    return free // runtime.ranks_here


def _to_score(
    prefix: str,
    store: EpisodeStore,
    episodes: list[tuple[Source, EpisodeId]],
    statistics: Statistics,
    training: FrameTable,
    recipe: Recipe,
    runtime: Runtime,
) -> dict[str, tuple[HeldOut, list[int]]]:
    """Episodes of the embodiments that are trained on, decoded, under the name their scores get."""
    episodes = [each for each in episodes if each[0].embodiment in statistics.state]
    if not episodes:
        return {}
    frames = frame_table.table(frame_table.read(store, episodes, recipe), statistics, recipe)
    rows = thinned(frames)
    samples = [frames.samples[row] for row in rows]
    pictures = decode(store, samples, recipe.policy.cameras, recipe.policy.image_size, runtime.device)
    masked = training.intent_FC[training.intent_mask_F]
    mean = masked.mean(axis=0) if len(masked) else np.zeros(training.intent_FC.shape[1], np.float32)
    # Positions have one scale for both embodiments.
    spread_A = statistics.action[Embodiment.ROBOT].spread_A if recipe.policy.action_space == "effector" else None
    held_out = HeldOut(frames=frames, pictures_FVSS3=pictures, mean_intent_C=mean, position_spread_A=spread_A)
    return {prefix: (held_out, rows)}


def _json(record: Any) -> bytes:
    return (json.dumps(record, indent=1) + "\n").encode()
