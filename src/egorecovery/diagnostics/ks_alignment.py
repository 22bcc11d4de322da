"""Is the intent target itself comparable across embodiments? KS distance per DCT coefficient.

Paper, "Additional Ablations and Mechanism Analysis", first diagnostic: the two-sample Kolmogorov-Smirnov distance
between the robot's and the human's values of each of the K = 4 DCT magnitudes, once over whole success trajectories
and once over recovery windows; 95% bootstrap intervals from 1,000 resamples; 0.15 marks strong overlap, 0.30 weak.

Beyond the paper: given episode numbers, whole episodes are resampled, since neighbouring windows share 15 of their 16
points; and `chance` is the distance that exchanging episodes between robot and human exceeds in 5% of cases. A
distance below it is no evidence of a difference. Resampled distances lean upward, so near zero the interval may lie
above its own estimate: judge small distances by `chance`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy import ndarray

from egorecovery.diagnostics.episode_bootstrap import RESAMPLES, SEED, episode_index, percentile_interval, times_drawn
from egorecovery.diagnostics.figures import (
    FAINT,
    MIDDLE,
    STRONG,
    TITLE_PT,
    WEAK,
    legend_below,
    panels,
    title_of,
    whiskers,
)
from egorecovery.diagnostics.result import Result
from egorecovery.episodes import Phase
from egorecovery.intent import FrameLabels, Verdict
from egorecovery.randomness import generator_for

STRONG_OVERLAP, WEAK_OVERLAP = 0.15, 0.30  # the paper's green and red reference lines
_CELLS = 4_000_000  # numbers held at once while resampling: 32 MB


@dataclass(frozen=True, kw_only=True, eq=False)
class KsAlignment(Result):
    """Distance of robot and human by coefficient (K of them), and their mean, the paper's KS_R or KS_S."""

    ks: Float[ndarray, " K"]
    low: Float[ndarray, " K"]
    high: Float[ndarray, " K"]
    chance: Float[ndarray, " K"]  # 95th percentile when episodes are exchanged between embodiments
    mean_ks: float
    mean_low: float
    mean_high: float
    mean_chance: float
    frames: tuple[int, int]  # robot, human
    episodes: tuple[int, int]


def comparable_windows(labels: FrameLabels, phase: Phase) -> Bool[ndarray, " T"]:
    """Which frames of an episode enter a pool: m_t in a recovery; in a success every window that fits and moves.

    Success episodes carry no mask of their own (the paper sets both to false), so the verdict says it.
    """
    if phase is Phase.RECOVERY:
        return labels.intent_mask
    return labels.verdict == Verdict.OUTSIDE_PHASE


