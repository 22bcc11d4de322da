"""The page's tables."""

from collections.abc import Callable, Sequence
from html import escape

from egorecovery.evaluation.protocol import REGIMES, Regime
from egorecovery.evaluation.statistics import Interval, Rate, SeedSummary
from egorecovery.experiments.report_arms import NOTATION, Arm, task_title
from egorecovery.experiments.report_figures import VERDICT, heat, interval_glyph, span_of
from egorecovery.experiments.report_findings import points, verdict
from egorecovery.experiments.report_numbers import Duel, Numbers, Row

TITLE = {"initial": "Initial SR", "recovery": "Recovery SR"}
WORDS = {"initial": "from nominal starts", "recovery": "from failures"}
BOTH: tuple[Regime, ...] = ("recovery", "initial")  # in this order everywhere
FEW = 4  # columns; they may be wider
RateOf = Callable[[Arm, Regime, str | None], Rate | None]
GAP = '<td class="gap"></td>'


def percent(value: float) -> str:
    return f"{100 * value:.1f}".removesuffix(".0")


def heat_cell(rate: Rate | None, whose: str, part: str = "") -> str:
    if rate is None:
        return f'<td class="none">{"not run" if whose == "here" else "&ndash;"}</td>'
    colour, ink = heat(rate.value)
    span = rate.wilson
    told = f"<small>{part}</small>" if part else ""
    tip = f"{whose}: {rate.successes} of {rate.rollouts}, Wilson 95% {percent(span.low)} to {percent(span.high)}"
    return (
        f'<td style="background:{colour};color:{ink}" title="{escape(tip)}"><b>{percent(rate.value)}</b>'
        f"<small>{rate.successes}/{rate.rollouts}</small>"
        f"<small>{100 * span.low:.0f}&ndash;{100 * span.high:.0f}</small>{told}</td>"
    )


def row_head(arm: Arm) -> str:
    return f'<th scope="row">{escape(arm.label)}<small>{notation(arm)}</small></th>'


def notation(arm: Arm) -> str:
    """The budget in the paper's letters: R and H for robot and human."""
    parts = [(name[0], name[1:], count) for name, count in zip(NOTATION, arm.budget, strict=True) if count]
    return " + ".join(f"{who}<sub>{what}</sub>&thinsp;{count}" for who, what, count in parts)


def row_class(arm: Arm) -> str:
    return ' class="ours"' if arm.method == "egorecovery" and not arm.intervened else ""


def heat_table(numbers: Numbers, regime: Regime) -> str:
    """The paper's table and ours, row by row; averages are pooled over the tasks."""
    columns = columns_of(numbers)
    body = []
    for row in numbers.rows:
        theirs = "".join(heat_cell(paper_rate(numbers, row, regime, task), "paper") for task in columns)
        ours = "".join(
            heat_cell(numbers.rate(row.arm, regime, task) if row.run else None, "here", _part(numbers, row.arm, task))
            for task in columns
        )
        body.append(f"<tr{row_class(row.arm)}>{row_head(row.arm)}{theirs}{GAP}{ours}</tr>")
    caption = f"{TITLE[regime]}, % of rollouts {WORDS[regime]} that succeed"
    return _two_blocks(columns, ("Paper, real robot", "Here, simulated workcell"), body, caption)


def own_table(numbers: Numbers, rate_of: RateOf) -> str:
    """Ours alone, both regimes side by side."""
    columns = columns_of(numbers)
    body = []
    for arm in (row.arm for row in numbers.rows if row.run):
        parts = [
            "".join(heat_cell(rate_of(arm, regime, task), "here", _part(numbers, arm, task)) for task in columns)
            for regime in BOTH
        ]
        body.append(f"<tr{row_class(arm)}>{row_head(arm)}{GAP.join(parts)}</tr>")
    return _two_blocks(columns, (TITLE["recovery"], TITLE["initial"]), body)


