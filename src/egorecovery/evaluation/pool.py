"""Rollouts on all cores: each worker process owns a workcell, this process owns the policy and asks it for them all."""

import multiprocessing
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from egorecovery.errors import RecipeError
from egorecovery.evaluation.batched_policy import ActionChunk, BatchedPolicy, Observation, RejectedAction
from egorecovery.evaluation.rollout import Ending, RolloutJob, attempt
from egorecovery.executors import begin_worker, cores, in_main_thread, interrupts_for_parent_only

GATHER_S = 0.004  # how long a question waits for others to share a batch with, at most
TRIES = 2  # at one rollout, when its worker dies or breaks: once more, then it is an error on record


@dataclass(eq=False)
class _Worker:
    """One process, and the job it is at."""

    process: Any
    connection: Connection
    number: int = -1  # of the job; -1 when idle


def default_workers(device: str) -> int:
    """All cores; half as many again where a policy on a GPU leaves workers waiting now and then."""
    return cores() + cores() // 2 if device.startswith("cuda") else cores()


class RolloutPool:
    """Worker processes that stay warm from one evaluation to the next.

    With one worker everything happens in this process.
    """

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise RecipeError(f"an evaluation needs at least one worker, got {workers}")
        self._size = workers
        self._workers: list[_Worker] = []

    def run(self, jobs: Sequence[RolloutJob], policy: BatchedPolicy) -> Iterator[tuple[int, Ending]]:
        """(number of the job, its ending), as they come in."""
        if self._size == 1:
            yield from run_here(jobs, policy)
        else:
            yield from self._run(jobs, policy)

    def _run(self, jobs: Sequence[RolloutJob], policy: BatchedPolicy) -> Iterator[tuple[int, Ending]]:
        todo = deque(range(len(jobs)))
        tries = [0] * len(jobs)
        while len(self._workers) < min(self._size, len(jobs)):
            self._workers.append(_started())
        try:
            while True:
                for worker in [worker for worker in self._workers if worker.number < 0]:
                    if todo:
                        self._give(worker, todo, jobs, tries)
                busy = {worker.connection: worker for worker in self._workers if worker.number >= 0}
                if not busy:
                    return
                asking: list[tuple[_Worker, Observation]] = []
                for worker, said in _gathered(busy, enough=min(policy.batch_rows, (len(busy) + 1) // 2)):
                    if isinstance(said, Observation):
                        asking.append((worker, said))
                        continue
                    number, worker.number = worker.number, -1
                    if said is None:
                        self._replace(worker)
                        said = Ending(result="error", reason="the worker process died", start=None)
                    if said.result == "error" and tries[number] < TRIES:
                        todo.appendleft(number)
                    else:
                        yield number, said
                answers = policy.ask([question for _, question in asking])
                for (worker, _), answer in zip(asking, answers, strict=True):
                    _tell(worker, answer)
        except BaseException:
            self.close()  # workers are in the middle of rollouts nobody wants any more
            raise

    def _give(self, worker: _Worker, todo: deque[int], jobs: Sequence[RolloutJob], tries: list[int]) -> None:
        worker.number = todo.popleft()
        tries[worker.number] += 1
        _tell(worker, jobs[worker.number])

    def _replace(self, worker: _Worker) -> None:
        _end(worker)
        self._workers[self._workers.index(worker)] = _started()

    def close(self) -> None:
        for worker in self._workers:
            worker.connection.close()
        for worker in self._workers:
            _end(worker)
        self._workers = []

    def __enter__(self) -> "RolloutPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run_here(jobs: Sequence[RolloutJob], policy: BatchedPolicy) -> Iterator[tuple[int, Ending]]:
    """One rollout after the other, in this process."""

    def ask(question: Observation) -> ActionChunk | RejectedAction:
        return policy.ask([question])[0]

    for number, job in enumerate(jobs):
        ending = attempt(job, ask)
        for _ in range(TRIES - 1):
            ending = attempt(job, ask) if ending.result == "error" else ending
        yield number, ending


def _started() -> _Worker:
    spawn = multiprocessing.get_context("spawn")  # GL contexts, CUDA and locks do not survive a fork
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(theirs, in_main_thread()), daemon=True, name="rollouts")
    with interrupts_for_parent_only():
        process.start()
    theirs.close()  # so that its death closes the pipe
    return _Worker(process, ours)


def _serve(connection: Connection, started_by_main_thread: bool) -> None:
    """The life of a worker: jobs in, questions out, answers in, endings out; ends with its parent."""
    begin_worker(started_by_main_thread)

    def ask(question: Observation) -> Any:
        connection.send(question)
        return connection.recv()

    try:
        while True:
            connection.send(attempt(connection.recv(), ask))
    except (EOFError, OSError):
        return


def _gathered(busy: dict[Connection, _Worker], enough: int) -> list[tuple[_Worker, Observation | Ending | None]]:
    """What workers say. Having heard one it waits for some more: a batch takes a policy hardly longer than one row."""
    heard: list[tuple[_Worker, Observation | Ending | None]] = []
    silent = dict(busy)
    give_up_s: float | None = None
    while len(heard) < enough:
        ready = wait(list(silent), None if give_up_s is None else max(0.0, give_up_s - time.monotonic()))
        if not ready:
            break
        for connection in ready:
            worker = silent.pop(connection)  # pyright: ignore[reportArgumentType] - wait returns what it was given
            heard.append((worker, _heard(worker)))
        if give_up_s is None:
            give_up_s = time.monotonic() + GATHER_S
    return heard


def _heard(worker: _Worker) -> Observation | Ending | None:
    """None when the worker is gone."""
    try:
        return worker.connection.recv()
    except (EOFError, OSError):
        return None


def _tell(worker: _Worker, message: Any) -> None:
    """A worker that is gone shows when it is listened to."""
    try:
        worker.connection.send(message)
    except OSError:
        return


def _end(worker: _Worker) -> None:
    worker.connection.close()
    worker.process.join(timeout=0.5)
    if worker.process.is_alive():
        worker.process.kill()
        worker.process.join()
