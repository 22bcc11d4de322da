"""The queue of all robots' observations, and the single thread that computes their chunks."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeVar

from egorecovery.errors import ServingError
from egorecovery.serving.metrics import Metrics
from egorecovery.serving.served_policy import Chunk, Prepared, ServedPolicy

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class _Request:
    prepared: Prepared
    chunk: "asyncio.Future[Chunk]"


@dataclass(frozen=True, eq=False)
class _Task:
    """Other work that must run on the policy's thread."""

    work: Callable[[], object]
    done: "asyncio.Future"


class InferenceQueue:
    """Batches waiting observations. One thread alone uses the policy, and replaces it between two batches."""

    def __init__(self, policy: ServedPolicy, *, batch: int, room: int, metrics: Metrics) -> None:
        self.policy = policy
        self._batch = batch
        self._room = room
        self._metrics = metrics
        self._waiting: SimpleQueue[_Request | _Task] = SimpleQueue()
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="inference", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def waiting(self) -> int:
        return self._waiting.qsize()

    async def start(self) -> None:
        """Starts the thread and warms up the policy."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        await self._on_policy_thread(lambda: self.policy.warm_up(self._batch))

    async def stop(self) -> None:
        if self._thread.is_alive():
            await self._on_policy_thread(self._end)

    async def answer(self, prepared: Prepared) -> Chunk:
        """The chunk of an observation; refused if too many wait. It is computed even if its robot disconnects."""
        assert self._loop is not None
        if self._waiting.qsize() >= self._room:
            raise ServingError("too many observations are waiting; try again later")
        request = _Request(prepared, self._loop.create_future())
        self._waiting.put(request)
        return await request.chunk

    async def replace(self, policy: ServedPolicy) -> None:
        """Replaces the policy. The old one answers until the new one is warm."""

        def warm_then_swap() -> None:
            policy.warm_up(self._batch)
            self.policy = policy

        await self._on_policy_thread(warm_then_swap)

    async def _on_policy_thread(self, work: Callable[[], Result]) -> Result:
        assert self._loop is not None
        task = _Task(work, self._loop.create_future())
        self._waiting.put(task)
        return await task.done

    def _end(self) -> None:
        self._ended = True

    def _work(self) -> None:
        """The thread."""
        while not self._ended:
            batch, task = self._taken()
            if batch:
                self._answer(batch)
            if task:
                try:
                    self._deliver([task.done], [task.work()])
                except Exception as error:
                    self._deliver([task.done], error)

    def _taken(self) -> tuple[list[_Request], _Task | None]:
        """The next observations, at most one batch, and the task that follows them."""
        batch: list[_Request] = []
        taken = self._waiting.get()
        while isinstance(taken, _Request):
            if not taken.chunk.done():
                batch.append(taken)
            if len(batch) >= self._batch:
                return batch, None
            try:
                taken = self._waiting.get_nowait()
            except Empty:
                return batch, None
        return batch, taken

    def _answer(self, batch: list[_Request]) -> None:
        futures = [request.chunk for request in batch]
        try:
            self._deliver(futures, self.policy.answer([request.prepared for request in batch]))
        except Exception as error:  # reported to the connections; the queue continues
            self._deliver(futures, error)

    def _deliver(self, futures: list[asyncio.Future], results: "list | Exception") -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._set, futures, results)

    def _set(self, futures: list[asyncio.Future], results: "list | Exception") -> None:
        """Delivers chunks. Runs on the event loop."""
        if not isinstance(results, Exception) and isinstance(results[0], Chunk):
            self._metrics.batches += 1
            self._metrics.inference_s.add(results[0].inference_s)
        for index, future in enumerate(futures):
            if future.done():  # its robot has disconnected
                continue
            if isinstance(results, Exception):
                future.set_exception(results)
            else:
                future.set_result(results[index])