def _part(numbers: Numbers, arm: Arm, task: str | None) -> str:
    return "" if task else numbers.part(arm)


def columns_of(numbers: Numbers) -> list[str | None]:
    """Tasks, and None for their average where there are several."""
    return [*numbers.tasks, *([None] if len(numbers.tasks) > 1 else [])]


def paper_rate(numbers: Numbers, row: Row, regime: Regime, task: str | None) -> Rate | None:
    if row.paper is None:
        return None
    return row.paper.over(regime, numbers.tasks) if task is None else row.paper.rate(regime, task)


def _two_blocks(columns: Sequence[str | None], names: tuple[str, str], body: Sequence[str], caption: str = "") -> str:
    heads = "".join(f'<th scope="col">{escape(task_title(task)) if task else "Average"}</th>' for task in columns)
    blank = '<th class="gap"></th>'
    groups = blank.join(f'<th class="group" colspan="{len(columns)}">{name}</th>' for name in names)
    cols = f'<col class="name">{"<col>" * len(columns)}<col class="gap">{"<col>" * len(columns)}'
    return heat_frame(
        cols, f'<tr><th rowspan="2" class="name">Method</th>{groups}</tr><tr>{heads}{blank}{heads}</tr>', body, caption
    )


def heat_frame(cols: str, head: str, body: Sequence[str], caption: str = "") -> str:
    titled = f"<caption>{caption}</caption>" if caption else ""
    few = " few" if cols.count("<col>") <= FEW else ""
    return (
        f'<div class="scroll"><table class="heat{few}">{titled}<colgroup>{cols}</colgroup><thead>{head}</thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def mode_table(numbers: Numbers) -> str:
    """Recovery by the kind of failure it starts from."""
    modes = {task: numbers.modes(task) for task in numbers.tasks}
    groups = "".join(
        f'<th class="group" colspan="{len(names)}">{escape(task_title(task))}</th>'
        for task, names in modes.items()
        if names
    )
    heads = "".join(
        f'<th scope="col">{escape(mode.replace("_", " "))}</th>' for names in modes.values() for mode in names
    )
    body = []
    for arm in numbers.suite.arms:
        found = {task: numbers.by_mode(arm, task) for task in modes}
        cells = "".join(heat_cell(found[task].get(mode), "here") for task, names in modes.items() for mode in names)
        body.append(f"<tr{row_class(arm)}>{row_head(arm)}{cells}</tr>")
    cols = f'<col class="name">{"<col>" * sum(map(len, modes.values()))}'
    return heat_frame(cols, f'<tr><th rowspan="2" class="name">Method</th>{groups}</tr><tr>{heads}</tr>', body)


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
    base = next((row.paper for row in numbers.rows if row.arm.plays == ("egorecovery", False, "learned")), None)
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
        cols, f'<tr><th rowspan="2" class="name">Variant</th>{groups}</tr><tr>{head}{gap}{head}</tr>', [body]
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


def budget_table(numbers: Numbers) -> str:
    """The points of the curves."""
    columns: list[tuple[Regime, str]] = [(regime, whose) for regime in BOTH for whose in ("paper", "here")]
    body = []
    for row in numbers.rows:
        cells = [
            heat_cell(row.paper.rate(regime) if row.paper else None, whose)
            if whose == "paper"
            else heat_cell(numbers.rate(row.arm, regime) if row.run else None, whose)
            for regime, whose in columns
        ]
        body.append(f"<tr{row_class(row.arm)}>{row_head(row.arm)}{''.join(cells)}</tr>")
    heads = '<th scope="col">Paper</th><th scope="col">Here</th>'
    groups = "".join(f'<th class="group" colspan="2">{TITLE[regime]}</th>' for regime in BOTH)
    head = f'<tr><th rowspan="2" class="name">Method and data</th>{groups}</tr><tr>{heads}{heads}</tr>'
    return heat_frame('<col class="name"><col><col><col><col>', head, body)
