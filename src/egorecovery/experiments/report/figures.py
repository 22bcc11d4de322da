"""The report's charts: intervals, curves beside the paper's, training."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from egorecovery.evaluation.protocol import Regime
from egorecovery.evaluation.statistics import Interval, Rate
from egorecovery.experiments.report.arms import Arm, Sources, task_title
from egorecovery.experiments.report.cells import Suite
from egorecovery.experiments.report.numbers import Numbers
from egorecovery.experiments.report.svg import GRID, INK, RULE, SOFT, Axis, Canvas, Points, log_ticks, thinned, ticks
from egorecovery.training.logs import read_log

# Okabe and Ito's palette, as in the diagnostics' figures; shapes tell methods apart without colour.
STYLE: Mapping[str, tuple[str, str]] = {
    "robot_success": ("#858585", "square"),
    "robot_success_human_success": ("#56B4E9", "up"),
    "robot_success_human_recovery": ("#CC79A7", "down"),
    "robot_recovery": ("#0072B2", "square"),
    "human_success_mix": ("#E69F00", "up"),
    "direct_human_recovery_mix": ("#D55E00", "diamond"),
    "egorecovery": ("#009E73", "circle"),
    "without_intent_loss": ("#E69F00", "up"),
    "without_segment_mask": ("#56B4E9", "down"),
    "without_intent_modulation": ("#CC79A7", "square"),
    "always_on_modulation": ("#0072B2", "left"),
}
OTHER = ("#595959", "left")
VERDICT = {
    "holds": "#00694e",
    "contradicted": "#a33c00",
    "not seen": "#7a4b00",
    "undecided": "#5b6874",
    "not run": "#9aa5af",
}
POINTS = 48  # of a training curve

# What is drawn of a log: kind of row, name, title, whether on a logarithmic scale.
CURVES = (
    ("train", "imitation_robot", "imitation loss, robot", True),
    ("train", "intent", "intent loss", True),
    ("train", "gate_accuracy", "gate accuracy", False),
    ("held_out", "action_error/robot_recovery", "held-out error, robot recovery", False),
)


def heat(value: float) -> tuple[str, str]:
    """Background and ink of a rate: one hue from pale to deep, so that grey prints keep the order."""
    stops = ((246, 249, 252), (212, 228, 241), (150, 190, 220), (62, 126, 182), (8, 60, 118))
    place = min(max(value, 0.0), 1.0) * (len(stops) - 1)
    first = min(int(place), len(stops) - 2)
    colour = [round(a + (place - first) * (b - a)) for a, b in zip(stops[first], stops[first + 1], strict=True)]
    return "#" + "".join(f"{part:02x}" for part in colour), "#ffffff" if _luminance(colour) < 0.18 else "#000000"


def _luminance(colour: Sequence[int]) -> float:
    """Relative, as contrast is measured by (WCAG): below 0.18 white ink reads better than black."""
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def heat_scale() -> str:
    canvas = Canvas(width=250, height=30, label="colour scale from 0 to 100 percent")
    for step in range(50):
        canvas.box(22 + 4 * step, 2, 4.3, 11, heat((step + 0.5) / 50)[0])
    for percent in (0, 25, 50, 75, 100):
        canvas.text(22 + 2 * percent, 26, f"{percent}", anchor="middle", size=10.5)
    return canvas.svg()


def interval_glyph(
    difference: float, interval: Interval, paper: float | None, span: Interval, colour: str = INK
) -> str:
    """A difference with its interval, the paper's as an open diamond."""
    canvas = Canvas(width=214, height=38, label=f"{100 * difference:+.1f} points")
    across = Axis(low=span.low, high=span.high, start_px=12, end_px=202)
    canvas.line(across(0), 1, across(0), 25, RULE)
    canvas.line(12, 25.5, 202, 25.5, GRID)
    for edge in (span.low, 0.0, span.high):
        canvas.text(across(edge), 35, f"{100 * edge:+.0f}" if edge else "0", anchor="middle", size=9)
    tip = f"here {100 * difference:+.1f} [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}] points"
    canvas.line(across(interval.low), 13, across(interval.high), 13, colour, 2.4)
    for edge in (interval.low, interval.high):
        canvas.line(across(edge), 8.5, across(edge), 17.5, colour, 1.4)
    canvas.mark("circle", across(difference), 13, colour, 2.8, tip=tip)
    if paper is not None:
        canvas.mark("diamond", across(paper), 13, "#7a4b00", 3.8, open_=True, tip=f"paper {100 * paper:+.1f} points")
    return canvas.svg()


