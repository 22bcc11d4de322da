"""Observations of all robots wait here for the one thread that answers them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from egorecovery.errors import ServingError
from egorecovery.serving.metrics import Metrics
from egorecovery.serving.served_policy import Chunk, Prepared, ServedPolicy

Result = TypeVar("Result")
Waiting = tuple[Prepared, "asyncio.Future[Chunk]"]


class InferenceQueue:
    """Batches what waits together. The policy is touched by its own thread only, and replaced between two batches."""

    def __init__(self, policy: ServedPolicy, *, batch: int, room: int, metrics: Metrics) -> None:
        self.policy = policy
        self._batch = batch
        self._metrics = metrics
        self._waiting: asyncio.Queue[Waiting] = asyncio.Queue(maxsize=room)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inference")
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """With a warm policy."""
        await self.on_policy_thread(lambda: self.policy.warm_up(self._batch))
        self._task = asyncio.create_task(self._work(), name="inference queue")

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while not self._waiting.empty():
            self._waiting.get_nowait()[1].cancel()
        await asyncio.to_thread(self._thread.shutdown)

    async def answer(self, prepared: Prepared) -> Chunk:
        """A robot that goes away while it waits is not computed for."""
        answered: asyncio.Future[Chunk] = asyncio.get_running_loop().create_future()
        try:
            self._waiting.put_nowait((prepared, answered))
        except asyncio.QueueFull:
            raise ServingError("too many observations are waiting; try again later") from None
        self._metrics.waiting = self._waiting.qsize()
        return await answered

    async def replace(self, policy: ServedPolicy) -> None:
        """Robots are answered by the old policy until the new one has been warmed up."""
        await self.on_policy_thread(lambda: policy.warm_up(self._batch))
        self.policy = policy

    async def on_policy_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _work(self) -> None:
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < self._batch and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            self._metrics.waiting = self._waiting.qsize()
            batch = [(prepared, answered) for prepared, answered in batch if not answered.done()]
            if batch:
                await self._answer(batch)

    async def _answer(self, batch: list[Waiting]) -> None:
        policy = self.policy
        try:
            chunks = await self.on_policy_thread(lambda: policy.answer([prepared for prepared, _ in batch]))
        except Exception as error:  # belongs to those who asked, who report it; the queue goes on
            for _, answered in batch:
                if not answered.done():
                    answered.set_exception(error)
            return
        self._metrics.batches += 1
        self._metrics.inference_s.add(chunks[0].inference_s)
        for (_, answered), chunk in zip(batch, chunks, strict=True):
            if not answered.done():
                answered.set_result(chunk)
