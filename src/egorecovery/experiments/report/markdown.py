"""The report as Markdown: what fits into a repository's documentation."""

from collections.abc import Sequence

from egorecovery.evaluation.protocol import Regime
from egorecovery.evaluation.statistics import Rate
from egorecovery.experiments.report import gate
from egorecovery.experiments.report.arms import task_title
from egorecovery.experiments.report.commands import commands
from egorecovery.experiments.report.diagnostics import diagnoses
from egorecovery.experiments.report.diagnostics import markdown as diagnostics
from egorecovery.experiments.report.duels import Duel
from egorecovery.experiments.report.findings import Finding, points
from egorecovery.experiments.report.numbers import Numbers, Row
from egorecovery.experiments.report.provenance import facts
from egorecovery.experiments.report.sections import TITLES
from egorecovery.experiments.report.tables import BOTH, TITLE, columns_of, paper_rate
from egorecovery.storage.foreign_text import inert, inert_markdown


def markdown(numbers: Numbers, found: Sequence[Finding]) -> str:
    suite = numbers.suite
    title = _shown(TITLES.get(suite.name, suite.name.replace("_", " ").capitalize()))
    parts = [f"# EgoRecovery: {title}", "\n".join(f"- {name}: {_shown(words)}" for name, words in facts(suite).items())]
    if numbers.not_run:
        parts += ["**Not run**", "\n".join(f"- {_shown(words)}" for words in numbers.not_run)]
    told = [f"- **{one.verdict}**: {one.claim.says} {one.beside_verdict}" for one in found]
    parts += ["## What holds here", "\n".join(told)]
    if suite.cells:
        parts.append(
            "## Results\n\nPercent, with successes of rollouts and the Wilson 95% interval; the paper's beside it."
        )
        parts += [_table(numbers, regime) for regime in BOTH]
    if numbers.decisive:
        parts += ["## Paired comparisons", _duels(numbers.decisive)]
    if on_gates := gate.markdown(gate.gates(numbers)):
        parts.append(on_gates)
    if told_why := diagnostics(diagnoses(suite.root)):
        parts.append(told_why)
    parts += ["## To repeat it", "```\n" + "\n".join(map(_command, commands(suite))) + "\n```"]
    return "\n\n".join(parts) + "\n"


def _shown(words: str) -> str:
    """Of a card; plain where the report's own words are."""
    return inert_markdown(words) if set(words) & set("<>&`|![]\\") or inert(words) != words else words


def _command(line: str) -> str:
    """Cannot end its block."""
    return inert(line).replace("```", "`` `").replace("\n", " ")


def _table(numbers: Numbers, regime: Regime) -> str:
    columns = columns_of(numbers)
    names = [_shown(task_title(task)) if task else "average" for task in columns]
    head = [TITLE[regime], "data", *(f"{name}, {whose}" for name in names for whose in ("paper", "here"))]
    rows = [_row(numbers, row, regime, columns) for row in numbers.rows]
    return _lines([head, ["---"] * len(head), *rows])


def _row(numbers: Numbers, row: Row, regime: Regime, columns: Sequence[str | None]) -> list[str]:
    cells = [_shown(row.arm.label), row.arm.budget.words]
    for task in columns:
        paper = paper_rate(numbers, row, regime, task)
        rate = numbers.rate(row.arm, regime, task) if row.run else None
        part = numbers.part(row.arm) if task is None else ""
        cells += [f"{100 * paper.value:.1f}" if paper else "", _rate(rate) + (f", {part}" if part else "")]
    return cells


def _rate(rate: Rate | None) -> str:
    if rate is None:
        return "not run"
    span = rate.wilson
    return f"{100 * rate.value:.1f} ({rate.successes}/{rate.rollouts}) [{100 * span.low:.1f}, {100 * span.high:.1f}]"


def _duels(duels: Sequence[Duel]) -> str:
    head = ["better?", "than", "rate", "tasks", "starts", "difference, points", "95%", "p", "with other trainings"]
    rows = [
        [
            _shown(duel.second.label),
            _shown(duel.first.label),
            TITLE[duel.regime],
            _shown(", ".join(task_title(task) for task in duel.tasks)),
            str(duel.found.starts),
            f"{100 * duel.found.difference:+.1f}",
            points(duel.found.interval),
            f"{duel.found.p_value:.3g}",
            points(duel.trainings) if duel.trainings else "not known",
        ]
        for duel in duels
    ]
    return _lines([head, ["---"] * len(head), *rows])


def _lines(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
