"""The page's tables."""

from collections.abc import Callable, Sequence
from html import escape

from egorecovery.evaluation.protocol import Regime
from egorecovery.evaluation.statistics import Rate
from egorecovery.experiments.report.arms import NOTATION, Arm, task_title
from egorecovery.experiments.report.figures import heat
from egorecovery.experiments.report.numbers import Numbers, Row

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


def heat_frame(cols: str, head: str, body: Sequence[str], caption: str = "", kind: str = "") -> str:
    titled = f"<caption>{caption}</caption>" if caption else ""
    kinds = " ".join(["heat", *([kind] if kind else ["few"] * (cols.count("<col>") <= FEW))])
    return (
        f'<div class="scroll"><table class="{kinds}">{titled}<colgroup>{cols}</colgroup><thead>{head}</thead>'
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
