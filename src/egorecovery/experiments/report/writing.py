"""A suite's results as a page, as Markdown and as JSON, each saying the same."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.evaluation.statistics import Interval, Rate
from egorecovery.experiments.report import provenance
from egorecovery.experiments.report.arms import Arm
from egorecovery.experiments.report.cells import Cell, read_suite
from egorecovery.experiments.report.diagnostics import diagnoses
from egorecovery.experiments.report.duels import Duel
from egorecovery.experiments.report.findings import Finding, findings
from egorecovery.experiments.report.gate import gates
from egorecovery.experiments.report.markdown import markdown
from egorecovery.experiments.report.numbers import Numbers, Row
from egorecovery.experiments.report.page import page
from egorecovery.experiments.report.tables import columns_of
from egorecovery.storage.atomic_io import write_file

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class ReportFiles:
    html: Path
    markdown: Path
    json: Path

    def __str__(self) -> str:
        return str(self.html)


def write_report(out: Path) -> ReportFiles:
    """From whatever cells are finished; may be called again as more of them are."""
    return write_numbers(Numbers(read_suite(out)))


def write_numbers(numbers: Numbers) -> ReportFiles:
    """The report of a suite that was read already, in its folder."""
    found, out = findings(numbers), numbers.suite.root
    files = ReportFiles(html=out / "report.html", markdown=out / "report.md", json=out / "report.json")
    write_file(files.html, page(numbers, found).encode())
    write_file(files.markdown, markdown(numbers, found).encode())
    write_file(files.json, json.dumps(summary(numbers, found), indent=1, allow_nan=False).encode() + b"\n")
    return files


def summary(numbers: Numbers, found: list[Finding]) -> dict[str, Any]:
    """Everything the page says, as numbers; rates are fractions."""
    suite = numbers.suite
    return {
        "schema": SCHEMA,
        "suite": suite.name,
        "tasks": list(suite.tasks),
        "seeds": suite.seeds,
        "rows": [_row(numbers, row) for row in numbers.rows],
        "modes": [
            {**arm.record(), "task": task, "recovery": {mode: _rate(rate) for mode, rate in by_mode.items()}}
            for arm in suite.arms
            for task in suite.tasks
            if (by_mode := numbers.by_mode(arm, task))
        ],
        "comparisons": [_duel(duel) for duel in numbers.decisive],
        "gate": [one.record() for one in gates(numbers)],
        "over_seeds": [
            entry
            for arm in suite.arms
            for task in columns_of(numbers)
            for regime in REGIMES
            if (entry := _seeds(numbers, arm, regime, task))
        ],
        "findings": [one.record() for one in found],
        "diagnostics": {one.task: one.summary() for one in diagnoses(suite.root)},
        "not_run": numbers.not_run,
        "cells": [_cell(cell) for cell in suite.cells],
        **provenance.record(suite),
    }


def _row(numbers: Numbers, row: Row) -> dict[str, Any]:
    columns: list[str | None] = [*numbers.tasks, None]
    ours = {
        regime: {task or "average": _rate(numbers.rate(row.arm, regime, task)) for task in columns}
        for regime in REGIMES
    }
    paper = {
        regime: {task or "average": _rate(row.paper.rate(regime, task)) for task in (*row.paper.tasks, None)}
        for regime in REGIMES
        if row.paper
    }
    mine = {"tasks": list(numbers.tasks_of(row.arm)), "seeds": numbers.seeds_of(row.arm)}
    return {**row.arm.record(), "run": row.run, **mine, "here": ours if row.run else None, "paper": paper or None}


def _rate(rate: Rate | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    return {
        "successes": rate.successes,
        "rollouts": rate.rollouts,
        "rate": rate.value,
        "wilson": _interval(rate.wilson),
    }


def _interval(interval: Interval) -> list[float]:
    return [interval.low, interval.high]


def _duel(duel: Duel) -> dict[str, Any]:
    found = duel.found
    return {
        "first": duel.first.record(),
        "second": duel.second.record(),
        "regime": duel.regime,
        "tasks": list(duel.tasks),
        "starts": found.starts,
        "first_rate": _rate(found.first),
        "second_rate": _rate(found.second),
        "only_first": found.only_first,
        "only_second": found.only_second,
        "difference": found.difference,
        "interval": _interval(found.interval),
        "p_value": found.p_value,
        "interval_over_trainings": _interval(duel.trainings) if duel.trainings else None,
    }


def _seeds(numbers: Numbers, arm: Arm, regime: Regime, task: str | None) -> dict[str, Any] | None:
    found = numbers.over_seeds(arm, regime, task)
    if found is None:
        return None
    return {
        **arm.record(),
        "task": task,
        "regime": regime,
        "pooled": _rate(found.pooled),
        "per_seed": {str(seed): _rate(rate) for seed, rate in found.per_seed.items()},
        "interval": _interval(found.interval),
        "seed_spread": found.seed_spread,
    }


def _cell(cell: Cell) -> dict[str, Any]:
    counts = {
        regime: [rollout.succeeded for rollout in cell.rollouts if rollout.regime == regime] for regime in REGIMES
    }
    kept = ("variant", "training", "evaluation", "hardware", "revision", "recipe_hash", "data_hash", "finished_at")
    return {
        "id": cell.id,
        **cell.arm.record(),
        "task": cell.task,
        "seed": cell.seed,
        **{regime: _rate(Rate(sum(found), len(found))) if found else None for regime, found in counts.items()},
        **{name: cell.record.get(name) for name in kept},
    }
