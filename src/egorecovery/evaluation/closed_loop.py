"""Evaluating a policy: the protocol's rollouts, those that are missing, here or on a cluster."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from egorecovery.capture.picture_fit import Fit
from egorecovery.errors import RecipeError
from egorecovery.evaluation.batched_policy import BatchedPolicy, SourceFactory
from egorecovery.evaluation.pool import RolloutPool, run_here
from egorecovery.evaluation.protocol import REGIMES, EvaluationProtocol, Regime, draw_start
from egorecovery.evaluation.results import ResultFile, RolloutRecord, Subject, rollout_key
from egorecovery.evaluation.rollout import Ending, RolloutJob
from egorecovery.executors import Executor, run_jobs
from egorecovery.policy.action_source import ActionSource, action_space_of, wants_hidden_embodiment
from egorecovery.workcell.tasks import scene_named


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One policy on one task: what is to be run."""

    subject: Subject
    task: str
    protocol: EvaluationProtocol
    regimes: tuple[Regime, ...] = REGIMES
    batch_rows: int = 1  # of every inference, see `batched_policy`; 16 suits a GPU

    def __post_init__(self) -> None:
        scene_named(self.task)
        if not self.regimes:
            raise RecipeError("an evaluation has at least one regime, 'initial' or 'recovery'")

    def jobs(self, source: ActionSource) -> list[RolloutJob]:
        return self.jobs_at(range(self.protocol.rollouts), source)

    def jobs_at(self, indices: Iterable[int], source: ActionSource) -> list[RolloutJob]:
        """Those starts of each regime; they need not be among the protocol's rollouts."""
        return [
            RolloutJob(
                task=self.task,
                regime=regime,
                index=index,
                protocol=self.protocol,
                cameras=tuple(source.cameras),
                image_size=source.image_size,
                picture_fit=picture_fit_of(source, self.protocol),
                action_space=action_space_of(source),
                hidden_embodiment=wants_hidden_embodiment(source),
            )
            for regime, index in product(self.regimes, indices)
        ]

    def key(self, job: RolloutJob) -> str:
        return rollout_key(self.subject, job.task, job.regime, job.index, self.protocol.identity())

    def record(self, job: RolloutJob, ending: Ending) -> RolloutRecord:
        # A rollout that broke down may not say from where; at least its failure mode is that of the first draw.
        start = ending.start or draw_start(self.protocol, scene_named(job.task), job.regime, job.index)
        return RolloutRecord.of_ending(
            ending,
            start=start,
            subject=self.subject,
            task=job.task,
            regime=job.regime,
            index=job.index,
            protocol=self.protocol,
            batch_rows=self.batch_rows,
        )


def picture_fit_of(source: ActionSource, protocol: EvaluationProtocol) -> Fit:
    """How the policy's pictures were fitted; refused where the cameras' cannot be."""
    fit: Fit = getattr(source, "picture_fit", "exact")
    square = (source.image_size, source.image_size)
    if protocol.camera_wh not in (None, square) and fit == "exact":
        raise RecipeError(
            f"{source.name} was trained on squares of {source.image_size} pixels that no rule had fitted; leave "
            f"camera_size {protocol.camera_size} out (only imports with --image-size give a policy its rule)"
        )
    return fit


@dataclass(frozen=True, kw_only=True)
class RemoteRollout:
    """A job that travels with the means to build its policy."""

    job: RolloutJob
    factory: SourceFactory
    batch_rows: int


def evaluate(
    evaluation: Evaluation,
    factory: SourceFactory,
    results: ResultFile | None = None,
    *,
    workers: int = 1,
    executor: Executor = "local",
    pool: RolloutPool | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[RolloutRecord]:
    """All rollouts of an evaluation, in the order of their starts; those that `results` holds are not run again.

    A warm `pool` saves the start of the workers when many policies are evaluated one after the other.
    """
    source = factory()
    jobs = evaluation.jobs(source)
    known = {record.key: record for record in results.records()} if results is not None else {}
    records = {key: known[key] for key in map(evaluation.key, jobs) if key in known}
    missing = [job for job in jobs if evaluation.key(job) not in records]
    on_progress(len(records), len(jobs))
    if executor == "ray":
        endings = _on_ray(missing, factory, evaluation.batch_rows, workers)
    else:
        endings = _here(missing, BatchedPolicy(source, evaluation.batch_rows), workers, pool)
    for number, ending in endings:
        record = evaluation.record(missing[number], ending)
        if results is not None:
            results.append(record)
        records[record.key] = record
        on_progress(len(records), len(jobs))
    return [records[evaluation.key(job)] for job in jobs]


def _here(
    jobs: Sequence[RolloutJob], policy: BatchedPolicy, workers: int, pool: RolloutPool | None
) -> Iterator[tuple[int, Ending]]:
    if not jobs:
        return
    with nullcontext(pool) if pool is not None else RolloutPool(min(workers, len(jobs))) as using:
        yield from using.run(jobs, policy)


def _on_ray(
    jobs: Sequence[RolloutJob], factory: SourceFactory, batch_rows: int, workers: int
) -> Iterator[tuple[int, Ending]]:
    """Every Ray worker builds a policy of its own, once."""
    if not jobs:
        return
    remote = [RemoteRollout(job=job, factory=factory, batch_rows=batch_rows) for job in jobs]
    yield from enumerate(run_jobs(roll_remotely, remote, workers, "ray"))


def roll_remotely(rollout: RemoteRollout) -> Ending:
    """Runs in a Ray worker."""
    [(_, ending)] = run_here([rollout.job], _batched_policy(rollout.factory, rollout.batch_rows))
    return ending


@lru_cache(maxsize=1)
def _batched_policy(factory: SourceFactory, batch_rows: int) -> BatchedPolicy:
    """Loading a policy takes a while; a factory that compares equal by value is called once per process."""
    return BatchedPolicy(factory(), batch_rows)
