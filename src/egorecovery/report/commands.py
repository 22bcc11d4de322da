"""What to type to get a suite's cells again."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from egorecovery.errors import RecipeError
from egorecovery.experiments.cell import Cell
from egorecovery.experiments.suites import SUITES
from egorecovery.policy.config_json import flat
from egorecovery.report.results import FinishedCell, SuiteResults
from egorecovery.storage.typed_json import to_json
from egorecovery.training import RECIPES

VERB = ".venv/bin/egorecovery"


def commands(results: SuiteResults) -> list[str]:
    """A checkout, the installation, and what makes every finished cell."""
    return [*_checkout(results), "make setup", *(results.stated_commands or _runs(results))]


def _checkout(results: SuiteResults) -> list[str]:
    """The youngest revision; the others beside it, and what no checkout brings back."""
    dated = [(cell.finished_at, str(cell.card["revision"])) for cell in results.cells if cell.card.get("revision")]
    revisions = list(dict.fromkeys(revision for _, revision in sorted(dated, reverse=True)))
    if not revisions:
        return []
    clean = list(dict.fromkeys(revision.removesuffix("-dirty") for revision in revisions))
    notes = [f"some cells were made at {', '.join(clean[1:])}"] * (len(clean) > 1)
    notes += ["with changes that were not committed"] * (clean != revisions)
    beside = f"  # {'; '.join(notes)}" if notes else ""
    return [f"git checkout {shlex.quote(clean[0])}{beside}"]


def _runs(results: SuiteResults) -> list[str]:
    """One command for all cells that share tasks, seeds and settings."""
    if results.name == "demo" and results.cells:
        return [_demo(results)]
    if results.name not in SUITES:
        return [f"{VERB} {results.name}"]
    groups: dict[tuple[str, ...], list[FinishedCell]] = {}
    for condition in results.conditions:
        cells = results.of(condition)
        for options in dict.fromkeys(settings(cell) for cell in cells):
            alike = [cell for cell in cells if settings(cell) == options]
            tasks = " ".join(task for task in results.tasks if any(cell.task == task for cell in alike))
            seeds = " ".join(map(str, sorted({cell.seed for cell in alike})))
            groups.setdefault((f"--tasks {tasks}", f"--seeds {seeds}", *options), []).extend(alike)
    home = results.root.name if results.root.is_absolute() else str(results.root)
    start = f"{VERB} experiment {results.name} --out {shlex.quote(home)}"
    return [
        " ".join([start, *options, *(_only(cells) if len(groups) > 1 or not _whole(results, cells) else [])])
        for options, cells in groups.items()
    ]


def _whole(results: SuiteResults, cells: Sequence[FinishedCell]) -> bool:
    """Whether these are all that the suite plans for their tasks and seeds."""
    tasks, seeds = {cell.task for cell in cells}, {cell.seed for cell in cells}
    planned = {replace(condition, settings=tuple(sorted(condition.settings))) for condition in results.suite.conditions}
    there = {(cell.condition, cell.task, cell.seed) for cell in cells}
    return there >= set(product(planned, tasks, seeds))


def _only(cells: Sequence[FinishedCell]) -> list[str]:
    """The pattern of each condition, or its cells one by one where it has not run every seed on every task."""
    tasks, seeds = {cell.task for cell in cells}, {cell.seed for cell in cells}
    patterns: list[str] = []
    for condition in dict.fromkeys(cell.condition for cell in cells):
        own = [cell for cell in cells if cell.condition == condition]
        rest = own[0].id.removeprefix(f"{own[0].task}-").rpartition("-s")[0]
        whole = len(own) == len(tasks) * len(seeds)
        patterns += [f"*-{rest}-s[0-9]*"] if whole else [cell.id for cell in own]
    return ["--only", *map(shlex.quote, patterns)]


def _demo(results: SuiteResults) -> str:
    """Its options, from what the cells say of themselves."""
    cell, budgets = results.cells[0], [cell.card["budget"] for cell in results.cells]
    sources = ("robot_success", "robot_recovery", "human_recovery")
    options = {
        "task": cell.task,
        "steps": cell.part("recipe")["optimisation"]["steps"],
        "rollouts": cell.part("protocol")["rollouts"],
        **{source: max(budget[source] for budget in budgets) for source in sources},
    }
    return " ".join([f"{VERB} demo", *_arguments(options)])


def settings(cell: FinishedCell) -> tuple[str, ...]:
    """The options of `egorecovery experiment` that decide a result."""
    protocol = cell.part("protocol")
    options = {
        "recipe": cell.part("recipe").get("name"),
        "protocol": protocol.get("name"),
        "rollouts": protocol.get("rollouts"),
        "starts_seed": protocol.get("starts_seed"),
        "replan": protocol.get("replan_steps"),  # always: what is usual is not the same in every revision
    }
    changed = {name: value if isinstance(value, str) else json.dumps(value) for name, value in changes(cell).items()}
    return (*_arguments(options), *(f"--set {name} {shlex.quote(text)}" for name, text in changed.items()))


def _arguments(options: Mapping[str, Any]) -> list[str]:
    known = {name.replace("_", "-"): value for name, value in options.items() if value is not None}
    return [f"--{name} {shlex.quote(str(value))}" for name, value in known.items()]


def changes(cell: FinishedCell) -> dict[str, Any]:
    """Fields in which a cell's recipe is not the named one; nothing where that recipe is no longer known."""
    used = flat(dict(cell.part("recipe")))
    named = RECIPES.get(str(used.get("name")))
    method, budget = cell.condition.method, cell.condition.budget
    try:
        planned = Cell(suite="", task=cell.task, seed=cell.seed, method=method, budget=budget)
        usual = flat(to_json(planned.recipe(named))) if named else {}
    except (RecipeError, TypeError):
        usual = {}
    return {field: value for field, value in used.items() if field in usual and usual[field] != value}
