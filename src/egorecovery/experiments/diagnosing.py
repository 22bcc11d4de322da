"""Diagnoses of an experiment's own policies: for each task EgoRecovery's, beside the one that saw no human data.

Policies are looked at on episodes made for it: as many as the paper's figure of the gate has, whatever was held out.
"""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace

from egorecovery.episodes import EpisodeStore
from egorecovery.experiments import data
from egorecovery.experiments.cell import CellPlan
from egorecovery.experiments.deadline import Deadline, OutOfTime
from egorecovery.experiments.diagnoses import diagnosis_in
from egorecovery.experiments.events import Reporter, error_words
from egorecovery.experiments.folder import DIAGNOSTICS, ExperimentFolder
from egorecovery.experiments.resources import Resources
from egorecovery.experiments.trainings import training_card

METHOD, WITHOUT_HUMAN = "egorecovery", "robot_recovery"
SEED = 0
FRESH_EPISODES, FRESH_SEED = 15, 2  # of each source; another seed than that of the data and of evaluation starts
Progress = Callable[[str, int, int], None]  # what, such as "cup_brush episodes", done, total


def diagnose_cells(
    cells: Sequence[CellPlan], folder: ExperimentFolder, resources: Resources, deadline: Deadline, report: Reporter
) -> dict[str, str]:
    """What became of the tasks, in words. A diagnosis of the same data and policies is not made again."""

    def progress(what: str, done: int, total: int) -> None:
        deadline.require_time()
        report("diagnostics", what, done, total)

    return {
        task: _diagnose([plan for plan in cells if plan.cell.store == task], folder, resources, progress)
        for task in dict.fromkeys(plan.cell.task for plan in cells)
    }


def _diagnose(cells: Sequence[CellPlan], folder: ExperimentFolder, resources: Resources, progress: Progress) -> str:
    full, other = (_trained(method, cells, folder) for method in (METHOD, WITHOUT_HUMAN))
    if full is None:
        return f"no finished training of {METHOD} on staged failures, seed {SEED}, lies in {folder.trainings}"
    try:
        progress(f"{full.cell.task} episodes", 0, FRESH_EPISODES)
        return _made(full, other, folder, resources, progress)
    except OutOfTime:
        return "left for want of time"
    except Exception as error:  # results are worth more: nothing here is a failure of the experiment
        return f"not made: {error_words(error)}"


def _made(
    full: CellPlan, other: CellPlan | None, folder: ExperimentFolder, resources: Resources, progress: Progress
) -> str:
    from egorecovery.diagnostics.activations import DiagnosedRun
    from egorecovery.diagnostics.diagnosis import content_hash, diagnose
    from egorecovery.diagnostics.store_diagnostics import episodes_of
    from egorecovery.intent import data_hash

    task = full.cell.task
    store, out = EpisodeStore(folder.data(task)), folder.root / DIAGNOSTICS / task
    fresh = _fresh(full, folder, resources, progress)
    path, other_path = folder.training(full.training_id), other and folder.training(other.training_id)
    run = DiagnosedRun.open(path, task, METHOD)
    compare = other_path and DiagnosedRun.open(other_path, task, WITHOUT_HUMAN)
    there = diagnosis_in(out)
    hashes = [data_hash(episode_store, episodes_of(episode_store, task)) for episode_store in (store, fresh)]
    if there and there.whole and there.content_hash == content_hash(hashes[0], task, [run], compare, hashes[1]):
        return f"there already: {out}"
    command = ["egorecovery", "diagnose", str(store.root), "--task", task, "--run", str(path)]
    command += ["--compare", str(other_path)] if other_path else []
    diagnosis = diagnose(
        store,
        task,
        [run],
        compare,
        fresh=fresh,
        command=shlex.join([*command, "--fresh", str(fresh.root), "--out", str(out)]),
        device=resources.device,
        progress=lambda what, done, total: progress(f"{task} {what}", done, total),
    )
    diagnosis.write(out)
    return f"{len(diagnosis.figures)} figures, {len(diagnosis.missing)} not computed: {out}"


def _fresh(plan: CellPlan, folder: ExperimentFolder, resources: Resources, progress: Progress) -> EpisodeStore:
    """Of every source that the policy trains on, demonstrated in the same way."""
    return data.provide(
        folder.data(f"{plan.cell.task}-fresh"),
        [replace(order, seed=FRESH_SEED, episodes=FRESH_EPISODES) for order in plan.orders],
        plan.recipe,
        workers=resources.data_workers,
        executor=resources.executor,
        on_progress=lambda what, done, total: progress(what.replace(" ", " fresh ", 1), done, total),
    )


def _trained(method: str, cells: Sequence[CellPlan], folder: ExperimentFolder) -> CellPlan | None:
    """The first such cell whose training is there, and that nothing is done to at test time."""
    for plan in cells:
        wanted = (plan.cell.method, plan.cell.seed) == (method, SEED) and not plan.cell.intervened
        if wanted and training_card(folder.training(plan.training_id)):
            return plan
    return None
