"""Films of one start, a policy each, seen from outside the cell. All are as long, so they play together."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from egorecovery.demo.outcomes import FilmedStart
from egorecovery.demo.plan import METHODS
from egorecovery.episodes import RATE_HZ
from egorecovery.errors import EgoRecoveryError
from egorecovery.evaluation import BatchedPolicy, Evaluation, EvaluationProtocol, RolloutRecord
from egorecovery.evaluation.checkpoint_source import CheckpointFactory
from egorecovery.evaluation.rollout import attempt
from egorecovery.executors import run_jobs
from egorecovery.storage.atomic_io import sync_file
from egorecovery.storage.containment import remove
from egorecovery.workcell.outside_camera import OutsideCamera
from egorecovery.workcell.workcell import Workcell

SIZE_PX = 384
FASTER = 2  # times the speed at which it happened: every second step is shown
FILM_HZ = 25
LAST_S = 1.5  # of the film: the outcome stays to be seen, also in the longest one
BORDER_PX = 6
DONE, NOT_DONE = (46, 139, 87), (196, 62, 48)  # the border once a rollout has ended
ENCODING = {"crf": "23", "preset": "veryfast", "movflags": "+faststart"}  # plays before it is loaded to its end


@dataclass(frozen=True, kw_only=True)
class FilmJob:
    """One film; travels to a worker."""

    record: RolloutRecord
    protocol: EvaluationProtocol
    factory: CheckpointFactory
    pictures: int  # of the whole film
    path: Path


@dataclass(frozen=True, kw_only=True)
class Film:
    """What a film shows, in the page's words."""

    name: str  # of its file
    succeeded: bool
    seconds: float  # that the rollout took
    reason: str


def film_starts(
    home: Path,
    chosen: Sequence[FilmedStart],
    records: Mapping[str, Sequence[RolloutRecord]],
    checkpoints: Mapping[str, Path],
    protocol: EvaluationProtocol,
    *,
    workers: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[dict[str, Film]]:
    """By start and method. A film that is there is not made again."""
    home.mkdir(parents=True, exist_ok=True)
    jobs = [
        job
        for start in chosen
        for job in _jobs_at(start, {method: records[method] for method in METHODS}, checkpoints, protocol, home)
    ]
    missing = [job for job in jobs if not job.path.exists()]
    on_progress(len(jobs) - len(missing), len(jobs))
    for number, _ in enumerate(run_jobs(make, missing, workers), start=1):
        on_progress(len(jobs) - len(missing) + number, len(jobs))
    films = iter([_film(job) for job in jobs])
    return [{method: next(films) for method in METHODS} for _ in chosen]


def _jobs_at(
    start: FilmedStart,
    records: Mapping[str, Sequence[RolloutRecord]],
    checkpoints: Mapping[str, Path],
    protocol: EvaluationProtocol,
    home: Path,
) -> list[FilmJob]:
    at = {
        method: next(one for one in of_method if (one.regime, one.index) == (start.regime, start.index))
        for method, of_method in records.items()
    }
    longest_s = max(record.duration_s for record in at.values())
    pictures = math.ceil(longest_s * RATE_HZ / FASTER) + round(LAST_S * FILM_HZ)
    return [
        FilmJob(
            record=record,
            protocol=protocol,
            factory=CheckpointFactory(checkpoint=checkpoints[method].absolute()),
            pictures=pictures,
            path=home / f"{start.regime}_{start.index:03d}_{method}_{record.subject.policy_hash[:8]}.mp4",
        )
        for method, record in at.items()
    ]


def make(job: FilmJob) -> None:
    """Runs the rollout once more, with a camera outside. Runs in a worker."""
    pictures: list[UInt8[ndarray, "H W 3"]] = []
    source = _source(job.factory)
    policy = BatchedPolicy(source, job.record.batch_rows)
    evaluation = Evaluation(subject=job.record.subject, task=job.record.task, protocol=job.protocol)
    evaluation = replace(evaluation, regimes=(job.record.regime,))
    [rollout] = evaluation.jobs_at([job.record.index], source)
    camera: OutsideCamera | None = None
    step = 0

    def look(cell: Workcell, _: object) -> None:
        nonlocal camera, step
        camera = camera or OutsideCamera(cell.robot.model, SIZE_PX)
        if step % FASTER == 0:
            pictures.append(camera.render(cell.robot.data))
        step += 1

    try:
        ending = attempt(rollout, lambda question: policy.ask([question])[0], look)
    finally:
        if camera is not None:
            camera.close()
    if ending.result != job.record.outcome:
        raise EgoRecoveryError(
            f"{job.path.name}: the rollout ends in {ending.result}, on record is {job.record.outcome}: libraries or "
            "machine are not those of the evaluation; remove the demo's folder and run it again"
        )
    draft = job.path.with_name(f".{job.path.name}")
    try:
        encode(with_ending(pictures, ending.result == "success", job.pictures), draft)
        sync_file(draft)
        draft.rename(job.path)
    finally:
        if draft.exists():
            remove(draft)


@lru_cache(maxsize=3)
def _source(factory: CheckpointFactory):
    return factory()


def with_ending(
    pictures: Sequence[UInt8[ndarray, "H W 3"]], succeeded: bool, length: int
) -> Iterator[UInt8[ndarray, "H W 3"]]:
    """The last picture stays until the film is `length` pictures long, framed in the colour of the outcome."""
    yield from pictures
    last = pictures[-1].copy()
    inner = last[BORDER_PX:-BORDER_PX, BORDER_PX:-BORDER_PX].copy()
    last[:] = DONE if succeeded else NOT_DONE
    last[BORDER_PX:-BORDER_PX, BORDER_PX:-BORDER_PX] = inner
    yield from [last] * max(1, length - len(pictures))


def encode(pictures: Iterator[UInt8[ndarray, "H W 3"]], path: Path) -> None:
    """H.264 that browsers play."""
    import av

    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        video = container.add_stream("libx264", rate=FILM_HZ, options=ENCODING)
        video.pix_fmt = "yuv420p"
        for number, picture in enumerate(pictures):
            if number == 0:
                video.height, video.width = picture.shape[:2]
            container.mux(video.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")))
        container.mux(video.encode())


def _film(job: FilmJob) -> Film:
    record = job.record
    return Film(name=job.path.name, succeeded=record.succeeded, seconds=record.duration_s, reason=record.reason)
