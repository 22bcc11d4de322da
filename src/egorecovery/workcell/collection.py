"""Collects a data set in the workcell. Interruptions and the number of workers do not change the episodes."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

from egorecovery.capture import Recording, to_episode
from egorecovery.episodes import (
    RATE_HZ,
    Episode,
    EpisodeId,
    EpisodeStore,
    Provenance,
    Source,
    check_episode,
    episode_id,
)
from egorecovery.episodes.attempt_log import Attempt as LoggedAttempt
from egorecovery.episodes.store_writer import StagedEpisode, StoreWriter, stage
from egorecovery.episodes.vocabulary import HIDDEN_EMBODIMENT
from egorecovery.errors import EgoRecoveryError, RecipeError
from egorecovery.executors import Executor, run_jobs
from egorecovery.randomness import generator_for
from egorecovery.recovery import Annotation, AnnotationJournal
from egorecovery.workcell.annotator import SimulatedAnnotator
from egorecovery.workcell.appearance import PLAIN
from egorecovery.workcell.cost import Clock, clock
from egorecovery.workcell.demonstration import OPERATOR, TURNING_OPERATOR, Attempt, Demonstrator, RobotDemonstrator
from egorecovery.workcell.human_demonstration import HumanDemonstrator
from egorecovery.workcell.robot_as_human import RobotAsHuman
from egorecovery.workcell.scene import OBJECT_M
from egorecovery.workcell.staging import draw_start
from egorecovery.workcell.starts import Start
from egorecovery.workcell.tasks import scene_named

MOST_PIXELS = 2048  # along a side
MOST_ATTEMPTS = 20  # at one episode, before the run gives up


class CollectionFailed(EgoRecoveryError):
    """A demonstrator that never succeeds, which means a bug in the task."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What to collect. An order always gives the same bytes (with one version of MuJoCo and one renderer)."""

    task: str
    source: Source
    episodes: int
    seed: int = 0
    image_size: int = 96
    depth: bool = False  # depth maps with human recordings
    plain_room: bool = False  # no variation of light, colours and cameras
    across_family: bool = False  # robot recovery over the whole failure family, as an upper reference
    stand_in: bool = False  # robot demonstrations encoded as human ones (`robot_as_human.py`), as a reference
    hidden_embodiment: bool = False  # pictures without arms and hands, see `hidden_embodiment.py`
    near_misses: bool = False  # half of the recoveries start from small misses that policies make (`staging.py`)
    off_centre_grips: bool = False  # handles are gripped as far off-centre as policies grip them
    turned_hands: bool = False  # the robot's hand arrives turned, then aligns

    def __post_init__(self) -> None:
        scene_named(self.task)
        if self.stand_in and not self.source.is_human:
            raise RecipeError(f"stand_in is for human sources, not {self.source}")
        if self.stand_in and self.depth:
            raise RecipeError("stand_in records robot pictures, which have no depth: leave out depth")
        if self.across_family and self.source is not Source.ROBOT_RECOVERY:
            raise RecipeError(f"across_family is for robot_recovery, not {self.source}")
        if self.near_misses and not self.source.is_recovery:
            raise RecipeError(f"near misses are for recoveries: {self.source} has ordinary starts")
        if self.turned_hands and self.source.is_human:
            raise RecipeError(f"turned_hands is for robot sources, not {self.source}")
        if self.episodes < 1:
            raise RecipeError(f"episodes must be at least 1, got {self.episodes}")
        if not 16 <= self.image_size <= MOST_PIXELS:
            raise RecipeError(f"image_size must lie in 16..{MOST_PIXELS} pixels, got {self.image_size}")
        if self.seed < 0:
            raise RecipeError(f"seed must not be negative, got {self.seed}")


@dataclass(frozen=True)
class Job:
    """One episode of an order."""

    order: Order
    index: int
    store: Path

    @property
    def name(self) -> EpisodeId:
        order = self.order
        kind = "-wide" * order.across_family + "-stand_in" * order.stand_in + "-hidden" * order.hidden_embodiment
        kind += "-near" * order.near_misses + "-off_centre" * order.off_centre_grips
        kind += "-turned" * order.turned_hands
        return episode_id(f"{order.task}-{order.source}{kind}-s{order.seed}-{self.index:04d}")

    @property
    def operator(self) -> str:
        person = self.order.source.is_human and not self.order.stand_in
        return "simulated person" if person else "simulated teleoperator"

    def generator(self, purpose: str, attempt: int):
        order = self.order
        where = {"task": order.task, "source": str(order.source), "episode": self.index, "attempt": attempt}
        return generator_for(seed=order.seed, purpose=purpose, **where)


@dataclass(frozen=True)
class Made:
    """A staged episode with its discarded attempts."""

    staged: StagedEpisode
    frames: int
    discarded: tuple[LoggedAttempt, ...]
    annotation: Annotation | None


