"""Observations of all robots wait here for the one thread that answers them."""

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
class _Asked:
    prepared: Prepared
    answered: "asyncio.Future[Chunk]"


@dataclass(frozen=True, eq=False)
class _Errand:
    """Something else that only the policy's thread may do."""

    work: Callable[[], object]
    done: "asyncio.Future"


class InferenceQueue:
    """Batches what waits together. The policy is touched by its own thread only, and replaced between two batches."""

    def __init__(self, policy: ServedPolicy, *, batch: int, room: int, metrics: Metrics) -> None:
        self.policy = policy
        self._batch = batch
        self._room = room
        self._metrics = metrics
        self._waiting: SimpleQueue[_Asked | _Errand] = SimpleQueue()
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="inference", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def waiting(self) -> int:
        return self._waiting.qsize()

    async def start(self) -> None:
        """With a warm policy."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        await self._on_policy_thread(lambda: self.policy.warm_up(self._batch))

    async def stop(self) -> None:
        if self._thread.is_alive():
            await self._on_policy_thread(self._end)

    async def answer(self, prepared: Prepared) -> Chunk:
        """Refused where too many wait. What a robot asked before it went away is still computed."""
        assert self._loop is not None
        if self._waiting.qsize() >= self._room:
            raise ServingError("too many observations are waiting; try again later")
        asked = _Asked(prepared, self._loop.create_future())
        self._waiting.put(asked)
        return await asked.answered

    async def replace(self, policy: ServedPolicy) -> None:
        """Robots are answered by the old policy until the new one is warm."""

        def warm_then_swap() -> None:
            policy.warm_up(self._batch)
            self.policy = policy

        await self._on_policy_thread(warm_then_swap)

    async def _on_policy_thread(self, work: Callable[[], Result]) -> Result:
        assert self._loop is not None
        errand = _Errand(work, self._loop.create_future())
        self._waiting.put(errand)
        return await errand.done

    def _end(self) -> None:
        self._ended = True

    def _work(self) -> None:
        """The thread."""
        while not self._ended:
            batch, errand = self._taken()
            if batch:
                self._answer(batch)
            if errand:
                try:
                    self._deliver([errand.done], [errand.work()])
                except Exception as error:
                    self._deliver([errand.done], error)

    def _taken(self) -> tuple[list[_Asked], _Errand | None]:
        """What is done next: observations up to a whole batch, and the errand that came after them."""
        batch: list[_Asked] = []
        taken = self._waiting.get()
        while isinstance(taken, _Asked):
            if not taken.answered.done():
                batch.append(taken)
            if len(batch) >= self._batch:
                return batch, None
            try:
                taken = self._waiting.get_nowait()
            except Empty:
                return batch, None
        return batch, taken

    def _answer(self, batch: list[_Asked]) -> None:
        futures = [asked.answered for asked in batch]
        try:
            self._deliver(futures, self.policy.answer([asked.prepared for asked in batch]))
        except Exception as error:  # belongs to those who asked, who report it; the queue goes on
            self._deliver(futures, error)

    def _deliver(self, futures: list[asyncio.Future], results: "list | Exception") -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._set, futures, results)

    def _set(self, futures: list[asyncio.Future], results: "list | Exception") -> None:
        """On the event loop."""
        if not isinstance(results, Exception) and isinstance(results[0], Chunk):
            self._metrics.batches += 1
            self._metrics.inference_s.add(results[0].inference_s)
        for index, future in enumerate(futures):
            if future.done():  # its robot is gone
                continue
            if isinstance(results, Exception):
                future.set_exception(results)
            else:
                future.set_result(results[index])
