"""The report's charts: rates over amounts of data beside the paper's, training curves, the gate over time."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from egorecovery.diagnostics.figures import FAINT, NEUTRAL, panels, svg, whiskers
from egorecovery.evaluation.protocol import Regime
from egorecovery.evaluation.statistics import Rate
from egorecovery.experiments.condition import Condition, human_episodes, task_title
from egorecovery.report.analysis import Analysis
from egorecovery.report.gate import GateInRollouts
from egorecovery.report.results import SuiteResults
from egorecovery.training.logs import read_log

# Okabe and Ito's palette, as in the diagnostics' figures; markers tell methods apart without colour.
STYLE: Mapping[str, tuple[str, str]] = {
    "robot_success": ("#858585", "s"),
    "robot_success_human_success": ("#56B4E9", "^"),
    "robot_success_human_recovery": ("#CC79A7", "v"),
    "robot_recovery": ("#0072B2", "s"),
    "human_success_mix": ("#E69F00", "^"),
    "direct_human_recovery_mix": ("#D55E00", "D"),
    "egorecovery": ("#009E73", "o"),
    "without_intent_loss": ("#E69F00", "^"),
    "without_segment_mask": ("#56B4E9", "v"),
    "without_intent_modulation": ("#CC79A7", "s"),
    "always_on_modulation": ("#0072B2", "<"),
}
OTHER = (NEUTRAL, "<")
GATE_COLOUR: Mapping[Regime, str] = {"recovery": STYLE["egorecovery"][0], "initial": NEUTRAL}
MOST_POINTS = 48  # of a training curve
# What is drawn of a log: kind of row, name, title, whether on a logarithmic scale.
CURVES = (
    ("train", "imitation_robot", "imitation loss, robot", True),
    ("train", "intent", "intent loss", True),
    ("train", "gate_accuracy", "gate accuracy", False),
    ("held_out", "action_error/robot_recovery", "held-out error, robot recovery", False),
)
Number = int | float
Points = Sequence[tuple[Number, Number]]


def data_uri(payload: bytes, mime: str) -> str:
    return f"data:{mime};base64,{base64.b64encode(payload).decode()}"


def budget_chart(analysis: Analysis, regime: Regime, title: str) -> str:
    """Bands and bars: ours with Wilson intervals. Dashed with open marks: the paper's. One amount: a level line."""
    figure, [[ax]] = panels(1, 1, width_in=5.6, height_in=3.6)
    for paper in (True, False):
        points: dict[str, list[tuple[int, Rate]]] = {}
        for row in analysis.rows:
            ours = analysis.rate(row.condition, regime) if row.run else None
            rate = (row.paper and row.paper.rate(regime)) if paper else ours
            if rate is not None:
                points.setdefault(row.condition.method, []).append((human_episodes(row.condition.budget), rate))
        for method, rates in points.items():
            _draw_rates(ax, method, sorted(rates, key=lambda point: point[0]), paper)
    anchors = {human_episodes(row.condition.budget): row.condition.budget.robot_recovery for row in analysis.rows}
    amounts, varied = sorted(anchors), len(set(anchors.values())) > 1
    ax.set_xticks(amounts, [f"{amount}\n+ {anchors[amount]} R" if varied else str(amount) for amount in amounts])
    ax.set_xlabel("human episodes" + (" + robot recoveries" if varied else ""))
    ax.set_ylim(0, 100)
    ax.grid(axis="y", color=FAINT, linewidth=0.5)
    ax.set_title(title, loc="left", fontsize=10, fontweight="bold")
    return _image(figure)


