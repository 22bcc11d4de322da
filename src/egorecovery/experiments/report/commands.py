"""What to type to get a suite's cells again."""

import json
import shlex
from typing import Any

from egorecovery.errors import RecipeError
from egorecovery.experiments.cell import Cell as RunCell
from egorecovery.experiments.report.cells import Cell, Suite
from egorecovery.experiments.suites import SUITES
from egorecovery.policy.config_json import flat, to_json
from egorecovery.training import RECIPES, Budget


def commands(suite: Suite) -> list[str]:
    """One command for all cells that share tasks, seeds and settings; together they make every finished cell."""
    told = suite.card.get("commands")  # by whoever made the folder, where it was not `egorecovery experiment`
    if suite.name == "demo" and suite.cells:
        told = told or [_demo(suite)]
    if told or suite.name not in SUITES:
        return [*_checkout(suite), "make setup", *map(str, told or [f".venv/bin/egorecovery {suite.name}"])]
    groups: dict[tuple[str, ...], list[str]] = {}
    for arm in suite.arms:
        cells = suite.of(arm)
        tasks = " ".join(task for task in suite.tasks if any(cell.task == task for cell in cells))
        seeds = " ".join(map(str, sorted({cell.seed for cell in cells})))
        for options in dict.fromkeys(settings(cell) for cell in cells):
            pattern = "*-" + cells[0].id.removeprefix(f"{cells[0].task}-").rpartition("-s")[0] + "-s[0-9]*"
            groups.setdefault((f"--tasks {tasks}", f"--seeds {seeds}", *options), []).append(pattern)
    home = suite.root.name if suite.root.is_absolute() else str(suite.root)
    start = f".venv/bin/egorecovery experiment {suite.name} --out {shlex.quote(home)}"
    runs = [
        " ".join([start, *options, *(["--only", *map(shlex.quote, patterns)] if len(groups) > 1 else [])])
        for options, patterns in groups.items()
    ]
    return [*_checkout(suite), "make setup", *runs]


def _checkout(suite: Suite) -> list[str]:
    """The youngest revision; the others beside it, and what no checkout brings back."""
    told = [(cell.finished_at, str(cell.record["revision"])) for cell in suite.cells if cell.record.get("revision")]
    revisions = list(dict.fromkeys(revision for _, revision in sorted(told, reverse=True)))
    if not revisions:
        return []
    clean = list(dict.fromkeys(revision.removesuffix("-dirty") for revision in revisions))
    notes = [f"some cells were made at {', '.join(clean[1:])}"] * (len(clean) > 1)
    notes += ["with changes that were not committed"] * (clean != revisions)
    beside = f"  # {'; '.join(notes)}" if notes else ""
    return [f"git checkout {shlex.quote(clean[0])}{beside}"]


def _demo(suite: Suite) -> str:
    """Its options, from what the cells say of themselves."""
    budgets = [cell.record["budget"] for cell in suite.cells]
    cell = suite.cells[0]
    options = {
        "task": cell.task,
        "steps": cell.part("recipe")["optimisation"]["steps"],
        "rollouts": cell.part("protocol")["rollouts"],
        **{
            name: max(budget[name] for budget in budgets)
            for name in ("robot_success", "robot_recovery", "human_recovery")
        },
    }
    told = [f"--{name.replace('_', '-')} {shlex.quote(str(value))}" for name, value in options.items()]
    return " ".join([".venv/bin/egorecovery demo", *told])


def settings(cell: Cell) -> tuple[str, ...]:
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


def changes(cell: Cell) -> dict[str, Any]:
    """Fields in which a cell's recipe is not the named one; nothing where that recipe is no longer known."""
    found = flat(dict(cell.part("recipe")))
    named = RECIPES.get(str(found.get("name")))
    try:
        run = RunCell(
            suite="",
            task=cell.task,
            method=cell.record["method"],
            seed=cell.seed,
            budget=Budget(**cell.record["budget"]),
        )
        usual = flat(to_json(run.recipe(named))) if named else {}
    except (RecipeError, TypeError):
        usual = {}
    return {field: value for field, value in found.items() if field in usual and usual[field] != value}
