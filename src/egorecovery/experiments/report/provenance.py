"""Where the numbers come from: machines, revisions, recipes, protocols, data, and how to make them again."""

import json
from collections.abc import Iterable
from typing import Any

from egorecovery.experiments.report.cells import Cell, Suite
from egorecovery.experiments.report.commands import commands

SHOWN = 12  # digits of a hash


def facts(suite: Suite) -> dict[str, str]:
    """What a reader wants to know first, in a few words each."""
    ended = sorted(cell.finished_at for cell in suite.cells if cell.finished_at)
    rollouts = sum(len(cell.rollouts) for cell in suite.cells)
    trained = sum(seconds for cell in suite.cells if (seconds := cell.part("training").get("seconds")))
    evaluated = sum(seconds for cell in suite.cells if (seconds := cell.part("evaluation").get("seconds")))
    return {
        "Cells": f"{len(suite.cells)} finished, {len(suite.unfinished)} not"
        if suite.unfinished
        else f"{len(suite.cells)}",
        "Rollouts": f"{rollouts:,}",
        "Seeds": ", ".join(map(str, suite.seeds)) or "none",
        "Finished": _span([moment[:16].replace("T", " ") for moment in ended]),
        "Time": f"{hours(trained)} training, {hours(evaluated)} evaluation",
        "Hardware": _listed(hardware(cell) for cell in suite.cells),
        "Software": _listed(software(cell) for cell in suite.cells),
        "Revision": _listed(str(cell.record.get("revision") or "unknown") for cell in suite.cells),
        "Recipe": _listed(recipe_name(cell) for cell in suite.cells),
        "Protocol": _listed(protocol_words(cell) for cell in suite.cells),
    }


def record(suite: Suite) -> dict[str, Any]:
    """The same for machines, whole."""
    return {
        "hardware": sorted({hardware(cell) for cell in suite.cells}),
        "revisions": sorted({str(cell.record.get("revision")) for cell in suite.cells}),
        "recipes": sorted({str(cell.record.get("recipe_hash")) for cell in suite.cells}),
        "data": data_hashes(suite),
        "protocols": distinct(cell.part("protocol") for cell in suite.cells),
        "commands": commands(suite),
    }


def data_hashes(suite: Suite) -> dict[str, list[str]]:
    """Per task; methods of one task differ where they use other sources."""
    found: dict[str, set[str]] = {}
    for cell in suite.cells:
        found.setdefault(cell.task, set()).add(str(cell.record.get("data_hash")))
    return {task: sorted(hashes) for task, hashes in sorted(found.items())}


def hardware(cell: Cell) -> str:
    machine = cell.part("hardware")
    device, count = machine.get("device"), machine.get("cpu_count")
    return ", ".join([str(device)] * bool(device) + [f"{count} CPU cores"] * bool(count)) or "unknown"


def software(cell: Cell) -> str:
    """Of the evaluation; older cells do not say."""
    told = cell.part("evaluation").get("versions", {})
    return ", ".join(f"{name} {number}" for name, number in told.items()) or "not recorded"


def recipe_name(cell: Cell) -> str:
    return str(cell.part("recipe").get("name") or "unknown")


def protocol_words(cell: Cell) -> str:
    protocol = cell.part("protocol")
    count, starts, replan = (protocol.get(name) for name in ("rollouts", "starts_seed", "replan_steps"))
    parts = [str(protocol.get("name") or "unknown")]
    parts += [f"{count} starts per task and regime"] * bool(count) + [f"starts '{starts}'"] * bool(starts)
    parts += [f"{replan} steps of a chunk executed"] * bool(replan)
    return ", ".join(parts)


def hours(seconds: int | float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def distinct(records: Iterable[Any]) -> list[Any]:
    return [json.loads(text) for text in sorted({json.dumps(record, sort_keys=True) for record in records})]


def _span(moments: list[str]) -> str:
    if not moments:
        return "never"
    return moments[0] if moments[0] == moments[-1] else f"{moments[0]} to {moments[-1]}"


def _listed(words: Iterable[str]) -> str:
    return "; ".join(sorted(set(words))) or "none"
