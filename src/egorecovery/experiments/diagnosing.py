"""Diagnoses of an experiment's own policies: for each task EgoRecovery's, beside the one that saw no human data.

Policies are looked at on episodes made for it: as many as the paper's figure of the gate has, whatever was held out.
"""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from egorecovery.episodes import EpisodeStore
from egorecovery.errors import EgoRecoveryError
from egorecovery.experiments import data
from egorecovery.experiments.cell import CellPlan
from egorecovery.experiments.folder import DIAGNOSTICS, ExperimentFolder
from egorecovery.experiments.plan import orders_of
from egorecovery.experiments.report.diagnostics import diagnosis_in
from egorecovery.experiments.resources import Resources
from egorecovery.experiments.trainings import training_card

METHOD, WITHOUT_HUMAN = "egorecovery", "robot_recovery"
SEED = 0
FRESH_EPISODES, FRESH_SEED = 15, 2  # of each source; another seed than that of the data and of evaluation starts
Progress = Callable[[str, str, int, int], None]  # task, what, done, total


def diagnose_cells(
    cells: Sequence[CellPlan],
    folder: ExperimentFolder,
    resources: Resources,
    deadline_s: float | None = None,
    progress: Progress = lambda task, what, done, total: None,
) -> dict[str, str]:
    """What became of each task, in words. A diagnosis of the same data and policies is not made again."""
    told = {}
    for task in dict.fromkeys(plan.cell.task for plan in cells):
        late = deadline_s is not None and time.monotonic() > deadline_s
        told[task] = "left for want of time" if late else _diagnose(task, cells, folder, resources, progress)
    return told


def _diagnose(
    task: str, cells: Sequence[CellPlan], folder: ExperimentFolder, resources: Resources, progress: Progress
) -> str:
    cells = [plan for plan in cells if plan.cell.store == task]
    runs = {method: _run(method, cells, folder) for method in (METHOD, WITHOUT_HUMAN)}
    if runs[METHOD] is None:
        return f"no finished training of {METHOD} on staged failures, seed {SEED}, lies in {folder.trainings}"
    try:
        fresh = _fresh(task, cells, folder, resources, progress)
        return _made(task, {method: run for method, run in runs.items() if run}, fresh, folder, resources, progress)
    except EgoRecoveryError as error:
        return f"not made: {error}"
    except Exception as error:  # results are worth more: nothing here is a failure of the experiment
        return f"not made: {type(error).__name__}: {error}"


def _fresh(
    task: str, cells: Sequence[CellPlan], folder: ExperimentFolder, resources: Resources, progress: Progress
) -> EpisodeStore:
    """Of every source that the task's cells train on, demonstrated in the same way."""
    return data.provide(
        folder.data(f"{task}-fresh"),
        [replace(order, seed=FRESH_SEED, episodes=FRESH_EPISODES) for order in orders_of(cells)],
        cells[0].recipe,
        workers=resources.data_workers,
        executor=resources.executor,
        on_progress=lambda what, done, total: progress(task, f"fresh {what}", done, total),
    )


def _made(
    task: str,
    paths: dict[str, Path],
    fresh: EpisodeStore,
    folder: ExperimentFolder,
    resources: Resources,
    progress: Progress,
) -> str:
    from egorecovery.diagnostics.diagnosis import content_hash, diagnose
    from egorecovery.diagnostics.observed import DiagnosedRun
    from egorecovery.diagnostics.recorded import data_hash

    store, out = EpisodeStore(folder.data(task)), folder.root / DIAGNOSTICS / task
    runs = {method: DiagnosedRun.open(path, task, method) for method, path in paths.items()}
    full, other = runs[METHOD], runs.get(WITHOUT_HUMAN)
    there = diagnosis_in(out)
    hashes = [data_hash(one, task) for one in (store, fresh)]
    if there and there.whole and there.content_hash == content_hash(hashes[0], task, [full], other, hashes[1]):
        return f"there already: {out}"
    asked = ["egorecovery", "diagnose", str(store.root), "--task", task, "--run", str(paths[METHOD])]
    asked += ["--compare", str(paths[WITHOUT_HUMAN])] if other else []
    found = diagnose(
        store,
        task,
        [full],
        other,
        fresh=fresh,
        command=shlex.join([*asked, "--fresh", str(fresh.root), "--out", str(out)]),
        device=resources.device,
        progress=lambda what, done, total: progress(task, what, done, total),
    )
    found.write(out)
    return f"{len(found.figures)} figures, {len(found.missing)} not computed: {out}"


def _run(method: str, cells: Sequence[CellPlan], folder: ExperimentFolder) -> Path | None:
    """The training of the first such cell on the task's own data that nothing is done to at test time."""
    for plan in cells:
        cell = plan.cell
        plain = cell.intervention == type(cell.intervention)()
        run = folder.training(plan.training_id)
        if (cell.method, cell.seed, plain) == (method, SEED, True) and training_card(run):
            return run
    return None
