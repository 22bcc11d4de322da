"""Draws what trainings logged: losses, gate, and scores on held-out episodes.

python benchmarks/curves.py docs/pictures/training.png FOLDER ... [--names cup_brush ...]

A folder is a run, or a cell of an experiment: whatever has a log.jsonl. Folders of one name (a task, say) share a
colour.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl
import tyro
from tyro.conf import Positional

from egorecovery.training.logs import read_log

mpl.use("agg")
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
ROBOT, HUMAN = "-", (0, (4, 2))
Value = Callable[[dict[str, Any]], float | None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is drawn."""

    out: Positional[Path]
    folders: Positional[tuple[Path, ...]]
    names: tuple[str, ...] = ()
    """Of the folders, in their order; their own names if not given."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    title: str
    kind: str  # of log rows
    lines: tuple[tuple[Value, Any], ...]  # what is drawn, and in which dashes
    log_scale: bool = False


def of(name: str) -> Value:
    return lambda row: row.get(name)


def over_mean(embodiment: str) -> Value:
    def ratio(row: dict[str, Any]) -> float | None:
        found, usual = (row.get(f"{name}/{embodiment}") for name in ("intent_error", "intent_error_of_mean"))
        return found / usual if found is not None and usual else None

    return ratio


PANELS = (
    Panel(
        title="imitation loss",
        kind="train",
        lines=((of("imitation_robot"), ROBOT), (of("imitation_human"), HUMAN)),
        log_scale=True,
    ),
    Panel(title="intent loss, both", kind="train", lines=((of("intent"), ROBOT),), log_scale=True),
    Panel(title="gate accuracy in training, both", kind="train", lines=((of("gate_accuracy"), ROBOT),)),
    Panel(
        title="held-out action error, recoveries",
        kind="held_out",
        lines=((of("action_error/robot_recovery"), ROBOT), (of("action_error/human_recovery"), HUMAN)),
    ),
    Panel(
        title="held-out gate AUC", kind="held_out", lines=((of("gate_auc/robot"), ROBOT), (of("gate_auc/human"), HUMAN))
    ),
    Panel(
        title="held-out intent error over that of the mean",
        kind="held_out",
        lines=((over_mean("robot"), ROBOT), (over_mean("human"), HUMAN)),
    ),
)


def draw(folders: Sequence[Path], names: Sequence[str], out: Path) -> None:
    colours = dict(zip(dict.fromkeys(names), cycle(COLOURS), strict=False))
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.6), layout="constrained")
    for panel, axis in zip(PANELS, axes.flat, strict=True):
        for folder, name in zip(folders, names, strict=True):
            rows = read_log(folder / "log.jsonl", panel.kind)
            for value, dashes in panel.lines:
                points = [(row["step"], found) for row in rows if (found := value(row)) is not None]
                if points:
                    axis.plot(*zip(*points, strict=True), color=colours[name], linestyle=dashes, linewidth=1.2)
        axis.set_title(panel.title, loc="left", fontsize=10)
        axis.set_yscale("log" if panel.log_scale else "linear")
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xlabel("step")
    keys = [Line2D([], [], color=colour, label=name) for name, colour in colours.items()]
    keys += [
        Line2D([], [], color="k", linestyle=dashes, label=who) for who, dashes in (("robot", ROBOT), ("human", HUMAN))
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), frameon=False)
    figure.savefig(out, dpi=100)


def main(options: Options) -> None:
    names = options.names or tuple(folder.name for folder in options.folders)
    draw(options.folders, names, options.out)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
