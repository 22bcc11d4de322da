"""One look for all figures: the same colours for robot and human everywhere, safe for colour-blind eyes.

Figures are made without pyplot, so nothing is global and any process may draw.
"""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.container import Container
from matplotlib.figure import Figure
from numpy import ndarray

from egorecovery.episodes import Embodiment
from egorecovery.storage.atomic_io import write_file

# Okabe and Ito's palette: distinct for every common kind of colour blindness, and different in lightness.
ROBOT, HUMAN = "#0072B2", "#E69F00"
STRONG, WEAK = "#009E73", "#D55E00"  # reference lines; never told apart by colour alone
NEUTRAL, MIDDLE, FAINT = "#595959", "#858585", "#C8C8C8"  # black lines stay readable on MIDDLE and FAINT
OTHERS = (MIDDLE, STRONG, "#CC79A7", "#56B4E9", WEAK)  # for what is neither robot nor human
TITLE_PT = 10
COLOUR = {Embodiment.ROBOT: ROBOT, Embodiment.HUMAN: HUMAN}

TITLES = {
    "cup_brush": "Cup brush insertion",
    "table_sweep": "Table sweep",
    "round_disk": "Round disk placement",
    "cube_stack": "Cube stack",
}


def panels(
    rows: int, columns: int, *, width_in: float, height_in: float, same_y: bool = False
) -> tuple[Figure, ndarray]:
    """A figure and its axes as a (rows, columns) array."""
    figure = Figure(figsize=(width_in, height_in), dpi=150, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey="row" if same_y else False)
    for ax in axes.ravel():
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8, color=NEUTRAL)
        ax.xaxis.label.set_size(9)
        ax.yaxis.label.set_size(9)
    return figure, axes


def title_of(task: str) -> str:
    return TITLES.get(task, task.replace("_", " "))


def note(ax: Axes, text: str, *, at: tuple[float, float], align: str = "left", base: str = "top") -> None:
    """A boxed remark, placed in fractions of the axes."""
    box = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": FAINT, "alpha": 0.9}
    ax.text(*at, text, transform=ax.transAxes, ha=align, va=base, fontsize=7.5, bbox=box, zorder=10)


def legend_below(figure: Figure, handles: Sequence[Artist | Container]) -> None:
    """One row if it fits the figure's width, else as many columns as do."""
    # At 8 pt about 0.062 inch per character, and half an inch for the sample and the gap.
    widths = [0.55 + 0.062 * len(str(handle.get_label())) for handle in handles]
    room = figure.get_figwidth()
    columns = len(handles) if sum(widths) <= room else max(1, int(room // max(widths)))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)


def whiskers(middle: ndarray, low: ndarray, high: ndarray) -> ndarray:
    """Lengths for `yerr`. A percentile interval need not hold its own estimate; lengths cannot be negative."""
    return np.maximum(np.stack([middle - low, high - middle]), 0.0)


def png(figure: Figure, dpi: int = 200) -> bytes:
    """The picture itself, for a report that must work offline."""
    stream = BytesIO()
    figure.savefig(stream, format="png", dpi=dpi)
    return stream.getvalue()


def write_figure(figure: Figure, path: Path) -> None:
    """As PNG, in one step."""
    write_file(path, png(figure))


def svg(figure: Figure) -> bytes:
    """Sharp at any size, with letters as text; the same bytes for the same figure."""
    stream = BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "egorecovery"}):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return stream.getvalue()
