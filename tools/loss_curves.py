"""A picture of training runs: losses, gate and held-out errors over steps.

python tools/loss_curves.py docs/pictures/training.png runs/a/log.jsonl runs/b/log.jsonl
"""

import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from egorecovery.training.logs import read_log

PANELS = (  # title, kind of row, fields
    ("imitation loss", "train", {"imitation_robot": "robot", "imitation_human": "human"}),
    ("intent loss (L1, four coefficients)", "train", {"intent": "both"}),
    ("gate accuracy in training", "train", {"gate_accuracy": "both"}),
    (
        "held-out action error",
        "held_out",
        {
            "action_error/robot_success": "robot success",
            "action_error/robot_recovery": "robot recovery",
            "action_error/human_recovery": "human recovery",
            "probe/action_error/robot_recovery": "robot, any failure",
        },
    ),
    (
        "held-out gate AUC",
        "held_out",
        {"gate_auc/robot": "robot", "gate_auc/human": "human", "probe/gate_auc/robot": "robot, any failure"},
    ),
    (
        "held-out intent error over that of the mean",
        "held_out",
        {
            "intent_error/robot": "robot",
            "intent_error/human": "human",
            "probe/intent_error/robot": "robot, any failure",
        },
    ),
)
COLOURS = {
    "robot": "#0072B2",
    "robot success": "#56B4E9",
    "robot recovery": "#0072B2",
    "human": "#D55E00",
    "human recovery": "#D55E00",
    "robot, any failure": "#009E73",
    "both": "#333333",
}
STYLES = ("-", "--", ":")


def main(out: Path, logs: list[Path]) -> None:
    mpl.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure = Figure(figsize=(11, 6), layout="constrained")
    for axes, (title, kind, names) in zip(figure.subplots(2, 3).flat, PANELS, strict=True):
        for log, style in zip(logs, STYLES, strict=False):
            rows = read_log(log, kind)
            for name, label in names.items():
                points = [(row["step"], _value(row, name)) for row in rows if name in row]
                words = label if len(logs) == 1 else f"{label} ({log.parent.name or log.stem})"
                if points:
                    axes.plot(*zip(*points, strict=True), style, color=COLOURS[label], label=words, lw=1.5)
        if "loss" in title:
            axes.set_yscale("log")
        if "mean" in title:
            axes.axhline(1, color="#999999", lw=0.8)
        axes.set_title(title, loc="left", fontsize=9.5)
        axes.set_xlabel("step")
        axes.legend(frameon=False, fontsize=7.5)
    figure.savefig(out, dpi=110)


def _value(row: dict[str, float], name: str) -> float:
    of_mean = name.replace("intent_error/", "intent_error_of_mean/")
    return row[name] / row[of_mean] if of_mean != name else row[name]


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