def collect(
    orders: Sequence[Order],
    store: EpisodeStore,
    workers: int = 1,
    executor: Executor = "local",
    on_progress: Callable[[Order, int, int], None] = lambda order, done, total: None,
) -> int:
    """Adds missing episodes, one order after the other. Returns the number of discarded attempts.

    Several orders share the workers, which take seconds to start.
    """
    jobs = [Job(order, index, store.root.absolute()) for order in orders for index in range(order.episodes)]
    name, times = Counter(job.name for job in jobs).most_common(1)[0] if jobs else (None, 0)
    if times > 1:
        raise RecipeError(f"{store.root}: two orders name the same episodes, such as {name}")
    journal = AnnotationJournal(store.annotations_path)
    discarded = 0
    with store.writing() as writer:
        annotated = journal.latest().keys()
        missing = [
            job for job in jobs if job.name not in store or (job.order.source.is_recovery and job.name not in annotated)
        ]
        lacking = Counter(job.order for job in missing)
        done = {order: order.episodes - lacking[order] for order in orders}
        for order in orders:
            on_progress(order, done[order], order.episodes)
        for job, made in zip(missing, run_jobs(make, missing, workers, executor), strict=True):
            _commit(writer, journal, made)
            discarded += len(made.discarded)
            done[job.order] += 1
            on_progress(job.order, done[job.order], job.order.episodes)
    return discarded


def _commit(writer: StoreWriter, journal: AnnotationJournal, made: Made) -> None:
    """Commits discarded attempts, episode and annotation. Steps that a killed run completed are skipped."""
    if made.discarded:
        known = {(attempt.episode, attempt.started_at) for attempt in writer.store.collection.attempts()}
        for attempt in made.discarded:
            if (attempt.episode, attempt.started_at) not in known:
                writer.store.collection.add(attempt)
    writer.commit(made.staged)
    if made.annotation is not None:
        journal.save(made.annotation, n_frames=made.frames, seen_revision=0)


def make(job: Job) -> Made:
    """Repeats attempts until a demonstration succeeds and passes the checks. Runs in a worker."""
    discarded: list[LoggedAttempt] = []
    for number in range(MOST_ATTEMPTS):
        start, attempt, cost = _attempt(job, number)
        if attempt.failure is not None:
            discarded.append(_log(job, cost, (attempt.failure,)))
            continue
        episode = to_episode(_recording(job, start, attempt, cost))
        reasons = check_episode(episode)
        if reasons:
            discarded.append(_log(job, cost, reasons))
            continue
        staged = stage(job.store, episode)
        return Made(staged, len(episode), tuple(discarded), _annotation(job, number, episode, attempt, cost))
    raise CollectionFailed(f"{job.name}: {MOST_ATTEMPTS} attempts failed, the last with {discarded[-1].reasons}")


def _attempt(job: Job, number: int) -> tuple[Start, Attempt, Clock]:
    order = job.order
    demonstrator = _demonstrator(
        order.task,
        order.source.is_human,
        order.stand_in,
        order.image_size,
        order.depth,
        order.hidden_embodiment,
        order.off_centre_grips,
        order.turned_hands,
    )
    start = draw_start(
        demonstrator.scene,
        order.source,
        job.generator("start", number),
        across_family=order.across_family,
        near_misses=order.near_misses,
    )
    if order.plain_room:
        start = replace(start, appearance=PLAIN)
    attempt = demonstrator.attempt(start, job.generator("demonstration", number))
    cost = clock(order.source, job.index, number, attempt.duration_s, job.generator("cost", number))
    return start, attempt, cost


@lru_cache(maxsize=2)
def _demonstrator(
    task: str,
    human: bool,
    stand_in: bool,
    image_size: int,
    depth: bool,
    hidden_embodiment: bool,
    off_centre_grips: bool,
    turned_hands: bool,
) -> Demonstrator:
    """A demonstrator, cached per process because compiling a scene is slow."""
    scene = scene_named(task, off_centre_grips=off_centre_grips)
    if stand_in:
        return RobotAsHuman(scene, image_size=image_size, hidden_embodiment=hidden_embodiment)
    if human:
        return HumanDemonstrator(scene, image_size=image_size, depth=depth, hidden_embodiment=hidden_embodiment)
    aim = TURNING_OPERATOR if turned_hands else OPERATOR
    return RobotDemonstrator(scene, image_size=image_size, aim=aim, hidden_embodiment=hidden_embodiment)


def _recording(job: Job, start: Start, attempt: Attempt, cost: Clock) -> Recording:
    assert attempt.motion is not None
    details = {"start": start.record(), "true_boundary_s": attempt.correction_done_s}
    if job.order.hidden_embodiment:
        details[HIDDEN_EMBODIMENT] = True
    if attempt.target_objects_m is not None:
        details[OBJECT_M] = attempt.target_objects_m.round(4).tolist()
    return Recording(
        id=job.name,
        task=scene_named(job.order.task).task,
        source=job.order.source,
        cameras=attempt.cameras,
        motion=attempt.motion,
        provenance=Provenance(
            operator=job.operator,
            recorder="egorecovery.workcell",
            seed=job.order.seed,
            details=details,
            **asdict(cost),
        ),
    )


def _log(job: Job, cost: Clock, reasons: tuple[str, ...]) -> LoggedAttempt:
    return LoggedAttempt(
        episode=job.name,
        task=job.order.task,
        source=str(job.order.source),
        operator=job.operator,
        accepted=False,
        reasons=reasons,
        **asdict(cost),
    )


def _annotation(job: Job, number: int, episode: Episode, attempt: Attempt, cost: Clock) -> Annotation | None:
    if attempt.correction_done_s is None or not job.order.source.is_recovery:
        return None
    assert attempt.motion is not None
    streams = [attempt.motion, *attempt.cameras.values()]
    grid_start_s = max(float(stream.timestamps_s[0]) for stream in streams)
    true_boundary = round((attempt.correction_done_s - grid_start_s) * RATE_HZ)
    rng = job.generator("annotator", number)
    return SimulatedAnnotator().annotate(episode, true_boundary, rng, saved_at=cost.stopped_at)
