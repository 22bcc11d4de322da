"""Many independent jobs, done here or on a cluster; results come back in the order of the jobs."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import wait
from typing import Any, Literal, TypeVar

from egorecovery.errors import EgoRecoveryError, RecipeError

Executor = Literal["local", "ray"]
Job = TypeVar("Job")
Result = TypeVar("Result")

GIVE_WAY = 5  # niceness of workers
PR_SET_PDEATHSIG = 1  # of prctl(2)
AHEAD = 4  # jobs under way per worker: enough to keep it busy, few enough to keep results from piling up


class WorkerLost(EgoRecoveryError):
    """A worker died under a job."""


def cores() -> int:
    """Cores this process may use, which in a container are fewer than the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def begin_worker(started_by_main_thread: bool) -> None:
    """The first thing that a worker process does: however its parent ends, SIGKILL included, it ends too.

    The kernel sees to it where it can, even while a library holds the interpreter. But it acts when the *thread* that
    started the worker ends, so only main threads ask for that; elsewhere, and on other systems, a thread watches.
    """
    if started_by_main_thread and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True, name="ends with its parent").start()
    give_way()


def _end_after(parent: int) -> None:
    wait([parent])
    os._exit(1)


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def interrupts_for_parent_only() -> Iterator[None]:
    """Processes started meanwhile never hear Ctrl-C, not even while they import: it is their parent's to handle."""
    if not in_main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # children inherit it, and Python leaves it alone
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def give_way() -> None:
    """Workers fill every core; the process that feeds them, and trainings beside them, must not wait for a core."""
    if hasattr(os, "nice"):
        os.nice(GIVE_WAY)


def run_jobs(
    do: Callable[[Job], Result], jobs: Sequence[Job], workers: int = 1, executor: Executor = "local"
) -> Iterator[Result]:
    """`do` of every job. With one local worker everything happens in this process."""
    if executor == "ray":
        yield from _on_ray(do, jobs, workers)
    elif workers <= 1 or len(jobs) <= 1:
        yield from map(do, jobs)
    else:
        yield from _in_processes(do, jobs, workers)


def _in_processes(do: Callable[[Job], Result], jobs: Sequence[Job], workers: int) -> Iterator[Result]:
    spawn = multiprocessing.get_context("spawn")  # GL contexts and locks do not survive a fork
    with ProcessPoolExecutor(
        min(workers, len(jobs)), mp_context=spawn, initializer=begin_worker, initargs=(in_main_thread(),)
    ) as pool:
        waiting = iter(jobs)
        with interrupts_for_parent_only():  # all workers start with the first job
            running: list[Future[Result]] = [pool.submit(do, job) for job in islice(waiting, AHEAD * workers)]
        try:
            while running:
                yield running.pop(0).result()
                running += [pool.submit(do, job) for job in islice(waiting, 1)]
        except KeyboardInterrupt:  # whoever asked to stop waits for nobody: what is half done is made again
            for worker in list((pool._processes or {}).values()):
                worker.kill()
            running.clear()  # the pool ends them itself; what it finds cancelled then, it spills as a traceback
            raise
        except BrokenProcessPool:
            running.clear()
            raise WorkerLost(
                "a worker process was killed, most likely for want of memory; what was committed stays: run again, "
                "with fewer --workers"
            ) from None
        finally:
            for future in running:  # an error or an interrupt: do not start what is only queued
                future.cancel()


def _on_ray(do: Callable[[Job], Result], jobs: Sequence[Job], workers: int) -> Iterator[Result]:
    """Uses the cluster that RAY_ADDRESS names, or one of its own with that many workers."""
    try:
        import ray  # pyright: ignore[reportMissingImports] - an extra
    except ImportError:
        raise RecipeError("--executor ray needs Ray: install the extra, 'pip install egorecovery[ray]'") from None

    mine = not ray.is_initialized()
    if mine:
        ray.init(**_cluster(workers))
    try:
        remote = ray.remote(num_cpus=1)(do)
        ahead = AHEAD * max(workers, int(ray.cluster_resources().get("CPU", workers)))
        waiting = iter(jobs)
        running = [remote.remote(job) for job in islice(waiting, ahead)]
        while running:
            yield ray.get(running.pop(0))
            running += [remote.remote(job) for job in islice(waiting, 1)]
    finally:
        if mine:
            ray.shutdown()


def _cluster(workers: int) -> dict[str, Any]:
    quiet = {"log_to_driver": False, "include_dashboard": False, "configure_logging": False}
    return {"log_to_driver": False} if os.environ.get("RAY_ADDRESS") else {"num_cpus": max(workers, 1), **quiet}
