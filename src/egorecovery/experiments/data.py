"""The data of a suite: stores large enough for the largest budgets drawn from them, made once and shared by all cells.

Sources that no chosen cell needs are left for later.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from egorecovery.episodes import EpisodeStore, Source
from egorecovery.errors import StoreError
from egorecovery.executors import Executor
from egorecovery.experiments.cell import Cell
from egorecovery.intent import label_store
from egorecovery.training import Recipe
from egorecovery.workcell.appearance import PLAIN
from egorecovery.workcell.collection import Job, Order, collect
from egorecovery.workcell.starts import Start

DATA_SEED = 1  # evaluation starts are drawn from seed 0 and purposes of their own: no start is ever in the data


def orders(
    cells: Sequence[Cell], recipe: Recipe, *, sharing: Sequence[Cell] = (), plain_room: bool = False
) -> tuple[Order, ...]:
    """What cells of one store need of the sources they use: the most of any cell, and the held-out episodes.

    Pools are drawn from what a store holds, so these must be all such cells of the suite, whichever are run here, and
    `sharing` those of other suites: only then do several machines train on the same episodes.
    """
    collected = cells[0]  # all of them alike: the name of a store says how its data was collected
    used = [source for source in Source if any(cell.budget.of(source) for cell in cells)]
    most = {source: max(cell.budget.of(source) for cell in (*cells, *sharing)) for source in used}
    return tuple(
        Order(
            task=recipe.task,
            source=source,
            episodes=count + recipe.held_out,
            seed=DATA_SEED,
            image_size=recipe.policy.image_size,
            plain_room=plain_room,
            across_family=source is Source.ROBOT_RECOVERY and collected.robot_failures == "anywhere",
            stand_in=source.is_human and collected.humans == "stand_ins",
            hidden_embodiment=collected.hidden_embodiment,
            near_misses=source.is_recovery and collected.robot_failures == "near_misses",
            off_centre_grips=collected.off_centre_grips,
            turned_hands=collected.turned_hands and not source.is_human,
        )
        for source, count in most.items()
    )


def provide(
    root: Path,
    wanted: Sequence[Order],
    recipe: Recipe,
    *,
    allowed: Sequence[Order] = (),
    workers: int = 1,
    executor: Executor = "local",
    on_progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> EpisodeStore:
    """The labelled store, with what was missing added.

    Refuses one with other episodes of the same sources, unless allowed. What it holds of others is another suite's.
    """
    store = EpisodeStore.create(root)
    known = (*wanted, *allowed)
    names = {Job(order, index, root).name for order in known for index in range(order.episodes)}
    sources = {order.source for order in known}
    strangers = [name for name in sorted(set(store.ids()) - names) if store.card(name).source in sources]
    if strangers:
        raise StoreError(
            f"{root} holds {len(strangers)} episodes that this experiment did not order, such as {strangers[0]}: "
            "budgets would be drawn from them too; use another --out, or another --work"
        )
    _require_same_room(store, wanted)

    def progress(order: Order, done: int, total: int) -> None:
        on_progress(f"{order.task} {order.source}", done, total)

    collect(wanted, store, workers, executor, progress)
    label_store(store, recipe.intent, workers, lambda done, total: on_progress(f"{recipe.task} labels", done, total))
    return store


def _require_same_room(store: EpisodeStore, orders: Sequence[Order]) -> None:
    """Names do not say which: one episode of each order, where there is any, does."""
    there_already = set(store.ids())
    for order in orders:
        name = Job(order, 0, store.root).name
        if name not in there_already:
            continue
        start = Start.of(cast("dict[str, Any]", store.read(name).provenance.details["start"]))
        if (start.appearance == PLAIN) != order.plain_room:
            rooms = ("rooms that change", "a plain room")
            there, here = (rooms[plain] for plain in (not order.plain_room, order.plain_room))
            raise StoreError(f"{store.root}: {name} was collected in {there}, this experiment wants {here}")
