"""Videos of an experiment's own rollouts: for every task and condition of one seed, from the same starts for all."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from egorecovery.errors import RecipeError
from egorecovery.evaluation import REGIMES, BatchedPolicy, Evaluation, RolloutRecord
from egorecovery.evaluation.rollout import Result
from egorecovery.evaluation.video import need_encoder, render_video
from egorecovery.experiments.cell import Cell, CellPlan
from egorecovery.experiments.deadline import Deadline
from egorecovery.experiments.evaluations import policy_of
from egorecovery.experiments.events import Reporter, error_words
from egorecovery.experiments.folder import FILMS, ExperimentFolder
from egorecovery.policy.action_source import ActionSource
from egorecovery.policy.checkpoint_card import policy_hash
from egorecovery.storage.atomic_io import sync_directory, sync_file
from egorecovery.storage.checksummed_json import file_sha256
from egorecovery.storage.containment import inside, names_in, remove
from egorecovery.storage.manifest import Manifest

DRAFTS = ".filming"  # beside the films: a report shows whatever lies among them
NOMINAL = "nominal"  # the mode of starts before which nothing went wrong


def film_cells(
    plans: Sequence[CellPlan], folder: ExperimentFolder, device: str, count: int, deadline: Deadline, report: Reporter
) -> dict[str, str]:
    """What became of the films of cells, in words: `count` per regime. A film that is there is not made again."""
    outcomes = {}
    for plan in one_seed(plans, folder):
        try:
            outcomes[plan.id] = _film(plan, folder, device, count, deadline, report)
        except Exception as error:  # results are worth more: nothing here is a failure of the experiment
            outcomes[plan.id] = f"not made: {error_words(error)}"
    return outcomes


def one_seed(plans: Sequence[CellPlan], folder: ExperimentFolder) -> list[CellPlan]:
    """The first finished cell of every task and condition."""
    first: dict[Cell, CellPlan] = {}
    for plan in plans:
        if folder.is_done(plan):
            first.setdefault(replace(plan.cell, seed=0), plan)
    return list(first.values())


def chosen(records: Sequence[RolloutRecord], count: int) -> list[RolloutRecord]:
    """By start, never by outcome: the first of every failure mode, then the second of every one, and so on."""
    seen: Counter[str] = Counter()
    ranks: dict[int, int] = {}
    in_order = sorted(records, key=lambda record: record.index)
    for record in in_order:
        ranks[record.index] = seen[record.mode]
        seen[record.mode] += 1
    return sorted(in_order, key=lambda record: ranks[record.index])[:count]


def film_name(record: RolloutRecord, result: Result) -> str:
    """Such as recovery_003_on_rim_success.mp4. What it says of the outcome is what the film shows."""
    mode = "" if record.mode == NOMINAL else f"{record.mode}_"
    return f"{_start(record)}_{mode}{result}.mp4"


def _film(
    plan: CellPlan, folder: ExperimentFolder, device: str, count: int, deadline: Deadline, report: Reporter
) -> str:
    home = inside(folder.cell(plan.id), FILMS)
    records = [record for record in folder.rollouts(plan.id).records() if record.index < plan.protocol.rollouts]
    wanted = [
        record
        for regime in REGIMES
        for record in chosen([record for record in records if record.regime == regime], count)
    ]
    videos = [(record, _there(home, record)) for record in wanted]
    missing = [record for record, path in videos if path is None]
    notes = [
        f"{path.name} is not as on record, which says {record.outcome}"
        for record, path in videos
        if path is not None and path.name != film_name(record, record.outcome)
    ]
    there, made = len(wanted) - len(missing), 0
    source = _source(plan, folder, device, missing) if missing else None
    for number, record in enumerate(missing):
        report("videos", plan.id, there + number, len(wanted))
        if deadline.passed:
            notes.append(f"{len(missing) - number} left for want of time")
            break
        assert source is not None
        try:
            unlike = _make(plan, record, source, home)
        except Exception as error:  # the other films may still succeed
            notes.append(f"{_start(record)} not made: {error_words(error)}")
        else:
            made += 1
            notes += [unlike] if unlike else []
    return "; ".join([f"{made} made, {there} there already: {home}", *notes])


def _make(plan: CellPlan, record: RolloutRecord, source: ActionSource, home: Path) -> str | None:
    """A film elsewhere, whole, then in its place. Says how the rollout differs from the one on record, if it does."""
    evaluation = Evaluation(
        subject=record.subject, task=record.task, protocol=plan.protocol, batch_rows=record.batch_rows
    )
    [job] = [job for job in evaluation.jobs_at([record.index], source) if job.regime == record.regime]
    home, drafts = inside(home.parent, home.name), inside(home.parent, DRAFTS)
    try:
        draft = drafts / "draft.mp4"
        ending = render_video(job, BatchedPolicy(source, record.batch_rows), draft, who=record.subject.policy)
        sync_file(draft)
        home.mkdir(exist_ok=True)
        path = draft.rename(home / film_name(record, ending.result))
        sync_directory(home)
        bind_films(home)
    finally:
        with suppress(OSError):
            remove(drafts)
    again = evaluation.record(job, ending)
    if (again.outcome, again.duration_s) == (record.outcome, record.duration_s):
        return None
    return (
        f"{path.name} is not as on record: {again.outcome} after {again.duration_s} s, on record {record.outcome} "
        f"after {record.duration_s} s; device or libraries are not those of the evaluation"
    )


def bind_films(home: Path) -> None:
    """The hashes of a cell's films, beside them: they may be made long after its card."""
    films = {f"{home.name}/{name}": file_sha256(inside(home, name)) for name in names_in(home)}
    Manifest(files=films).write(home.parent)


def _source(plan: CellPlan, folder: ExperimentFolder, device: str, records: Sequence[RolloutRecord]) -> ActionSource:
    """The policy whose rollouts these are."""
    need_encoder()
    factory = policy_of(plan, folder, device)
    if {policy_hash(factory.checkpoint)} != {record.subject.policy_hash for record in records}:
        raise RecipeError(f"{factory.checkpoint} is not the policy that was evaluated")
    return factory()


def _there(home: Path, record: RolloutRecord) -> Path | None:
    names = [name for name in names_in(home) if name.startswith(f"{_start(record)}_") and name.endswith(".mp4")]
    return home / names[0] if names else None


def _start(record: RolloutRecord) -> str:
    return f"{record.regime}_{record.index:03d}"
