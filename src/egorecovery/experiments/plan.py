"""What is to be done: the cells of a suite with recipes, data and protocol, and which of them share a training."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from egorecovery.errors import RecipeError
from egorecovery.evaluation.protocol import COMPARISON, bench_protocol
from egorecovery.experiments import data
from egorecovery.experiments.cell import Cell, CellPlan, ProtocolOf, RecipeOf
from egorecovery.experiments.suites import Suite, suite_named
from egorecovery.training import RECIPES, Recipe
from egorecovery.workcell.collection import Order


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training and the cells that use it."""

    id: str
    recipe: Recipe
    cells: tuple[CellPlan, ...]

    @property
    def store(self) -> str:
        return self.cells[0].cell.store


@dataclass(frozen=True, kw_only=True)
class SuitePlan:
    suite: Suite
    cells: tuple[CellPlan, ...]  # the chosen ones, in the order of their importance
    orders: dict[str, tuple[Order, ...]]  # by store, of the sources that the whole suite uses
    recipes: dict[str, Recipe]  # by store, before methods


def trainings(cells: Sequence[CellPlan]) -> list[Training]:
    """In the order of their first cells."""
    groups: dict[str, list[CellPlan]] = {}
    for plan in cells:
        groups.setdefault(plan.training_id, []).append(plan)
    return [Training(id=training, recipe=plans[0].recipe, cells=tuple(plans)) for training, plans in groups.items()]


def orders_of(cells: Iterable[CellPlan]) -> tuple[Order, ...]:
    """Each once."""
    return tuple(dict.fromkeys(order for plan in cells for order in plan.orders))


def plan_suite(
    suite: Suite,
    *,
    tasks: Sequence[str] | None = None,
    seeds: Sequence[int] = (0,),
    only: Sequence[str] = (),
    recipe: RecipeOf = RECIPES["bench"],
    protocol: ProtocolOf = bench_protocol,
    rollouts: int = 20,
    starts_seed: str = COMPARISON,
) -> SuitePlan:
    """`only` are patterns of cell names, such as '*egorecovery*'; a cell that any of them fits is chosen."""
    cells = suite.cells(tasks, seeds)
    chosen = [cell for cell in cells if not only or any(fnmatchcase(cell.id, pattern) for pattern in only)]
    if not chosen:
        raise RecipeError(f"no cell of {suite.name} is called {' or '.join(only)}; see --list for their names")
    others = [cell for name in suite.shares_stores_with for cell in suite_named(name).cells(tasks or suite.tasks)]
    stores: dict[str, list[Cell]] = {}
    for cell in cells:
        stores.setdefault(cell.store, []).append(cell)
    recipes = {store: recipe(own[0].task) for store, own in stores.items()}
    protocols = {
        store: replace(protocol(own[0].task), rollouts=rollouts, starts_seed=starts_seed)
        for store, own in stores.items()
    }
    orders = {  # demonstrated in the kind of room that policies are evaluated in
        store: data.orders(
            own,
            recipes[store],
            sharing=[cell for cell in others if cell.store == store],
            plain_room=not protocols[store].varied_appearance,
        )
        for store, own in stores.items()
    }
    plans = [
        CellPlan(
            cell=cell,
            recipe=cell.recipe(recipe),
            orders=tuple(order for order in orders[cell.store] if cell.budget.of(order.source)),
            protocol=protocols[cell.store],
        )
        for cell in chosen
    ]
    return SuitePlan(suite=suite, cells=tuple(plans), orders=orders, recipes=recipes)
