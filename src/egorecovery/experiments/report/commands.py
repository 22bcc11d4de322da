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
    revision = next((str(cell.record["revision"]) for cell in suite.cells if cell.record.get("revision")), None)
    told = suite.card.get("commands")  # by whoever made the folder, where it was not `egorecovery experiment`
    checkout = [f"git checkout {shlex.quote(revision.removesuffix('-dirty'))}"] if revision else []
    if told or suite.name not in SUITES:
        return [*checkout, "make setup", *map(str, told or [f".venv/bin/egorecovery {suite.name}"])]
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
    return [*checkout, "make setup", *runs]


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
