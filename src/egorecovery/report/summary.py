"""Everything the page says, as numbers; rates are fractions."""

from dataclasses import asdict
from typing import Any

from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.evaluation.statistics import Interval, Rate
from egorecovery.experiments.condition import Condition
from egorecovery.experiments.diagnoses import diagnoses
from egorecovery.report.analysis import Analysis, TableRow
from egorecovery.report.gate import gates
from egorecovery.report.judged_claims import JudgedClaim
from egorecovery.report.paired import PairedComparison
from egorecovery.report.provenance import provenance
from egorecovery.report.results import FinishedCell

SCHEMA = 1
OF_CELLS = ("variant", "training", "evaluation", "hardware", "revision", "recipe_hash", "data_hash", "finished_at")


def summary(analysis: Analysis, claims: list[JudgedClaim]) -> dict[str, Any]:
    results = analysis.results
    return {
        "schema": SCHEMA,
        "suite": results.name,
        "tasks": list(results.tasks),
        "seeds": results.seeds,
        "rows": [_row(analysis, row) for row in analysis.rows],
        "modes": [
            {**_condition(condition), "task": task, "recovery": {mode: _rate(rate) for mode, rate in by_mode.items()}}
            for condition in results.conditions
            for task in results.tasks
            if (by_mode := analysis.by_mode(condition, task))
        ],
        "comparisons": [_comparison(paired) for paired in analysis.decisive],
        "gate": [gate.record() for gate in gates(analysis)],
        "over_seeds": [
            entry
            for condition in results.conditions
            for task in analysis.columns
            for regime in REGIMES
            if (entry := _seeds(analysis, condition, regime, task))
        ],
        "findings": [claim.record() for claim in claims],
        "diagnostics": {diagnosis.task: diagnosis.summary() for diagnosis in diagnoses(results.root)},
        "not_run": analysis.not_run,
        "cells": [_cell(cell) for cell in results.cells],
        **provenance(results),
    }


def _condition(condition: Condition) -> dict[str, Any]:
    return {
        "method": condition.method,
        "budget": asdict(condition.budget),
        "intervention": asdict(condition.intervention),
        "variant": condition.variant,
        "robot_failures": condition.robot_failures,
        "humans": condition.humans,
        "label": condition.label,
    }


def _row(analysis: Analysis, row: TableRow) -> dict[str, Any]:
    columns: list[str | None] = [*analysis.tasks, None]
    ours = {
        regime: {task or "average": _rate(analysis.rate(row.condition, regime, task)) for task in columns}
        for regime in REGIMES
    }
    paper = {
        regime: {task or "average": _rate(row.paper.rate(regime, task)) for task in (*row.paper.tasks, None)}
        for regime in REGIMES
        if row.paper
    }
    return {
        **_condition(row.condition),
        "run": row.run,
        "tasks": list(analysis.tasks_of(row.condition)),
        "seeds": analysis.seeds_of(row.condition),
        "here": ours if row.run else None,
        "paper": paper or None,
    }


def _rate(rate: Rate | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    return {
        "successes": rate.successes,
        "rollouts": rate.rollouts,
        "rate": rate.value,
        "wilson": _interval(rate.wilson),
    }


def _interval(interval: Interval | None) -> list[float] | None:
    return [interval.low, interval.high] if interval else None


def _comparison(paired: PairedComparison) -> dict[str, Any]:
    comparison = paired.comparison
    return {
        "first": _condition(paired.first),
        "second": _condition(paired.second),
        "regime": paired.regime,
        "tasks": list(paired.tasks),
        "starts": comparison.starts,
        "first_rate": _rate(comparison.first),
        "second_rate": _rate(comparison.second),
        "only_first": comparison.only_first,
        "only_second": comparison.only_second,
        "difference": comparison.difference,
        "interval": _interval(comparison.interval),
        "p_value": comparison.p_value,
        "interval_over_trainings": _interval(paired.trainings),
    }


def _seeds(analysis: Analysis, condition: Condition, regime: Regime, task: str | None) -> dict[str, Any] | None:
    seeds = analysis.over_seeds(condition, regime, task)
    if seeds is None:
        return None
    return {
        **_condition(condition),
        "task": task,
        "regime": regime,
        "pooled": _rate(seeds.pooled),
        "per_seed": {str(seed): _rate(rate) for seed, rate in seeds.per_seed.items()},
        "interval": _interval(seeds.interval),
        "seed_spread": seeds.seed_spread,
    }


def _cell(cell: FinishedCell) -> dict[str, Any]:
    outcomes = {regime: [record.succeeded for record in cell.rollouts if record.regime == regime] for regime in REGIMES}
    return {
        "id": cell.id,
        **_condition(cell.condition),
        "task": cell.task,
        "seed": cell.seed,
        **{regime: _rate(Rate(sum(of), len(of))) if of else None for regime, of in outcomes.items()},
        **{name: cell.card.get(name) for name in OF_CELLS},
    }
