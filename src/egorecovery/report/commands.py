"""What to type to get a suite's cells again."""

import json
import shlex
from typing import Any

from egorecovery.errors import RecipeError
from egorecovery.experiments.cell import Cell
from egorecovery.experiments.condition import Condition
from egorecovery.experiments.suites import SUITES
from egorecovery.policy.config_json import flat
from egorecovery.report.results import FinishedCell, SuiteResults
from egorecovery.storage.typed_json import to_json
from egorecovery.training import RECIPES


def commands(results: SuiteResults) -> list[str]:
    """One command for all cells that share tasks, seeds and settings; together they make every finished cell."""
    if results.stated_commands or results.name not in SUITES:
        by_name = (
            _demo(results) if results.name == "demo" and results.cells else f".venv/bin/egorecovery {results.name}"
        )
        return [*_checkout(results), "make setup", *(results.stated_commands or [by_name])]
    groups: dict[tuple[str, ...], list[str]] = {}
    for condition in results.conditions:
        cells = results.of(condition)
        tasks = " ".join(task for task in results.tasks if any(cell.task == task for cell in cells))
        seeds = " ".join(map(str, sorted({cell.seed for cell in cells})))
        for options in dict.fromkeys(settings(cell) for cell in cells):
            pattern = "*-" + cells[0].id.removeprefix(f"{cells[0].task}-").rpartition("-s")[0] + "-s[0-9]*"
            groups.setdefault((f"--tasks {tasks}", f"--seeds {seeds}", *options), []).append(pattern)
    home = results.root.name if results.root.is_absolute() else str(results.root)
    start = f".venv/bin/egorecovery experiment {results.name} --out {shlex.quote(home)}"
    runs = [
        " ".join([start, *options, *(["--only", *map(shlex.quote, patterns)] if len(groups) > 1 else [])])
        for options, patterns in groups.items()
    ]
    return [*_checkout(results), "make setup", *runs]


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


def _demo(results: SuiteResults) -> str:
    """Its options, from what the cells say of themselves."""
    budgets = [cell.card["budget"] for cell in results.cells]
    cell = results.cells[0]
    options = {
        "task": cell.task,
        "steps": cell.part("recipe")["optimisation"]["steps"],
        "rollouts": cell.part("protocol")["rollouts"],
        **{
            name: max(budget[name] for budget in budgets)
            for name in ("robot_success", "robot_recovery", "human_recovery")
        },
    }
    arguments = [f"--{name.replace('_', '-')} {shlex.quote(str(value))}" for name, value in options.items()]
    return " ".join([".venv/bin/egorecovery demo", *arguments])


def settings(cell: FinishedCell) -> tuple[str, ...]:
    """The options of `egorecovery experiment` that decide a result."""
    protocol, options = cell.part("protocol"), []
    name = cell.part("recipe").get("name")
    for option, value in (
        ("recipe", name),
        ("protocol", protocol.get("name")),
        ("rollouts", protocol.get("rollouts")),
        ("starts-seed", protocol.get("starts_seed")),
        ("replan", protocol.get("replan_steps")),  # always: what is usual is not the same in every revision
    ):
        options += [f"--{option} {shlex.quote(str(value))}"] if value is not None else []
    for field, value in changes(cell).items():
        text = value if isinstance(value, str) else json.dumps(value)
        options.append(f"--set {field} {shlex.quote(text)}")
    return tuple(options)


def changes(cell: FinishedCell) -> dict[str, Any]:
    """Fields in which a cell's recipe is not the named one; nothing where that recipe is no longer known."""
    used = flat(dict(cell.part("recipe")))
    named = RECIPES.get(str(used.get("name")))
    condition = Condition(method=cell.condition.method, budget=cell.condition.budget)
    try:
        planned = Cell(suite="", task=cell.task, seed=cell.seed, **vars(condition))
        usual = flat(to_json(planned.recipe(named))) if named else {}
    except (RecipeError, TypeError):
        usual = {}
    return {field: value for field, value in used.items() if field in usual and usual[field] != value}
