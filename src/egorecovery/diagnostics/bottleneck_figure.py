"""The picture of the bottleneck: PCA-2 before and after it, and distances with their shrink factors."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from egorecovery.diagnostics.bottleneck_alignment import BottleneckAlignment, Plane, SpaceAlignment
from egorecovery.diagnostics.figures import (
    FAINT,
    HUMAN,
    MIDDLE,
    ROBOT,
    STRONG,
    TITLE_PT,
    legend_below,
    note,
    panels,
    title_of,
)

_MARKER = {True: "o", False: "^"}  # recovery, nominal


def bottleneck_figure(tasks: Mapping[str, BottleneckAlignment]) -> Figure:
    """One row per task."""
    figure, axes = panels(len(tasks), 3, width_in=10.5, height_in=3.0 * len(tasks) + 0.5)
    for row, (task, alignment) in zip(axes, tasks.items(), strict=True):
        _scatter(row[0], alignment.feature_plane, alignment.feature)
        _scatter(row[1], alignment.intent_plane, alignment.intent)
        _bars(row[2], alignment)
        row[0].set_title(f"{title_of(task)}: trunk feature ({alignment.feature.dimensions}-D)", fontsize=TITLE_PT)
        row[1].set_title(f"predicted intent $c_t$ ({alignment.intent.dimensions}-D)", fontsize=TITLE_PT)
        row[2].set_title(
            "robot-human distance: shrink of $W_2^R$\n(in brackets: of its share of the spread)", fontsize=9
        )
    handles = [
        Line2D([], [], linestyle="", color=colour, marker=_MARKER[recovery], label=f"{who}, {phase}")
        for who, colour in (("robot", ROBOT), ("human", HUMAN))
        for recovery, phase in ((True, "recovery"), (False, "nominal"))
    ]
    handles.append(Line2D([], [], color="black", linestyle=":", label="within one embodiment (halves of its episodes)"))
    legend_below(figure, handles)
    return figure


def _scatter(ax: Axes, plane: Plane, space: SpaceAlignment) -> None:
    for human, colour in ((False, ROBOT), (True, HUMAN)):
        for recovery, marker in _MARKER.items():
            chosen = (plane.human == human) & (plane.recovery == recovery)
            ax.scatter(*plane.points[chosen].T, s=9, marker=marker, color=colour, alpha=0.55, linewidths=0)
    ax.set_xlabel("PC 1 (units of the space)")
    ax.set_ylabel("PC 2")
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.32 * (high - low))  # room for the remark, off the points
    text = (
        f"$W_2^R$ {space.recovery_w2:.3g}   $\\rho$ {space.rho:.2f}\n"
        f"of spread {space.relative_w2:.2f}   PCA-2 shows {100 * plane.explained:.0f}%"
    )
    note(ax, text, at=(0.03, 0.97))


def _bars(ax: Axes, found: BottleneckAlignment) -> None:
    spaces = {
        "trunk\nfeature": found.feature,
        "trained\nintent": found.intent,
        "random\nJL": found.random_jl,
        f"PCA-{found.pca.dimensions}": found.pca,
    }
    place = np.arange(len(spaces))
    height = np.array([space.relative_w2 for space in spaces.values()])
    ax.bar(place, height, 0.6, color=[MIDDLE, STRONG, FAINT, FAINT])
    tops = []
    for at, space in zip(place, spaces.values(), strict=True):
        # within_w2 in the bar's own unit: shares of the spread.
        within = space.within_w2 * space.relative_w2 / space.recovery_w2 if space.recovery_w2 > 0 else float("nan")
        ax.hlines(within, at - 0.3, at + 0.3, colors="black", linestyles=":", linewidth=1.6)
        tops.append(float(np.nanmax([space.relative_w2, within])))
        if space is not found.feature:
            label = f"{space.shrink:.1f}x\n({space.relative_shrink:.1f}x)"
            ax.annotate(label, (at, tops[-1]), (0, 3), textcoords="offset points", ha="center", fontsize=8)
    ax.set_xticks(place, list(spaces))
    ax.set_ylabel("$W_2^R$ as a share of the spread")
    ax.set_ylim(0, 1.25 * max(tops))