def span_of(values: Sequence[float | None]) -> Interval:
    """A round axis that holds zero and all of these."""
    known = [value for value in values if value is not None]
    low, high = min([*known, -0.1]), max([*known, 0.1])
    return Interval(math.floor(10 * low + 1e-9) / 10, math.ceil(10 * high - 1e-9) / 10)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Rates of one method over an amount of data."""

    method: str
    points: tuple[tuple[int, Rate], ...]
    paper: bool


def curves(numbers: Numbers, regime: Regime) -> list[Curve]:
    """Ours and the paper's, over human episodes."""
    drawn: list[Curve] = []
    for paper in (True, False):
        points: dict[str, list[tuple[int, Rate]]] = {}
        for row in numbers.rows:
            theirs = row.paper.rate(regime) if row.paper else None
            rate = theirs if paper else numbers.rate(row.arm, regime) if row.run else None
            if rate is not None:
                points.setdefault(row.arm.method, []).append((row.arm.budget.human, rate))
        drawn += [Curve(method=name, points=tuple(sorted(found)), paper=paper) for name, found in points.items()]
    return drawn


def curve_chart(drawn: Sequence[Curve], title: str, budgets: Sequence[Sources]) -> str:
    """Wilson bands around ours; the paper's dashed with open marks; a single budget is a level line."""
    canvas = Canvas(width=560, height=360, label=title)
    amounts = sorted({budget.human for budget in budgets}) or [0]
    pad = 0.06 * ((amounts[-1] - amounts[0]) or 100)
    across = Axis(low=amounts[0] - pad, high=amounts[-1] + pad, start_px=50, end_px=545)
    up = Axis(low=0, high=1, start_px=292, end_px=34)
    canvas.text(50, 18, title, size=13.5, colour=INK, bold=True)
    for level in (0, 0.2, 0.4, 0.6, 0.8, 1.0):
        canvas.line(50, up(level), 545, up(level), GRID)
        canvas.text(43, up(level) + 4, f"{100 * level:.0f}", anchor="end")
    anchors = {budget.human: budget.robot_recovery for budget in budgets}
    varied = len(set(anchors.values())) > 1
    for amount in amounts:
        canvas.text(across(amount), 310, str(amount), anchor="middle")
        if varied:
            canvas.text(across(amount), 325, f"+ {anchors[amount]} R", anchor="middle", size=10)
    canvas.text(297, 346, "human episodes" + (" + robot recoveries" if varied else ""), anchor="middle")
    for curve in drawn:
        _draw(canvas, curve, across, up)
    return canvas.svg()


def _draw(canvas: Canvas, curve: Curve, across: Axis, up: Axis) -> None:
    colour, shape = STYLE.get(curve.method, OTHER)
    name, whose = Arm(method=curve.method, budget=Sources()).label, "paper" if curve.paper else "here"
    places = [(across(amount), rate) for amount, rate in curve.points]
    if not curve.paper and len(places) > 1:
        lows = [(x, up(rate.wilson.low)) for x, rate in places]
        canvas.area([*((x, up(rate.wilson.high)) for x, rate in places), *reversed(lows)], colour)
    if len(places) > 1:
        route = [(x, up(rate.value)) for x, rate in places]
        canvas.path(
            route, colour, 1.6 if curve.paper else 2.4, "5 4" if curve.paper else "", 0.85 if curve.paper else 1
        )
    elif places:  # a reference: one budget only
        canvas.line(across.start_px, up(places[0][1].value), across.end_px, up(places[0][1].value), colour, 1, "2 3")
    for x, rate in places:
        if not curve.paper:
            canvas.line(x, up(rate.wilson.low), x, up(rate.wilson.high), colour, 1.4)
        canvas.mark(
            shape, x, up(rate.value), colour, 4 if curve.paper else 5, open_=curve.paper, tip=f"{name}, {whose}: {rate}"
        )