def _draw_rates(ax: Axes, method: str, rates: Sequence[tuple[int, Rate]], paper: bool) -> None:
    colour, marker = STYLE.get(method, OTHER)
    amounts = np.array([amount for amount, _ in rates])
    shown = [(rate.value, rate.wilson.low, rate.wilson.high) for _, rate in rates]
    middle, low, high = 100 * np.array(shown).T
    if len(rates) == 1:
        ax.axhline(middle[0], color=colour, linewidth=1.3, linestyle=":")
    if paper:
        ax.plot(amounts, middle, color=colour, marker=marker, linestyle="--", linewidth=1.2, mfc="white", ms=5)
        return
    if len(rates) > 1:
        ax.fill_between(amounts, low, high, color=colour, alpha=0.14, linewidth=0)
    bars = whiskers(middle, low, high)
    ax.errorbar(amounts, middle, yerr=bars, color=colour, marker=marker, linewidth=1.8, elinewidth=1.1, ms=6)


def training_charts(results: SuiteResults) -> Iterator[tuple[str, str]]:
    """A row of panels per task, with the task's title. Dashed where data was collected otherwise."""
    logs = {cell.id: read_log(cell.folder / "log.jsonl") for cell in results.cells if not cell.condition.intervened}
    lines: dict[tuple[str, str], list[tuple[Condition, Points]]] = {}
    for cell in results.cells:
        for kind, name, _, log in CURVES:
            rows = [row for row in logs.get(cell.id, ()) if row.get("kind") == kind]
            points = [(row["step"], row[name]) for row in rows if _drawable(row.get(name), log)]
            if len(points) > 1:
                lines.setdefault((cell.task, name), []).append((cell.condition, _thinned(points)))
    for task in results.tasks:
        curves = [curve for curve in CURVES if (task, curve[1]) in lines]
        if not curves:
            continue
        figure, axes = _small_panels([title for _, _, title, _ in curves])
        for ax, (_, name, _, log) in zip(axes, curves, strict=True):
            for condition, points in lines[task, name]:
                style = "--" if condition.collection else "-"
                ax.plot(*zip(*points, strict=True), style, color=STYLE.get(condition.method, OTHER)[0], linewidth=1.1)
            if log:
                ax.set_yscale("log")
                ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                ax.yaxis.set_major_formatter("{x:g}")
                ax.yaxis.set_minor_formatter(NullFormatter())
            ax.set_xlim(left=0)
            ax.set_xlabel("steps")
        yield task_title(task), _image(figure)


def _drawable(value: object, log: bool) -> bool:
    return isinstance(value, (int, float)) and abs(value) < 1e15 and (value > 0 or not log)


def _thinned(points: Points) -> Points:
    """Means of equal stretches between the first and the last point: a light page, and a curve without its noise."""
    if len(points) <= MOST_POINTS:
        return points
    edges = [round(number * len(points) / MOST_POINTS) for number in range(MOST_POINTS + 1)]
    parts = [np.mean(points[a:b], axis=0) for a, b in pairwise(edges)]
    return [points[0], *((float(x), float(y)) for x, y in parts), points[-1]]


def gate_chart(gates: Sequence[GateInRollouts]) -> str:
    """Mean gate over time, a panel per task. Solid: rollouts that succeed; dashed: those that do not."""
    figure, axes = _small_panels([task_title(gate.task) for gate in gates])
    for ax, gate in zip(axes, gates, strict=True):
        for (regime, succeeded), means in gate.curves.items():
            times_s = gate.decision_s * np.arange(len(means))
            ax.plot(times_s, means, "-" if succeeded else "--", color=GATE_COLOUR[regime], linewidth=1.5)
        ax.set_ylim(0, 1)
        ax.set_xlim(left=0)
        ax.set_xlabel("seconds")
    return _image(figure)


def _small_panels(titles: Sequence[str]) -> tuple[Figure, Sequence[Axes]]:
    """In a row with room for four."""
    figure, [axes] = panels(1, max(len(titles), 4), width_in=11.8, height_in=2.1)
    for ax in axes[len(titles) :]:
        ax.set_visible(False)
    for ax, title in zip(axes, titles, strict=False):
        ax.set_title(title, loc="left", fontsize=9)
    return figure, list(axes[: len(titles)])


def _image(figure: Figure) -> str:
    return data_uri(svg(figure), "image/svg+xml")
