"""The stores of a suite: what they lack, and how it is made."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from egorecovery.experiments import data
from egorecovery.experiments.folder import ExperimentFolder
from egorecovery.experiments.plan import SuitePlan
from egorecovery.experiments.resources import Resources
from egorecovery.experiments.time_left import TimeLeft
from egorecovery.workcell.collection import Job, Order

Progress = Callable[[str, int, int, float | None], None]  # what, done, total, seconds until the store is complete


class Stores:
    def __init__(
        self,
        plan: SuitePlan,
        orders: Mapping[str, Sequence[Order]],
        folder: ExperimentFolder,
        resources: Resources,
        time_left: TimeLeft,
    ) -> None:
        """`orders` are those of the plan that are needed now, by store."""
        self._plan, self._orders, self._folder, self._resources = plan, orders, folder, resources
        self._time_left = time_left
        self._lacking = {store: _lacking(folder.data(store), ordered) for store, ordered in orders.items()}
        self._complete: set[str] = set()

    def complete(self, store: str) -> bool:
        return store in self._complete

    def lacks(self, store: str) -> int:
        """Episodes."""
        return 0 if self.complete(store) else sum(self._lacking[store].values())

    def needs_s(self, store: str) -> float:
        """Until it is complete; nothing as long as nobody knows."""
        return self._time_left.timing.seconds("data", store, self.lacks(store)) or 0.0

    def provide(self, store: str, on_progress: Progress) -> None:
        lacking, lacked, started_s = self._lacking[store], self.lacks(store), time.monotonic()

        def progress(what: str, done: int, total: int) -> None:
            if what in lacking:  # labels are not, and take no time to speak of
                lacking[what] = total - done
            made, workers = lacked - self.lacks(store), self._resources.data_workers
            on_progress(what, done, total, self._time_left.at("data", store, made, lacked, where=store, warm=workers))

        data.provide(
            self._folder.data(store),
            self._orders[store],
            self._plan.recipes[store],
            allowed=self._plan.orders[store],
            workers=self._resources.data_workers,
            executor=self._resources.executor,
            on_progress=progress,
        )
        self._time_left.ended("data", store)
        made = lacked - self.lacks(store)
        if made > 2 * self._resources.data_workers:  # of fewer, most of the time is the workers' start
            self._time_left.timing.took("data", store, made, time.monotonic() - started_s)
        self._complete.add(store)


def _lacking(root: Path, orders: Sequence[Order]) -> dict[str, int]:
    """Episodes, by what is told while they are made."""
    there = {path.name for path in (root / "episodes").glob("*")}
    names = {order: [Job(order, index, root).name for index in range(order.episodes)] for order in orders}
    return {f"{order.task} {order.source}": len(set(names[order]) - there) for order in orders}
