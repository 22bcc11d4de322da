"""Tables of differences: methods against each other, trainings of one method, variants against the full method."""

from collections.abc import Sequence
from html import escape

from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.evaluation.statistics import Interval, SeedSummary
from egorecovery.experiments.report.arms import Arm, task_title
from egorecovery.experiments.report.duels import Duel
from egorecovery.experiments.report.figures import VERDICT, interval_glyph, span_of
from egorecovery.experiments.report.findings import points, verdict
from egorecovery.experiments.report.numbers import Numbers, Row
from egorecovery.experiments.report.paper import MAIN
from egorecovery.experiments.report.tables import (
    BOTH,
    GAP,
    TITLE,
    columns_of,
    heat_cell,
    heat_frame,
    percent,
    row_class,
    row_head,
)


def duel_table(duels: Sequence[Duel]) -> str:
    """Differences of the rates on the same starts, drawn and in numbers; both regimes side by side."""
    span = span_of([edge for duel in duels for edge in (duel.found.interval.low, duel.found.interval.high)])
    found = {(duel.first, duel.second, duel.tasks, duel.regime): duel for duel in duels}
    body, pair = [], None
    for first, second, tasks in dict.fromkeys(key[:3] for key in found):
        if (first, second) != pair:
            pair = (first, second)
            body.append(
                f'<tr class="part"><th colspan="9">{escape(second.label)} minus {escape(first.label)}</th></tr>'
            )
        sides = "".join(_duel_cells(found.get((first, second, tasks, regime)), span) for regime in BOTH)
        name = task_title(tasks[0]) if len(tasks) == 1 else f"{len(tasks)} tasks pooled"
        body.append(f'<tr><th scope="row">{escape(name)}</th>{sides}</tr>')
    head = '<th class="n">Rates</th><th class="n">Points [95%]</th><th class="n">p</th><th></th>'
    groups = "".join(f'<th colspan="4" class="group">{TITLE[regime]}</th>' for regime in BOTH)
    return (
        f'<div class="scroll"><table class="plain tight"><thead><tr><th></th>{groups}</tr>'
        f"<tr><th>Tasks</th>{head}{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _duel_cells(duel: Duel | None, span: Interval) -> str:
    if duel is None:
        return '<td colspan="4"></td>'
    found = duel.found
    colour = VERDICT[verdict(found.interval, found.p_value, duel.trainings)]
    tip = f"{found.starts} starts; rollouts that only one solved: {found.only_second} against {found.only_first}"
    others = f"<small>other trainings {points(duel.trainings)}</small>" if duel.trainings else ""
    return (
        f'<td class="n" title="{tip}">{percent(found.second.value)} : {percent(found.first.value)}</td>'
        f'<td class="n" title="{tip}"><b>{100 * found.difference:+.1f}</b> {points(found.interval)}{others}</td>'
        f'<td class="n">{p_words(found.p_value)}</td>'
        f"<td>{interval_glyph(found.difference, found.interval, None, span, colour)}</td>"
    )


def p_words(p_value: float) -> str:
    return "&lt; 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def seed_table(numbers: Numbers) -> str:
    """Arms that were trained more than once; empty if none was."""
    rows = [
        _seed_row(arm, task, regime, found)
        for arm in numbers.suite.arms
        for task in columns_of(numbers)
        for regime in BOTH
        if (found := numbers.over_seeds(arm, regime, task))
    ]
    if not rows:
        return ""
    heads = "".join(f"<th>{head}</th>" for head in ("Method", "Task", "Rate", "Each training"))
    return (
        f'<div class="scroll"><table class="plain"><thead><tr>{heads}'
        '<th class="n">Mean, 95% over starts</th><th class="n">Spread, points</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _seed_row(arm: Arm, task: str | None, regime: Regime, found: SeedSummary) -> str:
    each = ", ".join(f"{percent(rate.value)} <small>(seed {seed})</small>" for seed, rate in found.per_seed.items())
    span = found.interval
    return (
        f'<tr>{row_head(arm)}<td class="once">{escape(task_title(task)) if task else "Average"}</td>'
        f'<td class="once">{TITLE[regime]}</td><td>{each}</td>'
        f'<td class="n">{percent(found.pooled.value)} [{percent(span.low)}, {percent(span.high)}]</td>'
        f'<td class="n">{100 * found.seed_spread:.1f}</td></tr>'
    )


def variant_table(numbers: Numbers) -> str:
    """Ablations and interventions: the paper's and ours, and what each costs against the full method."""
    full = numbers.find("egorecovery")
    duels: dict[tuple[Arm, Regime], Duel | None] = {
        (row.arm, regime): numbers.duel(full, row.arm, regime)
        for row in numbers.rows
        for regime in REGIMES
        if full and row.run and row.arm != full
    }
    edges = [edge for duel in duels.values() if duel for edge in (duel.found.interval.low, duel.found.interval.high)]
    whole_method = Arm(method="egorecovery", budget=MAIN).plays
    base = next((row.paper for row in numbers.rows if row.arm.plays == whole_method), None)
    paper: dict[tuple[Arm, Regime], float] = {
        (row.arm, regime): theirs.value - whole.value
        for row in numbers.rows
        for regime in REGIMES
        if row.paper and base and (theirs := row.paper.rate(regime)) and (whole := base.rate(regime))
    }
    span = span_of([*edges, *paper.values()])
    body = "".join(_variant_row(numbers, row, duels, paper, span) for row in numbers.rows)
    head = '<th scope="col">Paper</th><th scope="col">Here</th><th scope="col">Here minus the full method</th>'
    cols = '<col class="name"><col><col><col class="glyph"><col class="gap"><col><col><col class="glyph">'
    gap = '<th class="gap"></th>'
    groups = gap.join(f'<th class="group" colspan="3">{TITLE[regime]}</th>' for regime in BOTH)
    return heat_frame(
        cols,
        f'<tr><th rowspan="2" class="name">Variant</th>{groups}</tr><tr>{head}{gap}{head}</tr>',
        [body],
        kind="variants",
    )


def _variant_row(
    numbers: Numbers,
    row: Row,
    duels: dict[tuple[Arm, Regime], Duel | None],
    paper: dict[tuple[Arm, Regime], float],
    span: Interval,
) -> str:
    parts = []
    for regime in BOTH:
        rate = numbers.rate(row.arm, regime) if row.run else None
        cells = heat_cell(row.paper.rate(regime) if row.paper else None, "paper") + heat_cell(rate, "here")
        duel = duels.get((row.arm, regime))
        if duel:
            found = duel.found
            others = duel.trainings and duel.trainings.mirrored  # the paper says that variants do worse
            colour = VERDICT[verdict(found.interval.mirrored, found.p_value, others)]
            glyph = interval_glyph(found.difference, found.interval, paper.get((row.arm, regime)), span, colour)
            cells += f"<td>{glyph}</td>"
        else:
            cells += "<td></td>"
        parts.append(cells)
    return f"<tr{row_class(row.arm)}>{row_head(row.arm)}{GAP.join(parts)}</tr>"
