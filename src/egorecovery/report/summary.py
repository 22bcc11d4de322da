"""Everything the page says, as numbers; rates are fractions."""

from dataclasses import asdict
from typing import Any

from egorecovery.evaluation.protocol import REGIMES
from egorecovery.evaluation.statistics import Interval, Rate, rate
from egorecovery.experiments.condition import Condition
from egorecovery.experiments.diagnoses import diagnoses
from egorecovery.report.analysis import Analysis, Repeated, TableRow
from egorecovery.report.gate import gates
from egorecovery.report.judged_claims import JudgedClaim
from egorecovery.report.paired import PairedComparison
from egorecovery.report.provenance import provenance
from egorecovery.report.results import FinishedCell

SCHEMA = 1
OF_CELLS = ("variant", "training", "evaluation", "hardware", "revision", "recipe_hash", "data_hash", "finished_at")


def as_json(value: object) -> Any:
    """Of what JSON does not know: rates and intervals."""
    if isinstance(value, Interval):
        return [value.low, value.high]
    if isinstance(value, Rate):
        counts = {"successes": value.successes, "rollouts": value.rollouts}
        return {**counts, "rate": value.value, "wilson": value.wilson}
    raise TypeError(f"{type(value).__name__} has no place in a report")


def summary(analysis: Analysis, claims: list[JudgedClaim]) -> dict[str, Any]:
    results = analysis.results
    return {
        "schema": SCHEMA,
        "suite": results.name,
        "tasks": list(results.tasks),
        "seeds": results.seeds,
        "rows": [_row(analysis, row) for row in analysis.rows],
        "modes": [
            {**_condition(condition), "task": task, "recovery": by_mode}
            for condition in results.conditions
            for task in results.tasks
            if (by_mode := analysis.by_mode(condition, task))
        ],
        "comparisons": [_comparison(paired) for paired in analysis.decisive],
        "gate": [gate.record() for gate in gates(analysis)],
        "over_seeds": [_seeds(repeated) for repeated in analysis.repeated(REGIMES)],
        "findings": [_claim(claim, analysis.claims_suite.name) for claim in claims],
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
        regime: {task or "average": analysis.rate(row.condition, regime, task) for task in columns}
        for regime in REGIMES
    }
    paper = {
        regime: {task or "average": row.paper.rate(regime, task) for task in (*row.paper.tasks, None)}
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


def _comparison(paired: PairedComparison) -> dict[str, Any]:
    comparison = paired.comparison
    return {
        "first": _condition(paired.first),
        "second": _condition(paired.second),
        "regime": paired.regime,
        "tasks": list(paired.tasks),
        "starts": comparison.starts,
        "redrawn": paired.redrawn,
        "first_rate": comparison.first,
        "second_rate": comparison.second,
        "only_first": comparison.only_first,
        "only_second": comparison.only_second,
        "difference": comparison.difference,
        "interval": comparison.interval,
        "p_value": comparison.p_value,
        "interval_over_trainings": paired.trainings,
    }


def _claim(judged: JudgedClaim, suite: str) -> dict[str, Any]:
    return {
        "id": judged.claim.id,
        "suite": suite,
        "says": judged.claim.says,
        "regime": judged.claim.regime,
        "verdict": judged.verdict,
        "rollouts": judged.rollouts,
        "words": judged.sentence,
        "difference": judged.difference,
        "interval": judged.interval,
        "interval_over_trainings": judged.trainings,
        "paper_difference": judged.paper_difference,
        "differs_from_paper": judged.differs_from_paper,
    }


def _seeds(repeated: Repeated) -> dict[str, Any]:
    seeds = repeated.seeds
    return {
        **_condition(repeated.condition),
        "task": repeated.task,
        "regime": repeated.regime,
        "pooled": seeds.pooled,
        "per_seed": seeds.per_seed,
        "interval": seeds.interval,
        "seed_spread": seeds.seed_spread,
    }


def _cell(cell: FinishedCell) -> dict[str, Any]:
    outcomes = {regime: [record for record in cell.rollouts if record.regime == regime] for regime in REGIMES}
    return {
        "id": cell.id,
        **_condition(cell.condition),
        "task": cell.task,
        "seed": cell.seed,
        **{regime: rate(records) if records else None for regime, records in outcomes.items()},
        **{name: cell.card.get(name) for name in OF_CELLS},
    }
