"""How a training run begins: its data and settings, what it refuses, what it resumes from, all that its steps need."""

import json
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from egorecovery.episodes import EpisodeStore
from egorecovery.errors import EgoRecoveryError, RecipeError
from egorecovery.intent import data_hash
from egorecovery.policy.checkpoint import Checkpoint
from egorecovery.policy.normaliser import Statistics
from egorecovery.policy.policy import Policy
from egorecovery.storage.atomic_io import make_folder, write_file
from egorecovery.storage.containment import exists, remove
from egorecovery.storage.typed_json import to_json
from egorecovery.training import frame_table
from egorecovery.training.backend import backend_on
from egorecovery.training.batch_sampler import plan_step
from egorecovery.training.frame_table import FrameTable
from egorecovery.training.image_source import Pictures, ResidentImages, StreamedImages, decode
from egorecovery.training.logs import run_lock
from egorecovery.training.picture_size import with_picture_size
from egorecovery.training.recipe import Recipe
from egorecovery.training.resuming import checkpoint_to_resume, restore
from egorecovery.training.run_manifest import unseal_run
from egorecovery.training.runtime import Runtime, seed_initialisation
from egorecovery.training.splits import (
    Pools,
    everything,
    in_order,
    select,
    why_no_scores,
    with_budget_of_store,
    with_picture_fit,
)
from egorecovery.training.step import TrainingStep
from egorecovery.training.validation import HeldOut, held_out_frames
from egorecovery.training.weights import Weights

RESIDENT_SHARE = 0.6  # of free device memory that pictures may take


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What a run is asked to do; `training.loop.train` says what each means."""

    recipe: Recipe
    store: EpisodeStore
    run: Path
    runtime: Runtime
    resume: bool = False
    stream: bool = False
    probe: EpisodeStore | None = None
    locked: bool = False
    size_of_store: bool = False
    what_is_there: bool = False
    given: Collection[str] = ()
    decoding: Callable[[int, int], None] = lambda done, total: None
    begun: Callable[[Recipe], None] = lambda recipe: None


@dataclass(frozen=True, kw_only=True, eq=False)
class RunSetup:
    """All that the steps of a run need."""

    recipe: Recipe
    run: Path
    runtime: Runtime
    frames: FrameTable
    statistics: Statistics
    data: str  # hash of what is trained on
    pictures: Pictures
    weights: Weights
    step: TrainingStep
    scored: dict[str, tuple[HeldOut, list[int]]]  # rows of held-out frames, by what their scores' names begin with
    resumed_from: Checkpoint | None


def set_up(request: RunRequest, held: ExitStack) -> RunSetup:
    """Refuses what cannot be trained before anything is written; the run's folder stays locked while `held` is open."""
    store, run, runtime = request.store, request.run, request.runtime
    recipe, pools = _settled(request)
    recorded = frame_table.read(store, pools.episodes, recipe)
    statistics = frame_table.fit(recorded, recipe)
    frames = frame_table.table(recorded, statistics, recipe)
    data = data_hash(store, (name for _, name in pools.episodes))
    if runtime.first and not request.locked:
        _lock(run, held)
    resumed_from = checkpoint_to_resume(run, recipe, data, request.resume, runtime)
    if resumed_from:
        statistics = resumed_from.statistics
    if runtime.first:
        make_folder(run)
        unseal_run(run)
        write_file(run / "recipe.json", indented(to_json(recipe)))
    request.begun(recipe)

    weights = _weights(recipe, runtime, pretrained=not resumed_from)
    pictures = _pictures(store, frames, recipe, runtime, request.stream, request.decoding)
    step = TrainingStep(recipe, frames, pictures, weights, runtime)
    if resumed_from:
        restore(resumed_from, weights, step)
    scored: dict[str, tuple[HeldOut, list[int]]] = {}
    if runtime.first:
        scored |= held_out_frames("", store, in_order(pools.held_out), statistics, frames, recipe, runtime)
        if request.probe:
            episodes = everything(request.probe, recipe)
            scored |= held_out_frames("probe/", request.probe, episodes, statistics, frames, recipe, runtime)
    return RunSetup(
        recipe=recipe,
        run=run,
        runtime=runtime,
        frames=frames,
        statistics=statistics,
        data=data,
        pictures=pictures,
        weights=weights,
        step=step,
        scored=scored,
        resumed_from=resumed_from,
    )


def _settled(request: RunRequest) -> tuple[Recipe, Pools]:
    """The recipe as it fits the store, and the episodes that it trains on."""
    asked, store, ranks = request.recipe, request.store, request.runtime.ranks
    recipe = asked
    if recipe.batch.robot % ranks or recipe.batch.human % ranks:
        raise RecipeError(f"batch {recipe.batch} cannot be shared equally by {ranks} processes")
    if request.what_is_there:
        recipe = with_budget_of_store(recipe, store, request.given)
    pools = select(store, recipe)
    if request.what_is_there and request.runtime.first and (reason := why_no_scores(asked, store, request.given)):
        print(f"note: {reason}", file=sys.stderr)
    recipe = with_picture_fit(recipe, store, pools)
    return with_picture_size(recipe, store, pools) if request.size_of_store else recipe, pools


def _lock(run: Path, held: ExitStack) -> None:
    is_new = not exists(run)
    held.enter_context(run_lock(run))
    if is_new:  # behind the lock: a training that is refused it removes nothing of the one that holds it
        held.enter_context(_removed_if_refused(run))


@contextmanager
def _removed_if_refused(run: Path) -> Iterator[None]:
    """A run that is refused before its first step leaves no folder."""
    try:
        yield
    except (EgoRecoveryError, OSError):
        if not exists(run / "log.jsonl") and exists(run):
            remove(run)
        raise


def _weights(recipe: Recipe, runtime: Runtime, pretrained: bool) -> Weights:
    seed_initialisation(recipe.seed)
    master = Policy(recipe.policy)
    if recipe.policy.vision.pretrained and pretrained:
        master.load_pretrained_vision(recipe.policy.vision.pretrained)
    master = master.on(runtime.device)
    backend = backend_on(runtime.device, runtime.accelerated)
    return Weights(master, runtime.precision, recipe.optimisation.average_decay, backend)


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


def indented(record: Any) -> bytes:
    return (json.dumps(record, indent=1) + "\n").encode()