def legend(methods: Sequence[str], paper: bool) -> str:
    """Names beside their marks, as HTML that wraps."""
    items = []
    for method in methods:
        colour, shape = STYLE.get(method, OTHER)
        canvas = Canvas(width=34, height=14, label=method)
        canvas.path([(1, 7), (33, 7)], colour, 2.4)
        canvas.mark(shape, 17, 7, colour, 4.5)
        items.append(f"<span>{canvas.svg()}{escape(Arm(method=method, budget=Sources()).label)}</span>")
    if paper:
        canvas = Canvas(width=34, height=14, label="paper")
        canvas.path([(1, 7), (33, 7)], SOFT, 1.6, "5 4")
        canvas.mark("circle", 17, 7, SOFT, 4, open_=True)
        items.append(f"<span>{canvas.svg()}paper (dashed, open marks)</span>")
    return f'<p class="legend">{"".join(items)}</p>'


def training_curves(suite: Suite) -> tuple[str, list[str]]:
    """Small multiples, a row per task; and the methods that are in them. Dashed where data was collected otherwise."""
    logs = {cell.id: read_log(cell.folder / "log.jsonl") for cell in suite.cells if not cell.arm.intervened}
    lines: dict[tuple[str, str], list[tuple[Arm, Points]]] = {}
    for cell in suite.cells:
        for kind, name, _, log in CURVES:
            rows = [row for row in logs.get(cell.id, ()) if row.get("kind") == kind]
            points = [(row["step"], row[name]) for row in rows if _drawable(row.get(name), log)]
            if len(points) > 1:
                lines.setdefault((cell.task, name), []).append((cell.arm, thinned(points, POINTS)))
    charts = []
    for task in suite.tasks:
        row = [
            _small(title, f"{task_title(task)}: {title}", lines[task, name], log)
            for _, name, title, log in CURVES
            if (task, name) in lines
        ]
        charts += [f'<h4>{escape(task_title(task))}</h4><div class="multiples">{"".join(row)}</div>'] if row else []
    drawn = {arm for rows in lines.values() for arm, _ in rows}
    ways = dict.fromkeys(arm.collected for arm in suite.arms if arm in drawn and arm.collected)
    told = f"<p>Dashed: {escape('; '.join(ways))}.</p>" if ways and charts else ""
    return told + "".join(charts), list(dict.fromkeys(arm.method for arm in suite.arms if arm in drawn))


def _drawable(value: object, log: bool) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 1e15 and (value > 0 or not log)


def _small(title: str, spoken: str, lines: Sequence[tuple[Arm, Points]], log: bool) -> str:
    canvas = Canvas(width=286, height=190, label=spoken)
    values = [y for _, points in lines for _, y in points]
    low, high = min(values), max(values)
    if log:
        low, high = low / 1.15, high * 1.15
    else:
        low, high = low - 0.06 * ((high - low) or 1), high + 0.06 * ((high - low) or 1)
    last = max(x for _, points in lines for x, _ in points)
    across = Axis(low=0, high=last, start_px=42, end_px=276)
    up = Axis(low=low, high=high, start_px=160, end_px=28, log=log)
    canvas.text(4, 15, title, size=11, colour=INK, bold=True)
    for level in log_ticks(low, high) if log else ticks(low, high, 5):
        canvas.line(42, up(level), 276, up(level), GRID)
        canvas.text(37, up(level) + 3.5, f"{level:g}", anchor="end", size=9.5)
    for step in ticks(0, last, 4):
        canvas.text(
            across(step), 174, f"{step / 1000:g}k" if last >= 2000 and step else f"{step:g}", anchor="middle", size=9.5
        )
    canvas.text(276, 187, "steps", anchor="end", size=9.5)
    for arm, points in lines:
        dash = "4 3" if arm.collected else ""
        canvas.path([(across(x), up(y)) for x, y in points], STYLE.get(arm.method, OTHER)[0], 1.6, dash, 0.9)
    return canvas.svg()
