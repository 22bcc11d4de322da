"""Where the numbers come from: machines, revisions, recipes, protocols, data, and how to make them again."""

import json
from collections.abc import Iterable
from typing import Any

from egorecovery.report.commands import commands
from egorecovery.report.results import FinishedCell, SuiteResults


def facts(results: SuiteResults) -> dict[str, str]:
    """What a reader wants to know first, in a few words each."""
    ended = sorted(cell.finished_at for cell in results.cells if cell.finished_at)
    done, rollouts = len(results.cells), sum(len(cell.rollouts) for cell in results.cells)
    trained = sum(seconds for cell in results.cells if (seconds := cell.part("training").get("seconds")))
    evaluated = sum(seconds for cell in results.cells if (seconds := cell.part("evaluation").get("seconds")))
    return {
        "Cells": str(done) if not results.unfinished else f"{done} finished, {len(results.unfinished)} not",
        "Rollouts": f"{rollouts:,}",
        "Seeds": ", ".join(map(str, results.seeds)) or "none",
        "Finished": _span([moment[:16].replace("T", " ") for moment in ended]),
        "Time": f"{hours(trained)} training, {hours(evaluated)} evaluation",
        "Hardware": _listed(hardware(cell) for cell in results.cells),
        "Software": _listed(software(cell) for cell in results.cells),
        "Revision": _listed(str(cell.card.get("revision") or "unknown") for cell in results.cells),
        "Recipe": _listed(recipe_name(cell) for cell in results.cells),
        "Protocol": _listed(protocol_words(cell) for cell in results.cells),
    }


def provenance(results: SuiteResults) -> dict[str, Any]:
    """The same for machines, whole."""
    return {
        "hardware": sorted({hardware(cell) for cell in results.cells}),
        "revisions": sorted({str(cell.card.get("revision")) for cell in results.cells}),
        "recipes": sorted({str(cell.card.get("recipe_hash")) for cell in results.cells}),
        "data": data_hashes(results),
        "protocols": distinct(cell.part("protocol") for cell in results.cells),
        "commands": commands(results),
    }


def data_hashes(results: SuiteResults) -> dict[str, list[str]]:
    """Per task; methods of one task differ where they use other sources."""
    hashes_by_task: dict[str, set[str]] = {}
    for cell in results.cells:
        hashes_by_task.setdefault(cell.task, set()).add(str(cell.card.get("data_hash")))
    return {task: sorted(hashes) for task, hashes in sorted(hashes_by_task.items())}


def hardware(cell: FinishedCell) -> str:
    machine = cell.part("hardware")
    device, count = machine.get("device"), machine.get("cpu_count")
    return ", ".join([str(device)] * bool(device) + [f"{count} CPU cores"] * bool(count)) or "unknown"


def software(cell: FinishedCell) -> str:
    """Of the evaluation; older cells do not say."""
    versions = cell.part("evaluation").get("versions", {})
    return ", ".join(f"{name} {number}" for name, number in versions.items()) or "not recorded"


def recipe_name(cell: FinishedCell) -> str:
    return str(cell.part("recipe").get("name") or "unknown")


def protocol_words(cell: FinishedCell) -> str:
    protocol = cell.part("protocol")
    forms = {
        "rollouts": "{} starts per task and regime",
        "starts_seed": "starts '{}'",
        "replan_steps": "{} steps of a chunk executed",
    }
    stated = [form.format(protocol[name]) for name, form in forms.items() if protocol.get(name)]
    return ", ".join([str(protocol.get("name") or "unknown"), *stated])


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