def ks_alignment(
    robot: Float[ndarray, "N K"],
    human: Float[ndarray, "M K"],
    *,
    robot_episode: Int[ndarray, " N"] | None = None,
    human_episode: Int[ndarray, " M"] | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> KsAlignment:
    """Compares two pools of targets, already divided by their own s_d. Without episodes, frames are resampled."""
    of_robot = episode_index(robot_episode, len(robot), "the robot")
    of_human = episode_index(human_episode, len(human), "the human")
    n_robot, n_human = int(of_robot.max()) + 1, int(of_human.max()) + 1
    steps = _Steps(np.concatenate([robot, human]).astype(np.float64))
    of_frame = np.concatenate([of_robot, n_robot + of_human])
    is_robot = np.arange(n_robot + n_human) < n_robot

    distances = steps.distance(_signed(of_frame, is_robot, np.ones((1, n_robot + n_human))))[0]
    drawn, exchanged = [], []
    bootstrap, permutation = (
        generator_for(seed=seed, purpose=why) for why in ("KS bootstrap", "KS episodes exchanged")
    )
    batch = max(1, _CELLS // len(of_frame))
    for first in range(0, resamples, batch):
        count = min(batch, resamples - first)
        counts = np.hstack([times_drawn(n_robot, count, bootstrap), times_drawn(n_human, count, bootstrap)])
        drawn.append(steps.distance(_signed(of_frame, is_robot, counts.astype(np.float64))))
        sides = permutation.permuted(np.tile(is_robot, (count, 1)), axis=1)
        exchanged.append(steps.distance(_signed(of_frame, sides, np.ones(sides.shape))))
    boot, null = np.concatenate(drawn), np.concatenate(exchanged)
    low, high = percentile_interval(boot)
    mean_low, mean_high = percentile_interval(boot.mean(axis=1))
    return KsAlignment(
        ks=distances,
        low=low,
        high=high,
        chance=np.percentile(null, 95, axis=0),
        mean_ks=float(distances.mean()),
        mean_low=float(mean_low),
        mean_high=float(mean_high),
        mean_chance=float(np.percentile(null.mean(axis=1), 95)),
        frames=(len(robot), len(human)),
        episodes=(n_robot, n_human),
    )


class _Steps:
    """Both distribution functions walk up the same sorted values; only the weights differ between resamples."""

    def __init__(self, pooled: Float[ndarray, "F K"]) -> None:
        self._orders = [np.argsort(column, kind="stable") for column in pooled.T]
        # Equal values are one step: the functions are compared after the last of them.
        ranked = [column[order] for column, order in zip(pooled.T, self._orders, strict=True)]
        self._ends = [np.append(np.diff(values) > 0, True) for values in ranked]

    def distance(self, signed: Float[ndarray, "B F"]) -> Float[ndarray, "B K"]:
        """Largest gap between the two functions, for each set of weights and each coefficient."""
        gaps = [
            np.abs(np.cumsum(signed[:, order], axis=1)[:, end]).max(axis=1)
            for order, end in zip(self._orders, self._ends, strict=True)
        ]
        return np.stack(gaps, axis=1)


def _signed(
    of_frame: Int[ndarray, " F"], is_robot: Bool[ndarray, "*batch E"], weight: Float[ndarray, "B E"]
) -> Float[ndarray, "B F"]:
    """Each frame's share of its embodiment's pool, the human's negative."""
    robot = (weight * is_robot)[:, of_frame]
    human = (weight * ~is_robot)[:, of_frame]
    return robot / robot.sum(axis=1, keepdims=True) - human / human.sum(axis=1, keepdims=True)


def ks_figure(tasks: Mapping[str, Mapping[Phase, KsAlignment]]) -> Figure:
    """The paper's bars, one panel per task: success light, recovery dark."""
    figure, axes = panels(1, len(tasks), width_in=3.7 * len(tasks) + 0.4, height_in=3.8, same_y=True)
    shade = {Phase.SUCCESS: FAINT, Phase.RECOVERY: MIDDLE}
    for ax, (task, phases) in zip(axes[0], tasks.items(), strict=True):
        for phase, alignment in phases.items():
            place = np.arange(len(alignment.ks)) + (0.19 if phase is Phase.RECOVERY else -0.19)
            ax.bar(place, alignment.ks, 0.36, color=shade[phase], zorder=2)
            ax.errorbar(
                place,
                alignment.ks,
                whiskers(alignment.ks, alignment.low, alignment.high),
                fmt="none",
                ecolor="black",
                capsize=2.5,
                elinewidth=0.9,
                zorder=3,
            )
            ax.hlines(
                alignment.chance, place - 0.18, place + 0.18, colors="black", linestyles=":", linewidth=1.6, zorder=4,
            )  # fmt: skip
        ax.axhline(STRONG_OVERLAP, color=STRONG, linestyle="--", linewidth=1.2, zorder=1)
        ax.axhline(WEAK_OVERLAP, color=WEAK, linestyle="-.", linewidth=1.2, zorder=1)
        means = ", ".join(f"{phase} {alignment.mean_ks:.2f}" for phase, alignment in phases.items())
        ax.set_title(f"{title_of(task)}\nmean KS: {means}", fontsize=TITLE_PT)
        ax.set_xticks(range(len(next(iter(phases.values())).ks)))
        ax.set_xlabel("DCT coefficient $k$")
    axes[0][0].set_ylim(
        0, 1.05 * max(alignment.high.max() for phases in tasks.values() for alignment in phases.values())
    )
    axes[0][0].set_ylabel("KS distance, robot to human")
    handles = [
        Patch(color=shade[Phase.SUCCESS], label="success trajectories"),
        Patch(color=shade[Phase.RECOVERY], label="recovery windows"),
        Line2D([], [], color="black", linestyle=":", label="chance (episodes exchanged, 95%)"),
        Line2D([], [], color=STRONG, linestyle="--", label=f"strong overlap {STRONG_OVERLAP:.2f}"),
        Line2D([], [], color=WEAK, linestyle="-.", label=f"weak overlap {WEAK_OVERLAP:.2f}"),
    ]
    legend_below(figure, handles)
    return figure
